"""Rules for users' own classes: from a map file and registered, both directions, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.dumpfile import ConfigError
from padiff.pairing import MapFile, carry, forget_class, plan_weights, register_class
from padiff.pairing.weights.weight_rules import ClassRule, registered_classes
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Mapping

RNG = np.random.default_rng(2)
LINEAR = "torch.nn.modules.linear.Linear"
PACKED = """
[[rule]]
class = "mylib.PackedAttention"
kind = "attention"
qkv = "q.weight, k.weight, v.weight | concat 0 | transpose"
out = "out.weight"
"""


def _side(framework: str, leaf: str, class_path: str, arrays: Mapping[str, Any]) -> MemorySide:
    builder = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    builder.module(leaf, class_path.rpartition(".")[2], class_path=class_path)
    for name, array in arrays.items():
        builder.tensor(leaf, name, array)
    return builder.side()


def _map(class_name: str, weights: str, kind: str = "linear") -> MapFile:
    return MapFile.parse(f'[[rule]]\nclass = "{class_name}"\nkind = "{kind}"\n{weights}\n')


def _random(*shape: int) -> Any:  # noqa: ANN401 - an array of any kind
    return RNG.normal(size=shape)


def test_square_matrix_of_a_users_class_lies_as_its_rule_says() -> None:
    one = _side("torch", "fc", LINEAR, {"weight": _random(4, 4)})
    two = _side("torch", "fc", "mylib.Dense", {"kernel": _random(4, 4)})
    rules = _map("mylib.Dense", 'kernel = "weight | transpose"')

    there = plan_weights(one, two, map_file=rules)
    back = plan_weights(two, one, map_file=rules)

    for plan in (there, back):
        assert [str(pair.rule) for pair in plan.pairs] == ["transpose"]
        assert not plan.ambiguous
        assert not plan.missing


def test_without_a_rule_the_same_matrix_is_ambiguous() -> None:
    one = _side("torch", "fc", LINEAR, {"weight": _random(4, 4)})
    two = _side("torch", "fc", "mylib.Dense", {"weight": _random(4, 4)})

    assert plan_weights(one, two).ambiguous


def test_rule_alone_is_that_of_the_parameter_of_the_same_name() -> None:
    one = _side("torch", "fc", LINEAR, {"weight": _random(4, 4)})
    two = _side("torch", "fc", "mylib.Dense", {"weight": _random(4, 4)})

    (pair,) = plan_weights(one, two, map_file=_map("mylib.*", 'weight = "transpose"')).pairs

    assert str(pair.rule) == "transpose"


def test_rule_of_a_class_without_kind_is_obeyed() -> None:
    rules = MapFile.parse('[[rule]]\nclass = "a.Mix"\nmatrix = "permute 1 0 2"\n')
    one = _side("torch", "mix", "b.Mix", {"matrix": _random(3, 3, 3)})
    two = _side("torch", "mix", "a.Mix", {"matrix": _random(3, 3, 3)})

    (pair,) = plan_weights(one, two, map_file=rules).pairs

    assert str(pair.rule) == "permute 1 0 2"


def test_pack_of_a_users_class_is_taken_apart_and_made() -> None:
    packed = {"in_proj_weight": _random(12, 4), "out_proj.weight": _random(4, 4)}
    one = _side("torch", "attn", "torch.nn.MultiheadAttention", packed)
    split = {f"{name}_proj.weight": _random(4, 4) for name in ("q", "k", "v", "out")}
    two = _side("paddle", "attn", "paddle.nn.MultiHeadAttention", split)
    own = _side(
        "torch", "attn", "mylib.PackedAttention", {"qkv": _random(4, 12), "out": _random(4, 4)}
    )
    rules = MapFile.parse(PACKED)

    made = [_carried(side, own, rules)["attn.qkv"] for side in (one, two)]
    taken = _carried(own, two, rules)

    np.testing.assert_array_equal(made[0], packed["in_proj_weight"].T)
    columns = [split[f"{name}_proj.weight"] for name in ("q", "k", "v")]
    np.testing.assert_array_equal(made[1], np.concatenate(columns, axis=1))
    np.testing.assert_array_equal(
        taken["attn.k_proj.weight"], _carried(own, own, rules)["attn.qkv"][:, 4:8]
    )


def _carried(reference: MemorySide, candidate: MemorySide, rules: MapFile) -> dict[str, Any]:
    plan = plan_weights(reference, candidate, map_file=rules)
    assert not plan.missing
    assert not plan.ambiguous
    arrays = {f"attn{record.slot}": reference.array(record) for record in reference.index.records}
    return carry(plan, reference, candidate, arrays)


def test_registered_rule_holds_until_it_is_taken_back() -> None:
    one = _side("torch", "fc", LINEAR, {"weight": _random(4, 4)})
    two = _side("torch", "fc", "mylib.Dense", {"weight": _random(4, 4)})
    rule = register_class("mylib.Dense", {"weight": "transpose"}, kind="linear")
    try:
        (pair,) = plan_weights(one, two).pairs
    finally:
        forget_class(rule)

    assert str(pair.rule) == "transpose"
    assert not pair.is_ambiguous
    assert registered_classes() == ()


def test_rule_for_a_base_class_holds_for_its_heirs() -> None:
    one = _side("torch", "fc", LINEAR, {"weight": _random(4, 4)})
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module("fc", "Child", class_path="user.Child", bases=("mylib.Dense",))
    two = builder.tensor("fc", "weight", _random(4, 4)).side()

    (pair,) = plan_weights(one, two, map_file=_map("mylib.Dense", 'weight = "transpose"')).pairs

    assert str(pair.rule) == "transpose"


def test_convolution_of_transformers_that_is_a_product_is_known() -> None:
    one = _side("torch", "c_attn", LINEAR, {"weight": _random(4, 4)})
    two = _side("torch", "c_attn", "transformers.pytorch_utils.Conv1D", {"weight": _random(4, 4)})

    (pair,) = plan_weights(one, two).pairs

    assert str(pair.rule) == "transpose"
    assert not pair.is_ambiguous


@pytest.mark.parametrize(
    ("weights", "kind"),
    [
        ({}, None),
        ({"weight": "weight | rows 0/3"}, None),
        ({"weight": "a, b"}, None),
        ({"weight": "a | concat 0"}, None),
        ({"weight": "a, b | stack"}, None),
        ({"weight": ""}, None),
        ({"weight": "weight | turn"}, None),
        ({"weight": "weight"}, "linaer"),
    ],
)
def test_rule_that_cannot_be_used_is_refused(weights: dict[str, str], kind: str | None) -> None:
    with pytest.raises(ConfigError):
        ClassRule.parse("mylib.Dense", weights, kind=kind)


def test_map_file_names_the_entry_that_is_wrong() -> None:
    text = '[[rule]]\nclass = "a.B"\nweight = "turn 3 | x"\n'

    with pytest.raises(ConfigError) as caught:
        MapFile.parse(text)

    assert caught.value.details[0].startswith("[[rule]] 1: ")


def test_rule_about_no_class_of_either_side_is_remarked_upon() -> None:
    one = _side("torch", "fc", LINEAR, {"weight": _random(4, 4)})

    (note,) = plan_weights(one, one, map_file=_map("mylib.Dense", 'weight = "transpose"')).notes

    assert "mylib.Dense" in note
