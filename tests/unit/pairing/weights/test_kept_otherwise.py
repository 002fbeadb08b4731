"""Weights that one author keeps otherwise: turned heads, axes of heads, tables of each layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.dumpfile import Role
from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

Array = npt.NDArray[Any]
RNG = np.random.default_rng(11)


def _random(*shape: int) -> Array:
    return RNG.normal(size=shape)


def _net(framework: str) -> DumpBuilder:
    return DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")


def _head(framework: str, class_path: str, *bases: str, shape: tuple[int, int]) -> MemorySide:
    built = _net(framework).module("lm_head", "Head", class_path=class_path, bases=bases)
    return built.tensor("lm_head", "weight", _random(*shape)).side()


@pytest.mark.parametrize(("rows", "columns", "rule"), [(9, 4, "identity"), (4, 9, "transpose")])
def test_class_that_derives_from_a_layer_may_turn_it(rows: int, columns: int, rule: str) -> None:
    one = _head("torch", "torch.nn.Linear", shape=(9, 4))
    own = _head("paddle", "user.Head", "paddle.nn.Linear", shape=(rows, columns))

    (pair,) = plan_weights(one, own).pairs

    assert str(pair.rule) == rule
    assert not pair.is_ambiguous


def _attention(framework: str, shape: tuple[int, ...], layers: int = 2) -> MemorySide:
    built = _net(framework)
    for layer in range(layers):
        path = f"layer.{layer}.attn"
        built.module(path, "Attention", class_path="user.Attention")
        for name in "qkvo":
            built.tensor(path, name, _random(*shape))
    return built.side()


@pytest.mark.parametrize("is_forward", [True, False])
@pytest.mark.parametrize("split", [(12, 4, 3), (4, 3, 12)])
def test_an_axis_of_heads_is_merged_with_its_neighbour(
    split: tuple[int, ...], *, is_forward: bool
) -> None:
    sides = _attention("torch", split), _attention("paddle", (12, 12))
    reference, candidate = sides if is_forward else sides[::-1]

    plan = plan_weights(reference, candidate)

    found = {
        names_of(candidate, [p.candidate]): names_of(reference, p.reference) for p in plan.pairs
    }
    assert found == {name: name for name in found}
    assert len(found) == 8
    assert {str(pair.rule) for pair in plan.pairs} == {"reshape"}
    assert not plan.missing
    assert not plan.ambiguous


def _tables(framework: str, names: dict[str, Array]) -> MemorySide:
    built = _net(framework)
    for name, array in names.items():
        path, _, local = name.rpartition(".")
        if path not in {module.path for module in built.modules}:
            built.module(path, "Rotary", class_path="user.Rotary")
        built.tensor(path, local, array, role=Role.BUFFER)
    return built.side()


@pytest.mark.parametrize("is_same", [True, False])
def test_choice_between_buffers_is_open_only_where_they_differ(*, is_same: bool) -> None:
    table = _random(8)
    other = table if is_same else _random(8)
    one = _tables("torch", {"rotary.inv_freq": table, "rotary.original_inv_freq": other})
    two = _tables("paddle", {f"h.{n}.rope.inv_freq": _random(8) for n in range(2)})

    assert bool(plan_weights(one, two).ambiguous) is not is_same


@pytest.mark.parametrize("fused", ["kv", "kv_proj", "to_kv", "key_value"])
def test_keys_and_values_fill_a_projection_beside_others_of_their_size(fused: str) -> None:
    one, two = _net("torch"), _net("torch")
    for layer in range(2):
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            path = f"blocks.{layer}.attention.{name}"
            one.module(path, "Linear", class_path="torch.nn.Linear")
            one.tensor(path, "weight", _random(8, 8))
        for name, rows in (("q", 8), (fused, 16), ("proj", 8)):
            path = f"block{layer}.attn.{name}"
            two.module(path, "Linear", class_path="torch.nn.Linear")
            two.tensor(path, "weight", _random(rows, 8))
    candidate = two.side()

    plan = plan_weights(one.side(), candidate)

    assert not plan.missing
    joined = {
        names_of(candidate, [pair.candidate]) for pair in plan.pairs if len(pair.reference) > 1
    }
    assert joined == {f"block{layer}.attn.{fused}.weight" for layer in range(2)}


@pytest.mark.parametrize("is_norm", [False, True])
def test_a_buffer_beside_the_weight_of_a_derived_layer_may_stay_alone(*, is_norm: bool) -> None:
    base = "torch.nn.BatchNorm1d" if is_norm else "torch.nn.Embedding"
    local = "kept" if is_norm else "embed_scale"
    one, two = _net("torch"), _net("torch")
    shape = (4,) if is_norm else (9, 4)
    one.module("a", "Own", class_path="user.Own", bases=(base,)).tensor(
        "a", "weight", _random(*shape)
    )
    one.tensor("a", local, _random(*shape[-1:]) if is_norm else np.array(3.0), role=Role.BUFFER)
    two.module("a", "Plain", class_path=base).tensor("a", "weight", _random(*shape))

    assert bool(plan_weights(one.side(), two.side()).missing) is is_norm
