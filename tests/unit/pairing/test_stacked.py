"""Experts stacked in one parameter against a list of Linears, both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.pairing import carry, plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPERTS, WIDE, NARROW = 3, 6, 4
RNG = np.random.default_rng(9)


def _list(framework: str, weights: Mapping[str, tuple[int, int]]) -> MemorySide:
    """Build a list of experts; shapes are (out, in)."""
    builder = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    builder.module("experts", "List", class_path=f"{framework}.nn.ModuleList")
    for number in range(EXPERTS):
        builder.module(f"experts.{number}", "Expert", class_path="user.Expert")
        for name, shape in weights.items():
            path = f"experts.{number}.{name}"
            builder.module(path, "Linear", class_path=f"{framework}.nn.Linear")
            lies = shape if framework == "torch" else shape[::-1]
            builder.tensor(path, "weight", RNG.normal(size=lies))
    return builder.side()


def _stack(arrays: Mapping[str, Any]) -> MemorySide:
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module("experts", "Experts", class_path="user.Experts")
    for name, array in arrays.items():
        builder.tensor("experts", name, array)
    return builder.side()


def _shapes(*, is_turned: bool) -> dict[str, Any]:
    shapes = {"gate_up_proj": (2 * WIDE, NARROW), "down_proj": (NARROW, WIDE)}
    return {
        name: RNG.normal(size=(EXPERTS, *(shape[::-1] if is_turned else shape)))
        for name, shape in shapes.items()
    }


SPLIT = {"gate_proj": (WIDE, NARROW), "up_proj": (WIDE, NARROW), "down_proj": (NARROW, WIDE)}


def _carried(reference: MemorySide, candidate: MemorySide) -> dict[str, Any]:
    plan = plan_weights(reference, candidate)
    assert not plan.missing
    assert not plan.ambiguous
    modules = reference.index.modules
    arrays = {
        f"{modules[record.module].path}{record.slot}": reference.array(record)
        for record in reference.index.records
    }
    return carry(plan, reference, candidate, arrays)


@pytest.mark.parametrize("framework", ["torch", "paddle"])
@pytest.mark.parametrize("is_turned", [False, True])
def test_stack_is_made_of_a_list_and_taken_apart(framework: str, *, is_turned: bool) -> None:
    experts, stack = _list(framework, SPLIT), _stack(_shapes(is_turned=is_turned))

    made = _carried(experts, stack)["experts.gate_up_proj"]
    taken = _carried(stack, experts)["experts.1.up_proj.weight"]

    records = {
        f"{experts.index.modules[record.module].path}": experts.array(record)
        for record in experts.index.records
    }
    parts = [records[f"experts.1.{name}"] for name in ("gate_proj", "up_proj")]
    expected = np.concatenate([part if framework == "torch" else part.T for part in parts])
    np.testing.assert_array_equal(made[1], expected.T if is_turned else expected)
    whole = stack.array(stack.index.records[0])[1]
    share = (whole.T if is_turned else whole)[WIDE:]
    np.testing.assert_array_equal(taken, share if framework == "torch" else share.T)


def test_two_families_of_one_size_are_told_by_name() -> None:
    experts = _list("torch", {"w1": (WIDE, NARROW), "w3": (WIDE, NARROW), "w2": (NARROW, WIDE)})
    stack = _stack(
        {
            "up_proj": RNG.normal(size=(EXPERTS, WIDE, NARROW)),
            "gate_proj": RNG.normal(size=(EXPERTS, WIDE, NARROW)),
            "down_proj": RNG.normal(size=(EXPERTS, NARROW, WIDE)),
        }
    )

    plan = plan_weights(experts, stack)

    assert not plan.ambiguous
    modules = experts.index.modules
    found = {
        stack.index.records[pair.candidate].slot: modules[
            experts.index.records[pair.reference[0]].module
        ].path
        for pair in plan.pairs
    }
    assert found == {
        ".up_proj": "experts.0.w3", ".gate_proj": "experts.0.w1", ".down_proj": "experts.0.w2"
    }  # fmt: skip


def test_square_experts_are_ambiguous_without_equal_values() -> None:
    experts = _list("torch", {"proj": (NARROW, NARROW)})
    stack = _stack({"proj": RNG.normal(size=(EXPERTS, NARROW, NARROW))})

    (pair,) = plan_weights(experts, stack).ambiguous

    assert {str(pair.rule), *(str(o.rule) for o in pair.alternatives)} == {
        "stack",
        "transpose | stack",
    }


def test_equal_values_tell_which_way_square_experts_lie() -> None:
    experts = _list("torch", {"proj": (NARROW, NARROW)})
    values = [experts.array(record).T for record in experts.index.records]

    (pair,) = plan_weights(experts, _stack({"proj": np.stack(values)})).pairs

    assert str(pair.rule) == "transpose | stack"
    assert not pair.is_ambiguous


def test_fused_stack_whose_name_states_no_order_is_ambiguous() -> None:
    experts = _list("torch", SPLIT)
    arrays = _shapes(is_turned=False)
    stack = _stack({"w13": arrays["gate_up_proj"], "down_proj": arrays["down_proj"]})

    (pair,) = plan_weights(experts, stack).ambiguous

    assert pair.alternatives


def test_list_of_another_length_is_missing_not_guessed() -> None:
    experts = _list("torch", {"proj": (WIDE, NARROW)})
    stack = _stack({"proj": RNG.normal(size=(EXPERTS + 1, WIDE, NARROW))})

    assert len(plan_weights(experts, stack).missing) == EXPERTS + 1
