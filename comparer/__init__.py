"""Compares dumps without any framework: align, measure, judge, locate; ``report/`` renders."""

from .compare import compare
from .metrics import measure
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
from .tolerance import ToleranceRule

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
