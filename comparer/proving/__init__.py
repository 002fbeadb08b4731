"""Same function, same leaves, sound execution? Asked of both programs by executing them."""

from __future__ import annotations

from .earlier import read_earlier
from .questions import ask_all
from .result import (
    Answer,
    ArgumentDifference,
    Change,
    CoarserValue,
    Edit,
    EditKind,
    Execution,
    FunctionComparison,
    LeafDifference,
    Place,
    Unknown,
    UpdateComparison,
    UpdateDifference,
    UsedOperator,
)

__all__ = [
    "Answer",
    "ArgumentDifference",
    "Change",
    "CoarserValue",
    "Edit",
    "EditKind",
    "Execution",
    "FunctionComparison",
    "LeafDifference",
    "Place",
    "Unknown",
    "UpdateComparison",
    "UpdateDifference",
    "UsedOperator",
    "ask_all",
    "read_earlier",
]
