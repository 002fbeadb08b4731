"""The common vocabulary: a closed set of primitives with shape rules, in float64 numpy."""

from __future__ import annotations

from .spec import Array, Kind, Primitive, ShapeError, Spec, broadcast, float_kind, promote
from .vocabulary import VOCABULARY

__all__ = [
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
