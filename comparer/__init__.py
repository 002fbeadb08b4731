"""Compares dumps without any framework: align, measure, judge, locate; ``report/`` renders.

A public name is loaded when it is first used: who only prints a dump needs nothing that compares.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "CompareSettings": "settings",
    "Mode": "settings",
    "ToleranceRule": "judging.tolerance",
    "compare": "comparison",
    "measure": "judging.metrics",
}
"""Where each name is, but for those of ``result``."""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"{__name__}.{_HOMES.get(name, 'result')}")
    value = globals()[name] = getattr(home, name)
    return value
