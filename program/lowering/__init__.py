"""Tables that turn the operators of each framework into the common vocabulary."""

from __future__ import annotations

from .builder import Builder, Node, NotLoweredError, Term
from .lower import Lowered, lower
from .rules import DRAWN, Row, Table
from .tables import TABLES
from .unrolling import unrolled

__all__ = [
    "DRAWN",
    "TABLES",
    "Builder",
    "Lowered",
    "Node",
    "NotLoweredError",
    "Row",
    "Table",
    "Term",
    "lower",
    "unrolled",
]
