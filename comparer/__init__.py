"""Compares dumps without any framework: align, measure, judge, locate; ``report/`` renders.

A public name is loaded when it is first used: who only prints a dump needs nothing that compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile.lazynames import lazy_names

if TYPE_CHECKING:
    from .comparison import compare
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

_MODULES = {
    "comparison": "compare",
    "judging.metrics": "measure",
    "judging.tolerance": "ToleranceRule",
    "result": (
        "Comparison Coverage Divergence Endpoint JudgedPair Kind Metrics NodeRow StepComparison "
        "Tolerance Verdict"
    ),
    "settings": "CompareSettings Mode",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
