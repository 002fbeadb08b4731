"""The errors that stand for rounding are independent of each other."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np

from padiff.comparer.proving.hidden import Errors
from padiff.program import Node

NODE = Node(primitive="mul", operands=(0, 1), attributes=(), outputs=(2,), operator=0)


def errors() -> Errors:
    """Return the errors of two programs that are written alike."""
    program = SimpleNamespace(
        values=[SimpleNamespace(dtype="float32")], operators=[SimpleNamespace(id=0, outputs=(0,))]
    )
    side: Any = SimpleNamespace(program=program)
    return Errors((side, side))


def test_each_execution_of_each_side_makes_errors_of_its_own() -> None:
    array = np.linspace(1.1, 1.9, 4096)
    signs = [
        np.sign(errors().rounding(which, seed).disturb_results(NODE, [array], [array])[0] - array)
        for which in (0, 1)
        for seed in (1, 2, 3)
    ]

    likeness = [abs(float(np.mean(one * other))) for one, other in combinations(signs, 2)]

    assert len(likeness) == 15
    assert max(likeness) < 5 / np.sqrt(array.size)


def test_errors_of_float32_are_larger_than_those_of_float64() -> None:
    assert errors().growth == 2.0**29
