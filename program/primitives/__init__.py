"""The common vocabulary: a closed set of primitives with shape rules, in float64 numpy."""

from __future__ import annotations

from .spec import Array, Kind, Primitive, ShapeError, Spec, broadcast, float_kind, promote
from .vocabulary import ELEMENTWISE, VOCABULARY

__all__ = [
    "ELEMENTWISE",
    "VOCABULARY",
    "Array",
    "Kind",
    "Primitive",
    "ShapeError",
    "Spec",
    "broadcast",
    "float_kind",
    "promote",
]
