"""Keep the outcomes of a score, and say which cases fell and which rose since."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .case import CauseRank, OriginRank, Outcome, VerdictRank
from .table import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from .table import Line

__all__ = ["Change", "Stored", "compare_with", "edges_between", "fallen_lines", "read", "write"]

HIGHER = {
    "verdict right": (str(VerdictRank.RIGHT),),
    "origin exact": (f"origin {OriginRank.EXACT}",),
    "origin exact or its container": (
        f"origin {OriginRank.EXACT}",
        f"origin {OriginRank.CONTAINER}",
    ),
    "cause right": (f"cause {CauseRank.RIGHT}",),
    "cause right or vague": (f"cause {CauseRank.RIGHT}", f"cause {CauseRank.VAGUE}"),
}
"""Sums of columns that must not become smaller."""
LOWER = {
    "false matches": (str(VerdictRank.FALSE_MATCH),),
    "false alarms": (str(VerdictRank.FALSE_ALARM),),
    "crashed": (str(VerdictRank.CRASHED),),
}
"""Sums of columns that must not become larger."""
VERDICTS = {VerdictRank.RIGHT: 2, VerdictRank.INCONCLUSIVE: 1}
ORIGINS = {OriginRank.EXACT: 2, OriginRank.CONTAINER: 1}
CAUSES = {CauseRank.RIGHT: 3, CauseRank.VAGUE: 2, CauseRank.NONE: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One outcome of the baseline."""

    outcome: Outcome
    is_edge: bool = False
    """Whether it depends on the processor's rounding: reported, held against nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A case whose outcome is not that of the baseline."""

    case: str
    before: str
    after: str
    detail: str
    is_worse: bool
    is_edge: bool


def write(path: Path, outcomes: Iterable[Outcome], *, edges: frozenset[str]) -> None:
    """Store outcomes, one line each, in order of their names."""
    rows = {}
    for one in sorted(outcomes, key=lambda one: (one.group, one.case)):
        row = {"group": one.group, "family": one.family, "verdict": one.verdict,
               "origin": one.origin, "cause": one.cause}  # fmt: skip
        rows[one.case] = {key: str(value) for key, value in row.items() if value}
        if one.case in edges:
            rows[one.case]["edge"] = "yes"
    lines = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> dict[str, Stored]:
    """Read the stored outcomes by case."""
    stored = {}
    for name, row in json.loads(path.read_text()).items():
        outcome = Outcome(
            case=name,
            group=row["group"],
            family=row.get("family", ""),
            verdict=VerdictRank(row["verdict"]),
            origin=OriginRank(row["origin"]) if "origin" in row else None,
            cause=CauseRank(row["cause"]) if "cause" in row else None,
        )
        stored[name] = Stored(outcome=outcome, is_edge="edge" in row)
    return stored


def compare_with(baseline: Mapping[str, Stored], outcomes: Sequence[Outcome]) -> list[Change]:
    """List the cases of both whose outcomes differ."""
    changes = []
    for one in outcomes:
        before = baseline.get(one.case)
        if before is None or before.outcome.ranks == one.ranks:
            continue
        changes.append(
            Change(
                case=one.case,
                before=before.outcome.ranks,
                after=one.ranks,
                detail=one.detail,
                is_worse=_points(one) < _points(before.outcome),
                is_edge=before.is_edge,
            )
        )
    return changes


def fallen_lines(baseline: Mapping[str, Stored], outcomes: Sequence[Outcome]) -> list[str]:
    """Say which counts of which lines are worse than the baseline's, over the steady cases.

    A case that the baseline does not know counts nowhere; one that was not run is not held.
    """
    held = [one for one in outcomes if one.case in baseline and not baseline[one.case].is_edge]
    before = {line.name: line for line in count([baseline[one.case].outcome for one in held])}
    fallen = []
    for line in count(held):
        for way, columns, is_good in (
            *((name, columns, True) for name, columns in HIGHER.items()),
            *((name, columns, False) for name, columns in LOWER.items()),
        ):
            old, new = _sum(before[line.name], columns), _sum(line, columns)
            if (new < old) if is_good else (new > old):
                fallen.append(f"{line.name}: {way} {old} → {new}")
    return fallen


def edges_between(first: Sequence[Outcome], second: Sequence[Outcome]) -> frozenset[str]:
    """Return the cases whose outcomes differ between two runs of the same code."""
    ranks = {one.case: one.ranks for one in first}
    return frozenset(one.case for one in second if ranks.get(one.case, one.ranks) != one.ranks)


def _sum(line: Line, columns: Iterable[str]) -> int:
    return sum(line.counts.get(column, 0) for column in columns)


def _points(outcome: Outcome) -> tuple[int, int, int]:
    origin = 0 if outcome.origin is None else ORIGINS.get(outcome.origin, 0)
    cause = 0 if outcome.cause is None else CAUSES.get(outcome.cause, 0)
    return VERDICTS.get(outcome.verdict, 0), origin, cause
