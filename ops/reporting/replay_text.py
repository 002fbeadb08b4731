"""A replayed dump for a terminal, and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from padiff.comparer.report.escape import printable

if TYPE_CHECKING:
    from padiff.ops.replaying import Replayed, ReplayedOperator

_SHOWN = 160
_WIDTH = 122
"""Columns up to the last error."""


def replay_to_text(replayed: Replayed, *, framework: str, version: str) -> str:
    """Return the report: what is bad first, then each kind of operator with its largest errors."""
    bad = [one for one in replayed.operators if one.is_bad]
    verdict = "DIFFER" if bad else "AGREE"
    share = f"{len(bad)} of {len(replayed.operators)} operators"
    lines = [f"{verdict}: {share} do something else in {framework} {version}"]
    for one in bad:
        where = f" in {one.module}" if one.module else ""
        told = one.said.strip().splitlines()[-1][:_SHOWN] if one.said.strip() else ""
        error = "" if one.candidate is None else f"off by {one.candidate:.4g} times its rounding"
        lines.append(f"  {one.name}{where}: {one.status}  {told or error}".rstrip())
    groups: dict[tuple[str, str], list[ReplayedOperator]] = {}
    for one in replayed.operators:
        groups.setdefault((one.name, one.called), []).append(one)
    lines += [
        "",
        "largest error in roundings: as recorded, here, of gradients here".rjust(_WIDTH)
        + _timing(replayed),
    ]
    for (name, called), ones in groups.items():
        errors = [
            _largest([getattr(one, side) for one in ones])
            for side in ("reference", "candidate", "gradient")
        ]
        took = _took(ones)
        numbers = f"{errors[0]:>8} {errors[1]:>8} {errors[2]:>8}{took}"
        lines.append(f"  {len(ones):>4} {name:<44} {called:<44} {numbers}")
    if replayed.unknown:
        lines += ["", "not in the table:"]
        lines += [f"  {count:>4} {name}" for name, count in Counter(replayed.unknown).most_common()]
    if replayed.random:
        lines.append(f"{replayed.random} operators drew random numbers: not executed")
    return "\n".join(printable(line) for line in lines) + "\n"


def _timing(replayed: Replayed) -> str:
    is_timed = any(one.seconds is not None for one in replayed.operators)
    return "; us where recorded, here, ratio" if is_timed else ""


def _took(ones: list[ReplayedOperator]) -> str:
    """Return what the calls take here, and as a multiple of what they take where recorded."""
    timed = [one for one in ones if one.seconds is not None]
    here = sum(one.seconds or 0.0 for one in timed)
    there = sum(one.reference_seconds or 0.0 for one in timed)
    ratio = f" {here / there:8.2f}" if there else ""
    return f" {1e6 * there:9.0f} {1e6 * here:9.0f}{ratio}" if timed else ""


def _largest(errors: list[float | None]) -> str:
    found = [one for one in errors if one is not None]
    return f"{max(found):.2f}" if found else "-"


def replay_to_json(replayed: Replayed, *, framework: str, version: str) -> dict[str, Any]:
    """Return the document."""
    return {
        "padiff_replay": 1,
        "framework": framework,
        "version": version,
        "operators": [
            {
                "name": one.name,
                "called": one.called,
                "module": one.module,
                "status": one.status,
                "reference_roundings": _number(one.reference),
                "candidate_roundings": _number(one.candidate),
                "gradient_roundings": _number(one.gradient),
                "said": one.said,
                "seconds": one.seconds,
                "reference_seconds": one.reference_seconds,
            }
            for one in replayed.operators
        ],
        "unknown": dict(replayed.unknown),
        "random": replayed.random,
    }


def _number(one: float | None) -> float | str | None:
    return one if one is None or math.isfinite(one) else str(one)
