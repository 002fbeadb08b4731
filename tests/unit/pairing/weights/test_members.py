"""Parameters of numbered members in one stack on the other side, both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.pairing import carry, plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Mapping

MEMBERS = 3
NAMES = ("conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.weight", "head.bias")


def _list() -> MemorySide:
    rng = np.random.default_rng(5)
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module("members", "ModuleList", class_path="torch.nn.ModuleList")
    for number in range(MEMBERS):
        path = f"members.{number}"
        builder.module(path, "Member", class_path="user.Member")
        builder.module(f"{path}.conv", "Conv1d", class_path="torch.nn.Conv1d")
        builder.tensor(f"{path}.conv", "weight", rng.normal(size=(4, 1, 3)))
        builder.tensor(f"{path}.conv", "bias", rng.normal(size=4))
        builder.module(f"{path}.norm", "LayerNorm", class_path="torch.nn.LayerNorm")
        builder.tensor(f"{path}.norm", "weight", np.ones(4))
        builder.tensor(f"{path}.norm", "bias", np.zeros(4))
        builder.module(f"{path}.head", "Linear", class_path="torch.nn.Linear")
        builder.tensor(f"{path}.head", "weight", rng.normal(size=(5, 4)))
        builder.tensor(f"{path}.head", "bias", rng.normal(size=5))
    return builder.side()


def _stack(arrays: Mapping[str, Any]) -> MemorySide:
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Ensemble")
    for name, array in arrays.items():
        builder.tensor("", name, array)
    return builder.side()


def _values(side: MemorySide) -> dict[str, np.ndarray[Any, Any]]:
    return {
        f"{side.index.modules[record.module].path}{record.slot}".strip("."): side.array(record)
        for record in side.index.records
    }


def _stacked(side: MemorySide) -> dict[str, np.ndarray[Any, Any]]:
    """Stack as authors do: matrices turned, and shifts ready to be broadcast."""
    values = _values(side)
    whole = {
        name: np.stack([values[f"members.{at}.{name}"] for at in range(MEMBERS)]) for name in NAMES
    }
    return {
        "conv_w": whole["conv.weight"],
        "conv_b": whole["conv.bias"],
        "norm_w": whole["norm.weight"],
        "norm_b": whole["norm.bias"],
        "head_w": whole["head.weight"].transpose(0, 2, 1),
        "head_b": whole["head.bias"][:, None],
    }


@pytest.mark.parametrize("is_join", [True, False])
def test_parameters_of_all_members_are_the_partners_of_their_stacks(*, is_join: bool) -> None:
    members = _list()
    stack = _stack(_stacked(members))
    reference, candidate = (members, stack) if is_join else (stack, members)

    plan = plan_weights(reference, candidate)

    assert not plan.missing
    assert not plan.ambiguous
    carried, values = carry(plan, reference, candidate, _values(reference)), _values(candidate)
    assert carried.keys() == values.keys()
    assert all(np.array_equal(carried[name], array) for name, array in values.items())


def test_names_tell_which_stack_is_which_where_values_do_not() -> None:
    members = _list()
    others = {name: array + 2 for name, array in _stacked(members).items()}

    plan = plan_weights(members, _stack(others))

    assert not plan.missing
    assert not plan.ambiguous


def test_stacks_that_nothing_tells_apart_are_in_doubt() -> None:
    members = _list()
    held = _stacked(members)
    names = {"norm_w": "first", "norm_b": "second", "conv_b": "third"}
    others = {names.get(name, name): array + 2 for name, array in held.items()}

    plan = plan_weights(members, _stack(others))

    assert not plan.missing
    assert len(plan.ambiguous) == len(names)
