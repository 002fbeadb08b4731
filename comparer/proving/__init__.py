"""Same function, same leaves, sound execution? Asked of both programs by executing them."""

from __future__ import annotations

from .copies import making_of
from .earlier import read_earlier
from .listing import Listed, Listing, Output, list_program
from .questions import ask_all
from .result import (
    RATE,
    TIED,
    Answer,
    Change,
    CoarserValue,
    Edit,
    EditKind,
    Effect,
    Execution,
    Fault,
    FunctionComparison,
    Influence,
    LeafDifference,
    Made,
    Making,
    Parting,
    Place,
    Unknown,
    UnsoundValue,
    UpdateComparison,
    UpdateDifference,
    UsedOperator,
)

__all__ = [
    "RATE",
    "TIED",
    "Answer",
    "Change",
    "CoarserValue",
    "Edit",
    "EditKind",
    "Effect",
    "Execution",
    "Fault",
    "FunctionComparison",
    "Influence",
    "LeafDifference",
    "Listed",
    "Listing",
    "Made",
    "Making",
    "Output",
    "Parting",
    "Place",
    "Unknown",
    "UnsoundValue",
    "UpdateComparison",
    "UpdateDifference",
    "UsedOperator",
    "ask_all",
    "list_program",
    "making_of",
    "read_earlier",
]
