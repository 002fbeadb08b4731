"""Who reads what a call took, as the program of one side says: modules are not all that do."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role
from padiff.program import program_of

if TYPE_CHECKING:
    from padiff.dumpfile import Index, RecordInfo
    from padiff.pairing import Side
    from padiff.program import Operator, RecordedProgram


class Readers:
    """The operators of one side by what they read."""

    def __init__(self, side: Side) -> None:
        self._side, self._index = side, side.index

    @cached_property
    def _recorded(self) -> RecordedProgram | None:
        return program_of(self._side)

    @cached_property
    def _by_value(self) -> dict[int, list[Operator]]:
        found: dict[int, list[Operator]] = {}
        recorded = self._recorded
        for one in () if recorded is None else recorded.program.operators:
            for value in set(one.taken) if one.phase is not Phase.UPDATE else ():
                found.setdefault(value, []).append(one)
        return found

    def outside(self, call: int, gradient: RecordInfo) -> list[Operator] | None:
        """Return the operators outside a call that read the input of which it has a gradient.

        None where no program says.
        """
        value = self._value(call, gradient)
        if value is None:
            return None
        return [one for one in self._by_value.get(value, ()) if not self._is_inside(one, call)]

    def is_around(self, operator: Operator, call: int) -> bool:
        """Return whether an operator runs in the code around a call, and not in another call."""
        return operator.call is None or is_within(self._index, call, operator.call)

    def _value(self, call: int, gradient: RecordInfo) -> int | None:
        """Return the value that a call took where it has a gradient."""
        if self._recorded is None:
            return None
        held = (
            record.id
            for record in self._index.records
            if record.call == call and record.role is Role.INPUT and record.slot == gradient.slot
        )
        record = next(held, None)
        return None if record is None else self._recorded.borders.get(record)

    def _is_inside(self, operator: Operator, call: int) -> bool:
        return is_within(self._index, operator.call, call)


def is_within(index: Index, inner: int | None, outer: int) -> bool:
    """Return whether a call is another one, or runs within it."""
    while inner is not None and inner != outer:
        inner = index.calls[inner].parent
    return inner is not None
