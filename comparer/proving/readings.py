"""Numbers that were read into Python behind draws: the candidate read its own draws' numbers.

With the reference's draws it would have read others, and what it made of them in Python stands in
its program as it was. Where a value that a number was read from is the reference's with them,
and both programs made an argument of what they read by one step with the same number, the candidate
gets the reference's argument. What else Python may make of a number is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, Phase, ProgramError
from padiff.program import execute, lower

from .executed import COUNTING, is_near
from .results import READ
from .side import Side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from padiff.program import Argument

    from .leaves import Leaves

_ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""By which numbers may differ that Python computed in a few steps."""
_MADE_OF: tuple[Callable[[float, float], tuple[float, float]], ...] = (
    lambda read, made: (made - read, abs(made) + abs(read)),
    lambda read, made: (made + read, abs(made) + abs(read)),
    lambda read, made: (made / read, abs(made / read)) if read else (np.nan, 0.0),
    lambda read, made: (made * read, abs(made * read)),
)
"""What stays the same if a number is another one more, less, times or by, and its size."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A number that was read from a value which follows from draws."""

    operator: int
    value: int
    number: float


def with_numbers_read(sides: tuple[Side, Side], leaves: Leaves) -> Side:
    """Return the candidate with the numbers that it would have made with the reference's draws."""
    known, side = _reads(sides[0]), sides[1]
    reads = _reads(side) if known else []
    if not reads:
        return side
    try:
        values = [one.value for one in known]
        made = execute(sides[0].lowered, leaves.of_reference(*sides), values, limits=COUNTING)
        for read in reads:
            given = leaves.of_candidate(sides[0], side)
            found = execute(side.lowered, given, [read.value], limits=COUNTING)[read.value]
            other = next((one for one in known if is_near(found, made[one.value])), None)
            if other is not None and other.number != read.number:
                side = _changed(side, read, (other.number, _numbers(sides[0], other)))
    except (ProgramError, DumpFormatError):
        pass  # numbers stay as they were read
    return side


def _reads(side: Side) -> list[_Read]:
    """Return the numbers of the forward pass that were read behind draws, in order."""
    found = []
    for one in side.program.operators:
        number = one.keywords.get(READ)
        is_plain = isinstance(number, float) and len(one.taken) == 1
        if is_plain and one.phase is not Phase.UPDATE and _is_drawn(side, one.taken[0]):
            assert isinstance(number, float)
            found.append(_Read(one.id, one.taken[0], number))
    return found


def _is_drawn(side: Side, value: int) -> bool:
    """Return whether a value follows from what was drawn."""
    kinds = (side.program.values[one].kind for one in side.program.behind([value]))
    return LeafKind.RANDOM in kinds


def _numbers(side: Side, read: _Read) -> list[float]:
    """Return the numbers that operators are given after one was read."""
    behind = side.program.operators[read.operator + 1 :]
    given = (each for one in behind for each in (*one.positional, *one.keywords.values()))
    return [each for each in given if isinstance(each, float)]


def _changed(side: Side, read: _Read, known: tuple[float, Sequence[float]]) -> Side:
    """Return a side with the reference's numbers where it made its own by the same of its read."""
    operators = list(side.program.operators)
    exchanged = partial(_exchanged, read.number, known)
    for place in range(read.operator + 1, len(operators)):
        one = operators[place]
        positional = tuple(map(exchanged, one.positional))
        keywords = {
            key: each if key == READ else exchanged(each) for key, each in one.keywords.items()
        }
        if (positional, keywords) != (one.positional, dict(one.keywords)):
            operators[place] = replace(one, positional=positional, keywords=keywords)
    program = replace(side.program, operators=tuple(operators))
    recorded = side.recorded.with_program(program)
    lowered = lower(program, side.table, contents=recorded.elements)
    return Side(side.file, recorded, lowered, side.built)


def _exchanged(read: float, known: tuple[float, Iterable[float]], made: Argument) -> Argument:
    """Return the reference's number that is made of what it read as this one is."""
    if not isinstance(made, float):
        return made
    before, numbers = known
    return next(
        (one for one in numbers if one != made and _is_alike((before, one), (read, made))), made
    )


def _is_alike(known: tuple[float, float], found: tuple[float, float]) -> bool:
    """Return whether two numbers are made of what was read by one step, with the same number."""
    pairs = ((step(*known), step(*found)) for step in _MADE_OF)
    return any(abs(one[0] - other[0]) <= _ROUNDING * max(one[1], other[1]) for one, other in pairs)
