"""The table of operators: what both frameworks call each, and how to draw its arguments."""

from __future__ import annotations

from .custom import operator, read_operators
from .draw import Draw
from .layers import LAYERS, Layer
from .registry import TABLE, Operators
from .row import Call, Difference, Row, row
from .strategies import along_axis, binary, reduction, unary

__all__ = [
    "LAYERS",
    "TABLE",
    "Call",
    "Difference",
    "Draw",
    "Layer",
    "Operators",
    "Row",
    "along_axis",
    "binary",
    "operator",
    "read_operators",
    "reduction",
    "row",
    "unary",
]
