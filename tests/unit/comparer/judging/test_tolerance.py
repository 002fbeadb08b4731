"""Which tolerance a pair gets."""

from __future__ import annotations

from typing import Any

import pytest

from padiff.comparer import ToleranceRule
from padiff.comparer.judging.basis import Basis
from padiff.comparer.judging.tolerance import TolerancePolicy
from padiff.comparer.result import Tolerance
from padiff.dumpfile import Address, ConfigError, Phase, Role


def address(module: str = "fc", role: Role = Role.OUTPUT, slot: str = "") -> Address:
    return Address(
        step=0,
        rank=0,
        module=module,
        class_name="Linear",
        call=None,
        phase=Phase.FORWARD,
        role=role,
        slot=slot,
    )


def chosen(policy: TolerancePolicy, at: Address, *dtypes: str, **basis: Any) -> Tolerance:  # noqa: ANN401
    reference, candidate = dtypes or ("float32", "float32")
    return policy.choose(at, at, Basis(dtypes=(reference, candidate), **basis))


def test_defaults_are_those_of_torch_testing() -> None:
    assert chosen(TolerancePolicy(), address()) == Tolerance(atol=1e-5, rtol=1.3e-6)


def test_the_looser_side_decides() -> None:
    found = chosen(TolerancePolicy(), address(), "float32", "bfloat16")

    assert found == Tolerance(atol=1e-5, rtol=1.6e-2)


def test_integers_are_exact_whatever_the_options() -> None:
    policy = TolerancePolicy(atol=1.0, rtol=1.0)

    assert chosen(policy, address(), "int64", "int64") == Tolerance(atol=0.0, rtol=0.0)


def test_options_replace_the_defaults() -> None:
    policy = TolerancePolicy(atol=1e-3, rtol=0.0)

    assert chosen(policy, address()) == Tolerance(atol=1e-3, rtol=0.0)


@pytest.mark.parametrize(("atol", "expected"), [(0.0, 1e-5), (1e-7, 1e-5), (1e-3, 1e-3)])
@pytest.mark.parametrize("role", [Role.OUTPUT, Role.WEIGHT, Role.BUFFER])
def test_an_atol_alone_only_loosens(atol: float, expected: float, role: Role) -> None:
    found = chosen(TolerancePolicy(atol=atol), address(role=role))

    assert found == Tolerance(atol=expected, rtol=1.3e-6)


def test_where_all_gradients_are_small_the_atol_is_as_small() -> None:
    policy = TolerancePolicy()

    small = chosen(policy, address(role=Role.GRAD_INPUT), largest_gradient=1e-4)
    large = chosen(policy, address(role=Role.WEIGHT_GRAD), largest_gradient=2.0)

    assert [small.atol, large.atol] == pytest.approx([1e-9, 1e-5])


def test_a_measured_floor_only_loosens() -> None:
    floors = (0.0, 1e-7, 1e-3)

    found = [chosen(TolerancePolicy(), address(), noise=noise).atol for noise in floors]

    assert found == pytest.approx([1e-5, 1e-5, 1e-3])


@pytest.mark.parametrize(("atol", "rtol"), [(0.0, 0.0), (1e-7, 1e-3)])
def test_atol_and_rtol_together_are_taken_literally_of_gradients_too(
    atol: float, rtol: float
) -> None:
    policy = TolerancePolicy(atol=atol, rtol=rtol)

    found = chosen(policy, address(role=Role.WEIGHT_GRAD), largest_gradient=2.0)

    assert found == Tolerance(atol=atol, rtol=rtol)


def test_later_rules_win() -> None:
    rules = tuple(map(ToleranceRule.parse, ("*:atol=1,rtol=2", "fc:atol=3")))

    found = chosen(TolerancePolicy(rules=rules), address())

    assert found == Tolerance(atol=3.0, rtol=2.0)


def test_a_rule_may_name_a_weight_and_a_role() -> None:
    rule = ToleranceRule.parse("fc.weight:atol=1,role=weight")

    found = [
        rule.applies_to(address(role=role, slot=slot))
        for role, slot in ((Role.WEIGHT, ".weight"), (Role.WEIGHT, ".bias"), (Role.OUTPUT, ""))
    ]

    assert found == [True, False, False]


def test_rules_that_named_nothing_are_told() -> None:
    rules = tuple(map(ToleranceRule.parse, ("nothing:atol=1.0", "fc:atol=1.0")))

    assert TolerancePolicy(rules=rules).unused([1]) == ("nothing:atol=1.0",)


@pytest.mark.parametrize(
    "text",
    ["", "fc", "fc:", ":atol=1", "fc:atoll=1", "fc:atol=-1", "fc:atol=nan", "fc:role=output",
     "fc:atol=1,atol=2", "fc:atol=1,role=no"],
)  # fmt: skip
def test_a_wrong_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        ToleranceRule.parse(text)


def test_a_rule_prints_what_it_was_read_from() -> None:
    text = "type:LayerNorm:atol=0.001,rtol=0.0,role=output"

    assert str(ToleranceRule.parse(text)) == text


def test_a_float32_record_of_a_bfloat16_model_is_no_more_precise_than_the_model() -> None:
    models = ("float32", "bfloat16")

    computed = chosen(TolerancePolicy(), address(role=Role.LOSS), model_dtypes=models)
    loaded = chosen(TolerancePolicy(), address(role=Role.BUFFER), model_dtypes=models)

    assert computed.rtol == 1.6e-2
    assert loaded.rtol == 1.3e-6
