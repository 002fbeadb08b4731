"""Tensors are replaced in every container that is taken apart, and the original stays."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
from transformers.modeling_outputs import BaseModelOutput

from padiff.dumper.recording.nested import flatten
from padiff.dumper.runs.rebuild import rebuilt


class Named(NamedTuple):
    one: object
    two: object


@dataclasses.dataclass(frozen=True)
class Frozen:
    one: object
    two: object = "text"


class Numbers(list[Any]):
    """A list of another class."""


def is_tensor(value: object) -> bool:
    return isinstance(value, np.ndarray)


ONE: Any = np.ones(2)
TWO: Any = np.full(3, 2.0)
VALUES: dict[str, Any] = {
    "bare": ONE,
    "tuple": (ONE, None, [TWO]),
    "named tuple": Named(ONE, {"deep": TWO}),
    "frozen dataclass": Frozen(Named(ONE, TWO)),
    "ordered dict": collections.OrderedDict(one=ONE, two=(TWO,)),
    "default dict": collections.defaultdict(list, one=[ONE, TWO]),
    "list of another class": Numbers([ONE, TWO]),
    "model output": BaseModelOutput(last_hidden_state=ONE, hidden_states=(TWO, ONE)),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_tensor_is_replaced_and_nothing_else(name: str) -> None:
    value = VALUES[name]
    before = flatten(value, is_tensor)
    changed = {id(tensor): tensor + 1 for _, tensor in before.tensors}

    found = rebuilt(value, changed)

    after = flatten(found, is_tensor)
    assert type(found) is type(value)
    assert [slot for slot, _ in after.tensors] == [slot for slot, _ in before.tensors]
    assert all(
        new is changed[id(old)]
        for (_, new), (_, old) in zip(after.tensors, before.tensors, strict=True)
    )
    assert (after.literals, after.containers) == (before.literals, before.containers)
    assert [id(tensor) for _, tensor in flatten(value, is_tensor).tensors] == [
        id(tensor) for _, tensor in before.tensors
    ]


def test_model_output_keeps_items_and_attributes_in_step() -> None:
    output = BaseModelOutput(last_hidden_state=ONE)

    found = rebuilt(output, {id(ONE): TWO})

    assert found["last_hidden_state"] is found.last_hidden_state is found[0] is TWO
    assert output[0] is ONE


def test_what_holds_no_changed_tensor_is_kept_as_it_is() -> None:
    inner = {"mask": TWO}

    found = rebuilt((ONE, inner), {id(ONE): TWO})

    assert found[1] is inner
