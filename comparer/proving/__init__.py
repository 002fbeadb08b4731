"""Same function, same leaves, sound execution? Asked of both programs by executing them."""

from __future__ import annotations

from .questions import ask_all
from .result import (
    Answer,
    Change,
    CoarserValue,
    Edit,
    EditKind,
    Execution,
    FunctionComparison,
    LeafDifference,
    Place,
    Unknown,
    UsedOperator,
)

__all__ = [
    "Answer",
    "Change",
    "CoarserValue",
    "Edit",
    "EditKind",
    "Execution",
    "FunctionComparison",
    "LeafDifference",
    "Place",
    "Unknown",
    "UsedOperator",
    "ask_all",
]
