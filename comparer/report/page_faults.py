"""Where the programs differ, with the operators of both sides beside each other, for the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from .numbers import count, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .fields import Fields

__all__ = ["Fault", "executed_differences", "page_faults"]

_MOST = 30
"""Operators of a slice that are shown."""
_MOST_FAULTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An operator of a slice."""

    text: str
    """The call."""
    where: str
    """Its module and line."""
    made: tuple[str, ...]
    """What it made, a line for each value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One side of a fault."""

    side: str
    module: str | None
    """Where the fault is in the module tree; None where the side has no part in it."""
    rows: tuple[Row, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A proved edit, or where the programs part if none was found."""

    text: str
    influence: float | None
    """By how much of its size it alone moves the result; None where that was not measured."""
    is_asked: bool
    """Whether a result was asked for."""
    step: int
    """Position among the steps."""
    ends: tuple[End, End]


_Listed: TypeAlias = tuple[dict[int, Row], dict[int, Row]]
"""The operators of both sides by id."""


def page_faults(steps: Sequence[Fields], details: Fields | None) -> list[Fault]:
    """Return where the programs differ.

    Args:
        steps: Of the report.
        details: Of the report, with the programs; None where it has none.

    Raises:
        ConfigError: The data are no report.
    """
    rows = _rows(details)
    found = [
        _fault(difference, position, rows.get(position, ({}, {})))
        for position, step in enumerate(steps)
        for difference in executed_differences(step)
    ]
    return found[:_MOST_FAULTS]


def executed_differences(step: Fields) -> list[Fields]:
    """Return the proved edits of a step, the update's last; answers that are no without one."""
    executed = step.maybe("executed") if "executed" in step.names else None
    if executed is None:
        return []
    function = executed.inner("function")
    found: list[Fields] = []
    for answer in (function, function.maybe("update")):
        if answer is not None:
            found += answer.inners("edits") or ([answer] if _has_places(answer) else [])
    return found


def _has_places(answer: Fields) -> bool:
    return any(answer.maybe(side) is not None for side in ("reference", "candidate"))


def _rows(details: Fields | None) -> dict[int, _Listed]:
    """Return the listed operators by step, side and id."""
    if details is None or "programs" not in details.names:
        return {}
    return {
        one.integer("step"): (_listed(one.inner("reference")), _listed(one.inner("candidate")))
        for one in details.inners("programs")
    }


def _listed(listing: Fields) -> dict[int, Row]:
    return {one.integer("operator"): _row(one) for one in listing.inners("operators")}


def _row(operator: Fields) -> Row:
    module, site = operator.maybe_text("module"), operator.maybe_text("site")
    where = "outside modules" if module is None else module or "(root)"
    return Row(
        text=f"%{operator.integer('operator')} = {operator.text('text')}",
        where=where if site is None else f"{where}, {site}",
        made=tuple(map(_made, operator.inners("outputs"))),
    )


def _made(output: Fields) -> str:
    shape = ", ".join(map(str, output.integers("shape")))
    numbers = output.inner("numbers").numbers(without="_index")
    words = [f"{name} {number(value)}" for name, value in numbers.items()]
    return "  ".join([f"{output.text('dtype')} ({shape})", *words])


def _fault(difference: Fields, step: int, listed: _Listed) -> Fault:
    ends = _end(difference, "reference", listed[0]), _end(difference, "candidate", listed[1])
    if "edit" not in difference.names:
        text = "the programs part here; no edit was found that proves why"
        return Fault(text=text, influence=None, is_asked=False, step=step, ends=ends)
    times = difference.integer("times")
    several = f" ({count(times)} times)" if times > 1 else ""
    influence = difference.maybe("influence")
    return Fault(
        text=f"proved: {difference.text('text')}{several}",
        influence=None if influence is None else influence.number("relative_l2"),
        is_asked=influence is not None,
        step=step,
        ends=ends,
    )


def _end(difference: Fields, side: str, listed: Mapping[int, Row]) -> End:
    place = difference.maybe(side)
    ids = () if place is None else place.integers("slice")
    rows = [listed[one] for one in ids if one in listed]
    return End(
        side=side,
        module=None if place is None else place.text("module"),
        rows=tuple(rows[:_MOST]),
        left_out=len(ids) - min(len(rows), _MOST),
    )
