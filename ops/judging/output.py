"""Measures outputs against a float64 program, where errors below a floor are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.auditing import Answers, KnownProgram, Measured, measure_value
from padiff.program import RecordedProgram

if TYPE_CHECKING:
    from padiff.program import Value
    from padiff.program.primitives import Array


class _Replaced(RecordedProgram):
    """A recorded program with other elements of one value."""

    def __init__(self, base: RecordedProgram, value: int, elements: Array) -> None:
        self.program, self._base = base.program, base
        self._value, self._elements_of_it = value, elements

    def has_elements(self, value: int) -> bool:
        return value == self._value or self._base.has_elements(value)

    def elements(self, value: int) -> Array | None:
        return self._elements_of_it if value == self._value else self._base.elements(value)

    def info(self, value: int) -> None:
        """Know no digest: each of these programs is asked one question."""

    def gradient_info(self, value: int) -> None:
        """Know no digest."""


def replaced(known: KnownProgram, value: int, elements: Array) -> KnownProgram:
    """Return a program with other elements of one value."""
    return KnownProgram(_Replaced(known.recorded, value, elements), known.lowered)


def measure_output(known: KnownProgram, value: Value, floor: float) -> Measured | None:
    """Measure a value.

    Where it seems wrong it is measured once more, with elements that are within the floor of what
    they should be set to that.

    Raises:
        ProgramError: The program cannot be executed.
    """
    found = measure_value(known, value, Answers(is_brief=True))
    if found is None or found.is_sound or not floor:
        return found
    array = known.elements(value.id)
    goal = known.compute(known.part_behind(value.id))
    with np.errstate(all="ignore"):
        near = np.abs(array - goal) <= floor
    patched = np.where(near, goal, array).astype(value.dtype)
    return measure_value(replaced(known, value.id, patched), value, Answers(is_brief=True)) or found
