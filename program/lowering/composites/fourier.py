"""Discrete Fourier transforms with sizes and norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.primitives import Kind

from .shaping import as_kind, axis_of, expand, narrow, reshape, swap

Axes: TypeAlias = Sequence[tuple[int, int | None]]
"""Axes and the sizes to cut or pad them to; None keeps a size."""


def _resized(b: Builder, x: Term, axis: int, size: int | None) -> Term:
    if size is None or size == x.shape[axis]:
        return x
    if size < x.shape[axis]:
        return narrow(b, x, axis, 0, size)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, size - x.shape[axis])
    return b("pad", x, widths=tuple(widths), mode="constant", value=0)


def _scaled(x: Term, norm: str | None, count: int, *, inverse: bool) -> Term:
    """Scale what divides by the count on the way back."""
    powers = {None: (0.0, 0.0), "backward": (0.0, 0.0), "forward": (-1.0, 1.0)}
    if norm == "ortho":
        return x * float(count) ** (0.5 if inverse else -0.5)
    if norm not in powers:
        raise NotLoweredError(f"norm {norm!r}")
    power = powers[norm][inverse]
    return x * float(count) ** power if power else x


def transform(b: Builder, x: Term, axes: Axes, norm: str | None, *, inverse: bool) -> Term:
    """Transform along axes."""
    count = 1
    for each, size in axes:
        axis = axis_of(b, each, x.ndim)
        x = b("fourier", _resized(b, x, axis, size), axis=axis, inverse=inverse)
        count *= x.shape[axis]
    return _scaled(x, norm, count, inverse=inverse)


def real(b: Builder, x: Term, axes: Axes, norm: str | None) -> Term:
    """Transform real numbers; half of the last axis says all."""
    x = transform(b, x, axes, norm, inverse=False)
    axis = axis_of(b, axes[-1][0], x.ndim)
    return narrow(b, x, axis, 0, x.shape[axis] // 2 + 1)


def real_inverse(b: Builder, x: Term, axes: Axes, norm: str | None) -> Term:
    """Transform half a spectrum back to real numbers."""
    x = as_kind(b, x, Kind.COMPLEX)
    *others, (last, size) = axes
    count = 1
    for each, other in others:
        axis = axis_of(b, each, x.ndim)
        x = b("fourier", _resized(b, x, axis, other), axis=axis, inverse=True)
        count *= x.shape[axis]
    axis = axis_of(b, last, x.ndim)
    size = 2 * (x.shape[axis] - 1) if size is None else size
    x = _resized(b, x, axis, size // 2 + 1)
    result = b("fourier_real_inverse", x, axis=axis, size=size)
    return _scaled(result, norm, count * size, inverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """How a signal is cut for a short-time transform."""

    size: int
    step: int
    centre: bool
    pad_mode: str
    onesided: bool
    normalized: bool


def short_time(b: Builder, x: Term, window: Term | None, how: Frames) -> Term:
    """Transform windows of a signal: (…, frequency, frame)."""
    single = x.ndim == 1
    if single:
        x = reshape(b, x, (1, -1))
    if how.centre:
        mode = {"reflect": "reflect", "constant": "constant", "replicate": "edge"}[how.pad_mode]
        half = how.size // 2
        x = b("pad", x, widths=((0, 0), (half, half)), mode=mode, value=0)
    frames = b("windows", x, axis=1, size=how.size, step=how.step, dilation=1)
    if window is not None:
        frames = frames * _centred(b, window, how.size)
    result = b("fourier", frames, axis=2, inverse=False)
    if how.onesided:
        result = narrow(b, result, 2, 0, how.size // 2 + 1)
    if how.normalized:
        result = result * (1 / math.sqrt(how.size))
    result = swap(b, result, 1, 2)
    return reshape(b, result, result.shape[1:]) if single else result


def short_time_inverse(b: Builder, x: Term, window: Term, how: Frames, length: int | None) -> Term:
    """Add the windows of a short-time transform up to the signal, of ``length`` if that is given.

    What the squares of the window add up to is divided by. Half a spectrum is read, of a whole
    one too.
    """
    single = x.ndim == 2  # noqa: PLR2004 - no batch
    if single:
        x = reshape(b, x, (1, *x.shape))
    half = narrow(b, swap(b, x, 1, 2), 2, 0, how.size // 2 + 1)
    frames = real_inverse(b, half, [(2, how.size)], "ortho" if how.normalized else None)
    window = _centred(b, window, how.size)
    squares = expand(b, window * window, frames.shape)
    start = how.size // 2 if how.centre else 0
    size = (frames.shape[1] - 1) * how.step + how.size
    stop = start + length if length is not None else size - start
    parts = (
        narrow(b, b("overlap", one, axis=1, size=size, step=how.step, dilation=1), 1, start, stop)
        for one in (frames * window, squares)
    )
    result, weight = parts
    result = result / weight
    if stop > size:
        widths = ((0, 0), (0, stop - size))
        result = b("pad", result, widths=widths, mode="constant", value=0.0)
    return reshape(b, result, result.shape[1:]) if single else result


def _centred(b: Builder, window: Term, size: int) -> Term:
    """Return a window with as many zeros before as behind it."""
    left = (size - window.shape[0]) // 2
    widths = ((left, size - window.shape[0] - left),)
    return b("pad", window, widths=widths, mode="constant", value=0.0)
