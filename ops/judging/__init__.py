"""Judges cases by their float64 programs; needs no framework."""

from __future__ import annotations

from .finding import Bucket, Finding, Kind, Side
from .judge import Judgement, apart, ended_by, floor_of, is_finite, is_kink, is_right, judge
from .limits import LARGEST_APART, LARGEST_ERROR
from .oracle import (
    CaseProgram,
    Executed,
    Oracle,
    arriving_at,
    measure_output,
    replaced,
    tolerance_of,
)

__all__ = [
    "LARGEST_APART",
    "LARGEST_ERROR",
    "Bucket",
    "CaseProgram",
    "Executed",
    "Finding",
    "Judgement",
    "Kind",
    "Oracle",
    "Side",
    "apart",
    "arriving_at",
    "ended_by",
    "floor_of",
    "is_finite",
    "is_kink",
    "is_right",
    "judge",
    "measure_output",
    "replaced",
    "tolerance_of",
]
