"""Where Paddle's values hold their channels: behind the batch or at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.composites import shaping as s

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term

_LEAST = 3
"""Axes of a value that has a place besides batch and channel."""


def channels_first(b: Builder, x: Term, data_format: str) -> Term:
    """Return (batch, channel, *spatial)."""
    return x if _is_first(x, data_format) else s.move_axis(b, x, [-1], [1])


def as_before(b: Builder, x: Term, data_format: str) -> Term:
    """Return a result in the layout of the format."""
    return x if _is_first(x, data_format) else s.move_axis(b, x, [1], [-1])


def _is_first(x: Term, data_format: str) -> bool:
    return data_format.startswith("NC") or x.ndim < _LEAST
