"""Compares dumps without any framework: align, measure, judge, locate; ``report/`` renders."""

from .compare import compare
from .judging.metrics import measure
from .judging.tolerance import ToleranceRule
from .result import (
    Comparison,
    Coverage,
    Divergence,
    Endpoint,
    JudgedPair,
    Kind,
    Metrics,
    NodeRow,
    StepComparison,
    Tolerance,
    Verdict,
)
from .settings import CompareSettings, Mode

__all__ = [
    "CompareSettings",
    "Comparison",
    "Coverage",
    "Divergence",
    "Endpoint",
    "JudgedPair",
    "Kind",
    "Metrics",
    "Mode",
    "NodeRow",
    "StepComparison",
    "Tolerance",
    "ToleranceRule",
    "Verdict",
    "compare",
    "measure",
]
