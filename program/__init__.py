"""One side as a graph of operators and values: one vocabulary, lowering, float64 execution."""

from __future__ import annotations

from .argumentjson import argument_to_json
from .execute import Leaf, Limits, execute
from .graph import (
    Argument,
    Dtype,
    LeafKind,
    Opaque,
    Operator,
    Program,
    Site,
    Slice,
    Value,
    ValueRef,
)
from .lowering import TABLES, Lowered, Node, Table, lower
from .read import RecordedProgram, read_program
from .rounding import UNIT_ROUNDOFF, Rounding, summing_growth

__all__ = [
    "TABLES",
    "UNIT_ROUNDOFF",
    "Argument",
    "Dtype",
    "Leaf",
    "LeafKind",
    "Limits",
    "Lowered",
    "Node",
    "Opaque",
    "Operator",
    "Program",
    "RecordedProgram",
    "Rounding",
    "Site",
    "Slice",
    "Table",
    "Value",
    "ValueRef",
    "argument_to_json",
    "execute",
    "lower",
    "read_program",
    "summing_growth",
]
