"""How far the rounding of partial sums moves a long sum.

A kernel may add its terms one after the other. Each addition rounds the partial sum S by up to u
of it, and no addition loses more than the smaller of its two operands (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., section 4.2). Errors of rounding are independent of
each other and of both signs, so that they grow as the root of the sum of the squares of S; a term
that is too small to change S is lost, and what is lost so adds up.

Kernels add in orders of their own, in lanes and blocks. Where the order in which terms lie keeps
partial sums small by chance, as rows do that a norm made, those of a random order count: of n terms
with the sum T and the variance v, the k-th has the mean square (k T / n)**2 + v k (n - k) / (n - 1)
(sampling without replacement).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .lowering import Node
    from .primitives import Array

ADDING = frozenset({"cumsum", "log_softmax", "logcumsumexp", "logsumexp", "softmax", "sum"})
"""Primitives that add all elements along axes, or their exponentials."""

_SCANS = frozenset({"cumsum", "logcumsumexp"})
_PER_ROUNDING = 1 / math.sqrt(3)
"""Root mean square of an error that is anywhere between -1 and 1."""


def error_of_adding(node: Node, taken: Array, made: tuple[int, ...], unit: float) -> Array:
    """Return how far the additions of a primitive may move each element of its result.

    Args:
        node: One of ``ADDING``.
        taken: What it takes, float64.
        made: The shape of its result.
        unit: Unit roundoff of the dtype that the kernel adds in.

    Returns:
        Root mean squares of rounding plus what is lost, >= 0, that broadcast to the result; of a
        softmax relative to it.
    """
    attributes: dict[str, Any] = dict(node.attributes)
    axes = attributes["axes"] if "axes" in attributes else (attributes["axis"],)
    axes = [axis % taken.ndim for axis in axes] if taken.ndim else []
    rows, shape = _along(taken, axes)
    if node.primitive in {"sum", "cumsum"}:
        return _placed(_errors(rows, unit, node), shape, axes, made)
    with np.errstate(all="ignore"):
        powers = np.exp(rows - rows.max(axis=-1, keepdims=True, initial=-np.inf))
        total = np.cumsum(powers, -1) if node.primitive in _SCANS else powers.sum(-1, keepdims=True)
        return _placed(_errors(powers, unit, node) / total, shape, axes, made)


def error_in_order(left: Array, right: Array) -> Array | None:
    """Return how far a product of matrices is off where its terms are added one after another.

    Errors of equal terms are equal as long as the sum stays between two powers of two, so that they
    grow with the number of terms and not with its root: tokens may be all the same. Of large
    products some rows are computed, and stand for their neighbours.

    Args:
        left: Shape (..., M, K), float64; the product is added in float32.
        right: Shape (..., K, N), float64.

    Returns:
        Shape (..., M, N), float64; None for vectors.
    """
    if min(left.ndim, right.ndim) <= 1:
        return None
    high, count = left.shape[-2:]
    work = math.prod(np.broadcast_shapes(left.shape[:-2], right.shape[:-2])) * right.shape[-1]
    every = max(math.ceil(work * high * count / _MOST_IN_ORDER), 1)
    left = left[..., ::every, :]
    exact = np.matmul(left, right)
    rows = np.moveaxis(left.astype(np.float32), -1, 0)[..., None]
    columns = np.moveaxis(right.astype(np.float32), -2, 0)[..., None, :]
    added = np.zeros(exact.shape, np.float32)
    for row, column in zip(rows, columns, strict=True):
        added += row * column
    return np.asarray(np.repeat(added - exact, every, axis=-2)[..., :high, :])


_MOST_IN_ORDER = 1 << 28
"""Products that are added one after another: half a second."""


def _along(taken: Array, axes: Sequence[int]) -> tuple[Array, tuple[int, ...]]:
    """Return the elements as rows along some axes, and the shape of the others."""
    last = range(taken.ndim - len(axes), taken.ndim)
    moved = np.moveaxis(taken, axes, last)
    shape = moved.shape[: taken.ndim - len(axes)]
    return moved.reshape(*shape, math.prod(moved.shape[len(shape) :])), shape


def _errors(rows: Array, unit: float, node: Node) -> Array:
    """Return the errors of the sums along the last axis, or of each partial sum of a scan."""
    count = rows.shape[-1]
    flat = rows.reshape(math.prod(rows.shape[:-1]), count)
    is_scan = node.primitive in _SCANS
    errors = np.empty((len(flat), count if is_scan else 1))
    high = max(_BLOCK // max(count, 1), 1)
    for row in range(0, len(flat), high):
        errors[row : row + high] = _errors_of(flat[row : row + high], unit, is_scan=is_scan)
    return errors.reshape(*rows.shape[:-1], errors.shape[-1])


_BLOCK = 1 << 15
"""Elements at a time: what is made on the way stays in the processor's cache."""


def _errors_of(rows: Array, unit: float, *, is_scan: bool) -> Array:
    with np.errstate(all="ignore"):
        sizes, partial = np.abs(rows), np.cumsum(rows, axis=-1, dtype=np.float64)
        np.abs(partial, out=partial)
        partial *= unit
        lost = np.where(sizes < partial, sizes, 0.0)
        np.square(partial, out=partial)
        if is_scan:
            squares, lost = np.cumsum(partial, axis=-1), np.cumsum(lost, axis=-1)
        else:
            squares, lost = partial.sum(-1, keepdims=True), lost.sum(-1, keepdims=True)
            squares = np.fmax(squares, _in_any_order(rows) * unit**2)
        return np.asarray(np.sqrt(squares) * _PER_ROUNDING + lost)


def _in_any_order(rows: Array) -> Array:
    """Return the expected sums of the squares of all partial sums in a random order."""
    count = rows.shape[-1]
    total = rows.sum(-1, keepdims=True)
    squares = np.einsum("ij,ij->i", rows, rows)[:, None]
    variance = np.fmax(squares / max(count, 1) - np.square(total / max(count, 1)), 0.0)
    growing = (count + 1) * (2 * count + 1) / (6 * max(count, 1))
    return np.asarray(np.square(total) * growing + variance * (count * (count + 1) / 6))


def _placed(
    errors: Array, shape: tuple[int, ...], axes: Sequence[int], made: tuple[int, ...]
) -> Array:
    """Return errors of rows where their elements lie in the result."""
    if errors.shape[-1] == 1 and math.prod(shape) == math.prod(made):
        return errors.reshape(made)
    ndim = len(shape) + len(axes)
    wide = errors.reshape(*shape, *(1,) * (len(axes) - 1), errors.shape[-1])
    return np.moveaxis(wide, range(len(shape), ndim), axes) if ndim else wide
