"""All primitives by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import convolution, elementwise, indexing, linear, recurrent, reductions, shapes

if TYPE_CHECKING:
    from .spec import Primitive

VOCABULARY: dict[str, Primitive] = {
    primitive.name: primitive
    for room in (elementwise, reductions, shapes, indexing, linear, convolution, recurrent)
    for primitive in room.PRIMITIVES
}

ELEMENTWISE = frozenset(primitive.name for primitive in elementwise.PRIMITIVES)
"""Primitives that work on each element by itself, with numpy's broadcasting."""
