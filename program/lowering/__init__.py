"""Tables that turn the operators of each framework into the common vocabulary."""

from __future__ import annotations

from .builder import Builder, Node, NotLoweredError, Term
from .lower import Lowered, lower
from .overwriting import OVERWRITE, is_view
from .rules import KEPT, Row, Table
from .tables import TABLES
from .unrolling import unrolled

__all__ = [
    "KEPT",
    "OVERWRITE",
    "TABLES",
    "Builder",
    "Lowered",
    "Node",
    "NotLoweredError",
    "Row",
    "Table",
    "Term",
    "is_view",
    "lower",
    "unrolled",
]
