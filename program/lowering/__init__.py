"""Tables that turn the operators of each framework into the common vocabulary."""

from __future__ import annotations

from .builder import Builder, Node, NotLoweredError, Term
from .lower import Draw, Lowered, lower
from .rules import Row, Table
from .tables import TABLES

__all__ = [
    "TABLES",
    "Builder",
    "Draw",
    "Lowered",
    "Node",
    "NotLoweredError",
    "Row",
    "Table",
    "Term",
    "lower",
]
