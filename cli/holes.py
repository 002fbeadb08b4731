"""The holes of a program: floating-point values that came from nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.comparer.report.numbers import plural
from padiff.dumpfile import CALL_ROLES
from padiff.program import LeafKind

from .show_program import call_name, step_line
from .spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.program import Operator, RecordedProgram, Value

    from .show_text import Choice

__all__ = ["Hole", "HoleReason", "find_holes", "hole_lines"]


class HoleReason(StrEnum):
    """What is known of how a hole came to be."""

    COMPUTED = "a gradient arrived for it: what computed it was not recorded"
    BORDER = "a module takes or returns it, and no recorded operator made it"
    UNKNOWN = "made by numpy, an extension or another thread, or kept as a plain attribute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A floating-point value that came from nowhere."""

    value: Value
    reason: HoleReason
    operator: Operator | None
    """The first operator that takes it; None if none does."""
    readers: int
    """How many operators take it."""


def find_holes(recorded: RecordedProgram, choice: Choice) -> list[Hole]:
    """Return the holes of a program in the order in which they were met.

    Args:
        recorded: The program.
        choice: Only holes that are first taken in a call of these modules.
    """
    program = recorded.program
    holes = {value.id: value for value in program.values if value.kind is LeafKind.HOLE}
    readers: dict[int, list[Operator]] = {id_: [] for id_ in holes}
    for operator in program.operators if holes else ():
        for id_ in set(operator.taken) & readers.keys():
            readers[id_].append(operator)
    wanted = choice.wanted(recorded.index) if choice.include else None
    return [
        _hole(recorded, value, readers[id_])
        for id_, value in holes.items()
        if wanted is None or _module_of(recorded, id_, readers[id_]) in wanted
    ]


def _module_of(recorded: RecordedProgram, value: int, readers: list[Operator]) -> int | None:
    """Return the module whose call takes a hole first, else that of its record."""
    record = recorded.records.get(value)
    module = None if record is None else record.module
    if readers and readers[0].call is not None:
        module = recorded.index.calls[readers[0].call].module
    return module


def _hole(recorded: RecordedProgram, value: Value, readers: list[Operator]) -> Hole:
    record = recorded.records.get(value.id)
    reason = HoleReason.UNKNOWN
    if recorded.got_gradient(value.id):
        reason = HoleReason.COMPUTED
    elif record is not None and record.role in CALL_ROLES:
        reason = HoleReason.BORDER
    first = readers[0] if readers else None
    return Hole(value=value, reason=reason, operator=first, readers=len(readers))


def hole_lines(
    recorded: RecordedProgram, choice: Choice, *, plain: bool, max_rows: int = 0
) -> Iterator[str]:
    """Yield the lines that list the holes of a program.

    Args:
        recorded: The program of one step and rank.
        choice: Which modules to show.
        plain: Whether only ASCII can be shown.
        max_rows: How many holes; 0: all.
    """
    found = find_holes(recorded, choice)
    operators = plural(len(recorded.program.operators), "operator")
    yield ""
    yield f"{step_line(recorded.index)}  {operators}, {plural(len(found), 'hole')}"
    if not found:
        yield (
            "  no holes: every floating-point value comes from an input, a parameter, a buffer, a "
            "constant or a recorded operator"
        )
    spelling = Spelling(recorded, plain=plain)
    for hole in found[: max_rows or None]:
        yield from _hole_lines(recorded, spelling, hole)
    if max_rows and len(found) > max_rows:
        yield "  ... (--max-rows 0 shows all)"


def _hole_lines(recorded: RecordedProgram, spelling: Spelling, hole: Hole) -> Iterator[str]:
    yield f"  {spelling.value(hole.value.id)}  {spelling.spec(hole.value.id)}"
    operator = hole.operator
    if operator is None:
        record = recorded.records.get(hole.value.id)
        where = "nothing" if record is None else str(recorded.index.address(record))
        yield f"    taken by  no operator; seen as {spelling.safe(where)}"
    else:
        where = spelling.safe(call_name(recorded.index, operator))
        more = f"  and {hole.readers - 1} more" if hole.readers > 1 else ""
        site = f"  {spelling.site(operator.site)}" if operator.site is not None else ""
        yield f"    taken by  {spelling.operator(operator)} in {where}{site}{more}"
    yield f"    why       {hole.reason}"
