"""What a model gives that is no tensor is taken apart by what it stores."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from padiff.dumper.recording.nested import MAX_DEPTH
from padiff.dumper.recording.results import MOST_VISITED, parts_of_result


class Tensor:
    """Stands for a framework's tensor."""


T = Tensor()


class Holder:
    def __init__(self, **stored: Any) -> None:  # noqa: ANN401
        self.__dict__.update(stored)

    @property
    def computed(self) -> object:
        raise AssertionError("a property was read")


class Slotted:
    __slots__ = ("mean", "never")

    def __init__(self, mean: object) -> None:
        self.mean = mean


class Callable(Holder):
    def __call__(self) -> None:
        """Do nothing."""


@dataclass
class Pair:
    one: object
    two: object


def parts(value: object) -> dict[str, Any]:
    return {
        slot: part if isinstance(part, Tensor) else np.asarray(part).tolist()
        for slot, part in parts_of_result(value, lambda one: isinstance(one, Tensor))
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, {"": 0.5}),
        (True, {"": True}),
        (np.float32(0.5), {"": 0.5}),
        ([1, 2.5], {"": [1.0, 2.5]}),
        ("né", {"": list("né".encode())}),
        (np.arange(3), {"": [0, 1, 2]}),
        (None, {}),
        (T, {}),
        ((T, 3), {"[1]": 3}),
        ({"a": [T, "x"]}, {"['a'][1]": [120]}),
        (Pair(one=T, two=1), {".two": 1}),
        (Holder(mean=T, count=2), {".mean": T, ".count": 2}),
        (Slotted(T), {".mean": T}),
        (Pair(one=Holder(mean=T), two=None), {".one.mean": T}),
        (Holder(inner=[Holder(mean=T)]), {".inner[0].mean": T}),
        (Holder(_cache=T, _count=2, _inner=Holder(array=np.ones(1), n=1)),
         {"._cache": T, "._inner.array": [1.0]}),
        (np.array([object()]), {}),
        (2**70, {}),
        (Callable(mean=T), {}),
        ((row for row in "ab"), {}),
        (Holder(module=types, kind=Tensor, function=parts), {}),
    ],
)  # fmt: skip
def test_parts_of_a_result(value: object, expected: dict[str, Any]) -> None:
    assert parts(value) == expected


def test_cycles_end() -> None:
    holder = Holder(mean=T)
    holder.__dict__["me"] = [holder]

    assert parts(holder) == {".mean": T}


def test_depth_and_number_are_bounded() -> None:
    deep: object = T
    for _ in range(MAX_DEPTH + 9):
        deep = Holder(inner=deep)

    assert parts(deep) == {}
    assert len(parts([Holder(mean=T) for _ in range(MOST_VISITED)])) < MOST_VISITED
