"""Channels that trade places with space or with each other; axes (…, channel, height, width)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .shaping import reshape, swap, transpose

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term


def pixel_shuffle(b: Builder, x: Term, factor: int) -> Term:
    """Move parts of the channels into space."""
    *outer, channels, height, width = x.shape
    x = reshape(b, x, (*outer, channels // factor**2, factor, factor, height, width))
    n = len(outer)
    x = transpose(b, x, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return reshape(b, x, (*outer, channels // factor**2, height * factor, width * factor))


def pixel_unshuffle(b: Builder, x: Term, factor: int) -> Term:
    """Move parts of space into the channels."""
    *outer, channels, height, width = x.shape
    shape = (*outer, channels, height // factor, factor, width // factor, factor)
    x, n = reshape(b, x, shape), len(outer)
    x = transpose(b, x, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(b, x, (*outer, channels * factor**2, height // factor, width // factor))


def shuffle(b: Builder, x: Term, groups: int) -> Term:
    """Deal the channels (axis 1) of groups out in turn."""
    batch, channels, *rest = x.shape
    parts = reshape(b, x, (batch, groups, channels // groups, *rest))
    return reshape(b, swap(b, parts, 1, 2), x.shape)
