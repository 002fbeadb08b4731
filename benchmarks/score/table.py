"""Count the outcomes by line, print them, and hold them against a stored baseline."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .case import CauseRank, Family, Group, OriginRank, VerdictRank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .case import Outcome

__all__ = ["COLUMNS", "Line", "count", "printed"]

COLUMNS = {
    "cases": "cases",
    str(VerdictRank.RIGHT): "right",
    str(VerdictRank.FALSE_MATCH): "false match",
    str(VerdictRank.FALSE_ALARM): "false alarm",
    str(VerdictRank.CRASHED): "crashed",
    str(VerdictRank.INCONCLUSIVE): "inconcl.",
    f"origin {OriginRank.EXACT}": "exact",
    f"origin {OriginRank.CONTAINER}": "container",
    f"origin {OriginRank.WRONG}": "wrong",
    f"cause {CauseRank.RIGHT}": "cause right",
    f"cause {CauseRank.VAGUE}": "vague",
    f"cause {CauseRank.NONE}": "none",
}
"""What is counted, and how the column is headed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The counts of one group or family."""

    name: str
    counts: dict[str, int]
    """By column, those of 0 left out."""
    cpu_s: float


def count(outcomes: Sequence[Outcome]) -> list[Line]:
    """Count the outcomes by group, then by family, then all of them."""
    lines = [_line(group, [one for one in outcomes if one.group == group]) for group in Group]
    lines += [
        _line(family, [one for one in outcomes if one.family == family])
        for family in map(str, Family)
    ]
    lines.append(_line("all", outcomes))
    return [line for line in lines if line.counts]


def _line(name: str, outcomes: Iterable[Outcome]) -> Line:
    counts: Counter[str] = Counter()
    cpu_s = 0.0
    for one in outcomes:
        counts["cases"] += 1
        counts[str(one.verdict)] += 1
        if one.origin is not None:
            counts[f"origin {one.origin}"] += 1
        if one.cause is not None:
            counts[f"cause {one.cause}"] += 1
        cpu_s += one.cpu_s
    return Line(name=name, counts=dict(counts), cpu_s=cpu_s)


def printed(lines: Iterable[Line]) -> Iterator[str]:
    """Make the table as lines of text."""
    widths = [max(len(head), 4) for head in COLUMNS.values()]
    heads = "  ".join(
        head.rjust(width) for head, width in zip(COLUMNS.values(), widths, strict=True)
    )
    yield f"{'':<24}  {heads}  {'cpu s':>6}"
    for line in lines:
        numbers = "  ".join(
            str(line.counts.get(column, "·")).rjust(width)
            for column, width in zip(COLUMNS, widths, strict=True)
        )
        yield f"{line.name:<24}  {numbers}  {line.cpu_s:6.0f}"
