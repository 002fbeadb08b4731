"""Same function, same leaves, sound execution? Asked of both programs by executing them."""

from __future__ import annotations

from .questions import ask_all
from .result import (
    Answer,
    Execution,
    FunctionComparison,
    LeafDifference,
    Place,
    Unknown,
)

__all__ = [
    "Answer",
    "Execution",
    "FunctionComparison",
    "LeafDifference",
    "Place",
    "Unknown",
    "ask_all",
]
