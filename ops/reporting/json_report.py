"""The result of a test as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from padiff.ops.cases import case_to_json
from padiff.ops.workers import Crash, Error

from .program import program_of

if TYPE_CHECKING:
    from padiff.ops.cases import Case
    from padiff.ops.judging import Finding
    from padiff.ops.searching import Tested
    from padiff.ops.table import Operators


def to_json(tested: Tested, table: Operators) -> dict[str, Any]:
    """Return the document: a row for each operator, and for each finding of it."""
    return {
        "padiff_operators": 1,
        "reference": _side(tested, tested.reference),
        "candidate": _side(tested, tested.candidate),
        "seed": tested.seed,
        "elapsed_s": round(tested.elapsed_s, 3),
        "is_candidate_right": tested.is_candidate_right,
        "operators": [
            {
                "operator": one.operator,
                "cases": one.cases,
                "executions": one.executions,
                "rejected": one.rejected,
                "compared": one.compared,
                "worst_roundings": round(one.worst, 2),
                "seconds": one.seconds,
                "findings": [
                    _finding(tested, table, case, finding)
                    for case, finding in one.findings.values()
                ],
            }
            for one in tested.operators
        ],
    }


def _side(tested: Tested, framework: str) -> dict[str, str]:
    return {"framework": framework, "version": tested.versions.get(framework, "")}


def _finding(tested: Tested, table: Operators, case: Case, finding: Finding) -> dict[str, Any]:
    bucket, row = finding.bucket, table[case.operator]
    frameworks = (tested.reference, tested.candidate)
    return {
        "kind": bucket.kind,
        "side": bucket.side,
        "place": bucket.place,
        "detail": bucket.detail,
        "known": tested.reason(bucket),
        "roundings": _number(finding.roundings),
        "largest": _number(finding.largest),
        "looks_like": finding.reason,
        "reference": _said(finding.reference),
        "candidate": _said(finding.candidate),
        "case": case_to_json(case),
        "programs": {
            "both": program_of(row, case, finding, frameworks),
            **{one: program_of(row, case, finding, (one,)) for one in frameworks},
        },
    }


def _number(one: float | None) -> float | str | None:
    return one if one is None or math.isfinite(one) else str(one)


def _said(one: Error | Crash | None) -> dict[str, Any] | None:
    if one is None:
        return None
    if isinstance(one, Crash):
        return {"crash": one.name, "is_late": one.is_late}
    return {"error": one.kind, "text": one.text, "stage": one.stage}
