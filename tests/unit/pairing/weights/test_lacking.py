"""A key without bias beside a query and a value with one, against a fused projection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.dumpfile import Role
from padiff.pairing.result import SideName
from padiff.pairing.weights.fused import NOT_EMPTY
from padiff.pairing.weights.plan import plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.pairing.weights.weight_plan import WeightPlan

Array = npt.NDArray[Any]
_WIDTH = 4


def _side(
    framework: str, layers: Mapping[str, Mapping[str, Array]], bare: Mapping[str, Array] = {}
) -> MemorySide:
    """Give a side of blocks with an attention each; ``bare`` vectors lie in the first one."""
    builder = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    blocks = dict.fromkeys(path.rpartition(".")[0] for path in layers)
    builder.module("blocks", "ModuleList")
    for number, block in enumerate(blocks):
        builder.module(block, "Attention", class_path="user.Attention")
        for name, array in bare.items() if number == 0 else ():
            builder.tensor(block, name, array, role=Role.WEIGHT)
    for path, arrays in layers.items():
        builder.module(path, "Linear", class_path=f"{framework}.nn.Linear")
        for name, array in arrays.items():
            builder.tensor(path, name, array, role=Role.WEIGHT)
    return builder.side()


def _split(rng: np.random.Generator, lacking: str = "k", blocks: int = 2) -> dict[str, Any]:
    return {
        f"blocks.{block}.{name}_proj": {"weight": rng.normal(size=(_WIDTH, _WIDTH))}
        | ({} if name in lacking else {"bias": rng.normal(size=_WIDTH)})
        for block in range(blocks)
        for name in "qkv"
    }


def _fused(layers: Mapping[str, Mapping[str, Array]], key_bias: float = 0.0) -> dict[str, Any]:
    found = {}
    for block in dict.fromkeys(path.rpartition(".")[0] for path in layers):
        own = [layers[f"{block}.{name}_proj"] for name in "qkv"]
        none = np.full(_WIDTH, key_bias)
        found[f"{block}.qkv"] = {
            "weight": np.concatenate([part["weight"] for part in own]).T,
            "bias": np.concatenate([part.get("bias", none) for part in own]),
        }
    return found


def _rules(plan: WeightPlan, candidate: MemorySide) -> dict[str, str]:
    index = candidate.index
    return {
        index.modules[(record := index.records[pair.candidate]).module].path + record.slot: str(
            pair.rule
        )
        for pair in plan.pairs
    }


def test_a_fused_bias_gets_zeros_for_a_key_that_has_none_and_says_so() -> None:
    layers = _split(np.random.default_rng(0))
    reference, candidate = _side("torch", layers), _side("paddle", _fused(layers))

    plan = plan_weights(reference, candidate)

    assert not plan.missing
    assert _rules(plan, candidate)["blocks.1.qkv.bias"] == "zeros 1 4 | concat 0"
    (note,) = plan.notes
    assert "'blocks.#.k_proj' of the reference has no bias" in note
    assert "'blocks.#.qkv' gets zeros for it" in note


def test_the_pairs_make_what_the_fused_one_holds() -> None:
    layers = _split(np.random.default_rng(1))
    reference, candidate = _side("torch", layers), _side("paddle", _fused(layers))

    for pair in plan_weights(reference, candidate).pairs:
        target = candidate.index.records[pair.candidate]
        sources = [reference.array(reference.index.records[one]) for one in pair.reference]
        np.testing.assert_array_equal(
            pair.rule.apply(sources, target.shape), candidate.array(target)
        )


def test_zeros_of_a_fused_bias_need_no_partner() -> None:
    layers = _split(np.random.default_rng(2))
    reference, candidate = _side("paddle", _fused(layers)), _side("torch", layers)

    plan = plan_weights(reference, candidate)

    assert not plan.missing
    rules = _rules(plan, candidate)
    assert [rules[f"blocks.0.{name}_proj.bias"] for name in "qv"] == ["rows 0/3", "rows 2/3"]
    assert "holds zeros for it, which go nowhere" in plan.notes[0]


def test_a_fused_bias_that_is_not_zero_for_the_key_is_missing_with_the_reason() -> None:
    layers = _split(np.random.default_rng(3))
    reference, candidate = _side("paddle", _fused(layers, key_bias=1e-6)), _side("torch", layers)

    plan = plan_weights(reference, candidate)

    lost = [one for one in plan.missing if one.side is SideName.REFERENCE]
    assert {reference.index.records[one.record].slot for one in lost} == {".bias"}
    assert {one.reason for one in lost} == {NOT_EMPTY}
    assert {len(pair.rule.steps) for pair in plan.pairs} == {2}  # the weights, in parts and turned
    assert not plan.notes


@pytest.mark.parametrize("fused_first", [True, False])
def test_a_bias_that_only_one_of_several_keys_lacks_is_missing(*, fused_first: bool) -> None:
    layers = _split(np.random.default_rng(4), lacking="")
    whole = _fused(layers)
    del layers["blocks.1.k_proj"]["bias"]
    sides = _side("paddle", whole), _side("torch", layers)

    plan = plan_weights(*(sides if fused_first else sides[::-1]))

    assert plan.missing
    assert not any("zeros" in str(pair.rule) for pair in plan.pairs)
    assert not plan.notes


def test_a_vector_beside_that_could_be_the_bias_is_not_passed_over() -> None:
    layers = _split(np.random.default_rng(5), blocks=1)
    reference = _side("torch", layers, {"key_bias": np.ones(_WIDTH)})
    candidate = _side("paddle", _fused(layers, key_bias=1.0))

    plan = plan_weights(reference, candidate)

    assert plan.missing
    assert not any("zeros" in str(pair.rule) for pair in plan.pairs)


def test_parts_that_all_lack_a_bias_leave_the_fused_one_missing() -> None:
    layers = _split(np.random.default_rng(6), lacking="qkv")
    reference, candidate = _side("torch", layers), _side("paddle", _fused(layers))

    assert plan_weights(reference, candidate).missing


@pytest.mark.parametrize("is_join", [True, False])
def test_vectors_beside_a_fused_layer_are_the_biases_that_their_names_say(*, is_join: bool) -> None:
    """The authors of BEIT keep ``q_bias`` and ``v_bias`` beside a projection without bias."""
    layers = _split(np.random.default_rng(7), blocks=1)
    own = _fused(layers)
    bias = np.split(own["blocks.0.qkv"].pop("bias"), 3)
    sides = _side("torch", layers), _side("paddle", own, {"v_bias": bias[2], "q_bias": bias[0]})

    plan = plan_weights(*(sides if is_join else sides[::-1]))

    assert not plan.missing
    reference, candidate = sides if is_join else sides[::-1]
    for pair in plan.pairs:
        target = candidate.index.records[pair.candidate]
        sources = [reference.array(reference.index.records[one]) for one in pair.reference]
        np.testing.assert_array_equal(
            pair.rule.apply(sources, target.shape), candidate.array(target)
        )
