"""Normalisations of all frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term

from .shaping import mean, moments, narrow, reshape

Affine = tuple[Term | None, Term | None]
"""Scale and shift; None for those that are absent."""


def _affine(b: Builder, x: Term, affine: Affine, shape: Sequence[int]) -> Term:
    weight, bias = affine
    if weight is not None:
        x = x * reshape(b, weight, shape)
    return x if bias is None else x + reshape(b, bias, shape)


def _standardised(b: Builder, x: Term, axes: tuple[int, ...], epsilon: float) -> Term:
    _, rest, variance = moments(b, x, axes)
    return rest / b("sqrt", variance + float(epsilon))


def layer_norm(b: Builder, x: Term, count: int, affine: Affine, epsilon: float) -> Term:
    """Normalise over the last axes, ``count`` of them."""
    axes = tuple(range(x.ndim - count, x.ndim))
    return _affine(b, _standardised(b, x, axes, epsilon), affine, x.shape[x.ndim - count :])


def rms_norm(b: Builder, x: Term, count: int, affine: Affine, epsilon: float) -> Term:
    """Divide by the root mean square over the last axes."""
    axes = tuple(range(x.ndim - count, x.ndim))
    scale = b("sqrt", mean(b, x * x, axes, keepdims=True) + float(epsilon))
    return _affine(b, x / scale, affine, x.shape[x.ndim - count :])


def group_norm(b: Builder, x: Term, groups: int, affine: Affine, epsilon: float) -> Term:
    """Normalise over the channels of each group (axis 1) and the axes after it."""
    inner = reshape(b, x, (x.shape[0], groups, -1)) if x.spec.count else x
    result = reshape(b, _standardised(b, inner, (2,), epsilon), x.shape)
    return _affine(b, result, affine, _channels(x))


def _channels(x: Term) -> list[int]:
    return [x.shape[1] if axis == 1 else 1 for axis in range(x.ndim)]


def batch_norm(
    b: Builder, x: Term, statistics: Affine | None, affine: Affine, epsilon: float
) -> Term:
    """Normalise each channel (axis 1) by running statistics, or by those of the batch if None.

    Running statistics become one factor and one offset of each channel, as kernels have them: near
    the mean the two terms cancel, and what is left is as coarse as they are.
    """
    shape = _channels(x)
    if statistics is None:
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        return _affine(b, _standardised(b, x, axes, epsilon), affine, shape)
    centre, variance = statistics
    if centre is None or variance is None:
        raise NotLoweredError("running statistics without elements")
    weight, bias = affine
    factor = 1.0 / b("sqrt", variance + float(epsilon))
    factor = factor if weight is None else weight * factor
    offset = -(centre * factor) if bias is None else bias - centre * factor
    return x * reshape(b, factor, shape) + reshape(b, offset, shape)


def channel_moments(b: Builder, x: Term) -> tuple[Term, Term]:
    """Return the mean and the biased variance of each channel (axis 1)."""
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    mean_, _, variance = moments(b, x, axes)
    return reshape(b, mean_, (-1,)), reshape(b, variance, (-1,))


def vector_norm(b: Builder, x: Term, order: Any, axes: tuple[int, ...], *, keepdims: bool) -> Term:
    """Compute a vector norm of any order."""
    size = b("abs", x)
    if order == float("inf"):
        return b("amax", size, axes=axes, keepdims=keepdims)
    if order == float("-inf"):
        return b("amin", size, axes=axes, keepdims=keepdims)
    if order == 0:
        different = b("cast", b("not", b("equal", x, 0.0)), kind="float")
        return b("sum", different, axes=axes, keepdims=keepdims)
    if order == 1:
        return b("sum", size, axes=axes, keepdims=keepdims)
    if order == 2:  # noqa: PLR2004
        return b("sqrt", b("sum", size * size, axes=axes, keepdims=keepdims))
    total = b("sum", b("pow", size, float(order)), axes=axes, keepdims=keepdims)
    return b("pow", total, 1.0 / order)


def normalize(b: Builder, x: Term, order: Any, axis: int, epsilon: float) -> Term:
    """Divide by a vector norm that is at least epsilon."""
    norm = vector_norm(b, x, order, (axis,), keepdims=True)
    return x / b("maximum", norm, float(epsilon))


def local_response_norm(
    b: Builder, x: Term, size: int, alpha: float, beta: float, k: float
) -> Term:
    """Divide by a power of the squares of neighbouring channels (axis 1), ``size`` of them."""
    widths = [(0, 0)] * x.ndim
    widths[1] = (size // 2, (size - 1) // 2)
    squares = b("pad", x * x, widths=tuple(widths), mode="constant", value=0.0)
    total = narrow(b, squares, 1, 0, x.shape[1])
    for offset in range(1, size):
        total = total + narrow(b, squares, 1, offset, offset + x.shape[1])
    return x / b("pow", total * (alpha / size) + k, float(beta))
