"""Tests operators of two frameworks against each other; float64 programs decide who is right."""

from __future__ import annotations

from .autotest import Drawing, autotest, nothing
from .cases import Tensor
from .table import Draw, along_axis, binary, operator, reduction, unary

__all__ = [
    "Draw",
    "Drawing",
    "Tensor",
    "along_axis",
    "autotest",
    "binary",
    "nothing",
    "operator",
    "reduction",
    "unary",
]
