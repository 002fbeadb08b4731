"""One side as a graph of operators and values: one vocabulary, lowering, float64 execution."""

from __future__ import annotations

from .argumentjson import argument_from_json, argument_to_json
from .derivative import LINEAR, Outer, Tangent, derivative, derivatives, is_affine
from .drawing import Read, drawing_operators, read_lowered
from .execute import Execution, Leaf, Limits, execute, on_one_thread
from .expressions import COMMUTATIVE, LAYOUT, Expressions
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
from .images import DERIVED_ROUNDINGS, Image, fitted, is_near_table, made_of
from .lowering import (
    OVERWRITE,
    TABLES,
    Lowered,
    Node,
    NotLoweredError,
    Table,
    is_view,
    lower,
    unrolled,
)
from .pieces import Pieces, cut, of_elements
from .primitives import VOCABULARY
from .read import RecordedProgram, program_of, read_program
from .rounding import (
    CHOOSING,
    EXACT,
    SUMMING,
    UNIT_ROUNDOFF,
    KnownErrors,
    Rounding,
    count_products,
    in_blocks,
    signs_alike,
    summing_growth,
    unit_of_terms,
)
from .spread import Spread, execute_with_spread, own_errors

__all__ = [
    "CHOOSING",
    "COMMUTATIVE",
    "DERIVED_ROUNDINGS",
    "EXACT",
    "LAYOUT",
    "LINEAR",
    "OVERWRITE",
    "SUMMING",
    "TABLES",
    "UNIT_ROUNDOFF",
    "VOCABULARY",
    "Argument",
    "Dtype",
    "Execution",
    "Expressions",
    "Image",
    "KnownErrors",
    "Leaf",
    "LeafKind",
    "Limits",
    "Lowered",
    "Node",
    "NotLoweredError",
    "Opaque",
    "Operator",
    "Outer",
    "Pieces",
    "Program",
    "Read",
    "RecordedProgram",
    "Rounding",
    "Site",
    "Slice",
    "Spread",
    "Table",
    "Tangent",
    "Value",
    "ValueRef",
    "argument_from_json",
    "argument_to_json",
    "count_products",
    "cut",
    "derivative",
    "derivatives",
    "drawing_operators",
    "execute",
    "execute_with_spread",
    "fitted",
    "in_blocks",
    "is_affine",
    "is_near_table",
    "is_view",
    "lower",
    "made_of",
    "of_elements",
    "on_one_thread",
    "own_errors",
    "program_of",
    "read_lowered",
    "read_program",
    "signs_alike",
    "summing_growth",
    "unit_of_terms",
    "unrolled",
]
