"""Experts stacked in one parameter against a list of Linears, both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.pairing import carry, plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Mapping

EXPERTS, WIDE, NARROW = 3, 6, 4
RNG = np.random.default_rng(9)


def _list(
    framework: str,
    weights: Mapping[str, tuple[int, int]],
    *,
    has_bias: bool = False,
    owns: Mapping[str, tuple[int, ...]] | None = None,
) -> MemorySide:
    """Build a list of experts; shapes are (out, in)."""
    builder = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    builder.module("experts", "List", class_path=f"{framework}.nn.ModuleList")
    for name, shape in (owns or {}).items():
        builder.tensor("experts", name, RNG.normal(size=shape))
    for number in range(EXPERTS):
        builder.module(f"experts.{number}", "Expert", class_path="user.Expert")
        for name, shape in weights.items():
            path = f"experts.{number}.{name}"
            builder.module(path, "Linear", class_path=f"{framework}.nn.Linear")
            lies = shape if framework == "torch" else shape[::-1]
            builder.tensor(path, "weight", RNG.normal(size=lies))
            if has_bias:
                builder.tensor(path, "bias", RNG.normal(size=shape[0]))
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


def _found(reference: MemorySide, candidate: MemorySide) -> dict[str, str]:
    """Give what each weight of the candidate is made of, and how."""
    plan = plan_weights(reference, candidate)
    assert not plan.missing
    assert not plan.ambiguous
    return {
        names_of(
            candidate, [pair.candidate]
        ): f"{names_of(reference, pair.reference)} | {pair.rule}"
        for pair in plan.pairs
    }


def test_stacks_that_lie_the_other_way_round_are_turned() -> None:
    one = _stack({"down_proj": RNG.normal(size=(EXPERTS, WIDE, NARROW))})
    two = _stack({"down_proj": RNG.normal(size=(EXPERTS, NARROW, WIDE))})

    assert _found(one, two) == {"experts.down_proj": "experts.down_proj | permute 0 2 1"}


def test_biases_of_one_size_follow_the_stacks_that_they_are_named_after() -> None:
    experts = _list("torch", {"up": (NARROW, WIDE), "down": (NARROW, WIDE)}, has_bias=True)
    stack = _stack(
        {
            "down_bias": RNG.normal(size=(EXPERTS, NARROW)),
            "up_bias": RNG.normal(size=(EXPERTS, NARROW)),
            "up": RNG.normal(size=(EXPERTS, NARROW, WIDE)),
            "down": RNG.normal(size=(EXPERTS, NARROW, WIDE)),
        }
    )

    found = _found(experts, stack)

    for name in ("up", "down"):
        parts = [f"experts.{number}.{name}" for number in range(EXPERTS)]
        weights, biases = (
            " + ".join(f"{part}.{leaf}" for part in parts) for leaf in ("weight", "bias")
        )
        assert found[f"experts.{name}"] == f"{weights} | stack"
        assert found[f"experts.{name}_bias"] == f"{biases} | stack"


def test_what_a_stacks_module_owns_besides_is_paired_on_its_own() -> None:
    experts = _list("torch", {"proj": (WIDE, NARROW)}, owns={"router": (5, 4)})
    stack = _stack(
        {"proj": RNG.normal(size=(EXPERTS, WIDE, NARROW)), "router": RNG.normal(size=(5, 4))}
    )

    assert _found(experts, stack)["experts.router"] == "experts.router | identity"


def test_stack_that_is_called_weight_is_named_by_its_module() -> None:
    experts = _list("torch", {"gate_proj": (WIDE, NARROW), "up_proj": (WIDE, NARROW)})
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    for name in ("up_linear", "gate_linear"):
        builder.module(name, "Parallel", class_path="user.Parallel")
        builder.tensor(name, "weight", RNG.normal(size=(EXPERTS, WIDE, NARROW)))

    found = _found(experts, builder.side())

    assert found["gate_linear.weight"].startswith("experts.0.gate_proj")
    assert found["up_linear.weight"].startswith("experts.0.up_proj")
