"""Products of vectors and matrices, and matrices that solve or repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.program.lowering.builder import NotLoweredError

from .shaping import (
    as_kind,
    expand,
    narrow,
    positions,
    reshape,
    squeeze,
    stack,
    swap,
    unbind,
    unsqueeze,
)

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term


def matmul(b: Builder, x: Term, y: Term) -> Term:
    """Multiply; a vector stands for a row on the left and a column on the right."""
    if x.ndim == 1 and y.ndim == 1:
        product = reshape(b, x, (1, -1)) @ reshape(b, y, (-1, 1))
        return reshape(b, product, ())
    if x.ndim == 1:
        product = reshape(b, x, (1, -1)) @ y
        return reshape(b, product, (*product.shape[:-2], product.shape[-1]))
    if y.ndim == 1:
        product = x @ reshape(b, y, (-1, 1))
        return reshape(b, product, product.shape[:-1])
    return x @ y


def grouped_matmul(b: Builder, x: Term, y: Term, ends: Term | None) -> Term:
    """Multiply matrices of which one, or both, hold several groups one behind the other.

    Args:
        b: The builder.
        x: Shape (groups, rows, inner), or without the first axis if the rows lie in groups.
        y: Shape (groups, inner, columns), or without the first axis if the columns lie in groups;
            if neither has that axis, the inner ones lie in groups.
        ends: Where each group ends; None where none lie one behind the other.
    """
    if x.ndim == y.ndim == 3:  # noqa: PLR2004
        return x @ y
    if ends is None:
        raise NotLoweredError("groups without their ends")
    if x.ndim != y.ndim:
        turned = x.ndim > y.ndim
        rows, matrices = (swap(b, y, 0, 1), swap(b, x, 1, 2)) if turned else (x, y)
        product = b("grouped_matmul", rows, matrices, ends)
        return swap(b, product, 0, 1) if turned else product
    places = positions(b, x.shape[1], 3, 2)
    ends = reshape(b, ends, (-1, 1, 1))
    starts = b("pad", ends, widths=((1, -1), (0, 0), (0, 0)), mode="constant", value=0)
    member = b("and", starts <= places, places < ends)
    return b("where", member, unsqueeze(b, x, 0), 0.0) @ y


def linear(b: Builder, x: Term, weight: Term, bias: Term | None) -> Term:
    """Multiply with the transpose of a weight (out, in), and add a bias."""
    result = matmul(b, x, swap(b, weight, 0, 1) if weight.ndim > 1 else weight)
    return result if bias is None else result + bias


def kronecker(b: Builder, x: Term, y: Term) -> Term:
    """Return all products of elements, blocks of the second in places of the first."""
    ndim = max(x.ndim, y.ndim)
    x = reshape(b, x, (1,) * (ndim - x.ndim) + x.shape)
    y = reshape(b, y, (1,) * (ndim - y.ndim) + y.shape)
    wide = reshape(b, x, [part for size in x.shape for part in (size, 1)])
    other = reshape(b, y, [part for size in y.shape for part in (1, size)])
    return reshape(b, wide * other, [i * j for i, j in zip(x.shape, y.shape, strict=True)])


def cross(b: Builder, x: Term, y: Term, axis: int) -> Term:
    """Return the vector product along an axis of three."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    first, second = (unbind(b, expand(b, each, shape), axis) for each in (x, y))
    parts = [first[i] * second[j] - first[j] * second[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return stack(b, parts, axis)


def identity(b: Builder, size: int) -> Term:
    """Return a matrix of bools that holds on its diagonal."""
    return b("equal", positions(b, size, 2, 0), positions(b, size, 2, 1))


def power(b: Builder, x: Term, exponent: int) -> Term:
    """Multiply matrices with themselves; negative exponents invert."""
    if exponent < 0:
        x, exponent = b("inverse", x), -exponent
    if not exponent:
        return expand(b, as_kind(b, identity(b, x.shape[-1]), x.kind), x.shape)
    result: Term | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result @ x
        exponent >>= 1
        x = x @ x if exponent else x
    assert result is not None
    return result


_HALVINGS, _TERMS = 8, 18
"""How often a matrix is halved before its exponential is summed up, and the terms of that: float64
shows no more of one whose norm is 1 then (Higham, Functions of Matrices, section 10.3)."""


def exponential(b: Builder, x: Term) -> Term:
    """Return the exponential of matrices: a series of a small part, squared again."""
    one = as_kind(b, identity(b, x.shape[-1]), x.kind)
    part = x * 0.5**_HALVINGS
    result = one + part * (1 / _TERMS)
    for count in range(_TERMS - 1, 0, -1):
        result = one + part @ result * (1 / count)
    for _ in range(_HALVINGS):
        result = result @ result
    return result


def reflections(b: Builder, x: Term, factors: Term) -> Term:
    """Return the first columns of a product of reflections, as QR decompositions keep them.

    Args:
        b: The builder.
        x: Shape (*, rows, columns): below the diagonal the vectors, whose first element is 1.
        factors: Shape (*, count): of each I - factor · v · vᵀ.

    Source:
        Joffrain et al., Accumulating Householder transformations, revisited, ACM TOMS 32 (2006).
    """
    rows, columns, count = *x.shape[-2:], factors.shape[-1]
    at, along = positions(b, rows, 2, 0), positions(b, columns, 2, 1)
    begun = as_kind(b, b("equal", at, along), x.kind)
    vectors = narrow(b, b("tril", x, offset=-1) + begun, -1, 0, count)
    above = b("triu", swap(b, vectors, -1, -2) @ vectors, offset=1)
    joint = as_kind(b, identity(b, count), x.kind) + unsqueeze(b, factors, -1) * above
    turned = swap(b, narrow(b, vectors, -2, 0, columns), -1, -2)
    return begun - vectors @ b("solve", joint, unsqueeze(b, factors, -1) * turned)


def solve(b: Builder, x: Term, y: Term) -> Term:
    """Solve x · z = y; y may be vectors."""
    if y.ndim == 1 or (y.ndim == x.ndim - 1 and y.shape == x.shape[:-1]):
        return squeeze(b, b("solve", x, unsqueeze(b, y, -1)), (y.ndim,))
    return b("solve", x, y)


def solve_triangular(b: Builder, x: Term, y: Term, *, upper: bool, unit: bool) -> Term:
    """Solve by one triangle; with ``unit`` its diagonal stands for ones."""
    x = b("triu" if upper else "tril", x, offset=0)
    if unit:
        x = b("where", identity(b, x.shape[-1]), 1.0, x)
    return b("solve", x, y)


def cholesky(b: Builder, x: Term, *, upper: bool) -> Term:
    """Return the triangle whose product with its transpose is the matrix."""
    result = b("cholesky", swap(b, x, -1, -2) if upper else x)
    return swap(b, result, -1, -2) if upper else result


def cholesky_solve(b: Builder, x: Term, factor: Term, *, upper: bool) -> Term:
    """Solve by the factor of a matrix: one triangle after the other."""
    factor = b("triu" if upper else "tril", factor, offset=0)
    lower = swap(b, factor, -1, -2) if upper else factor
    return b("solve", swap(b, lower, -1, -2), b("solve", lower, x))


def diagonal_matrix(b: Builder, x: Term, offset: int, fill: float = 0) -> Term:
    """Return matrices with the last axis on a diagonal, and a number elsewhere."""
    size = x.shape[-1] + abs(offset)
    row, column = positions(b, size, 2, 0), positions(b, size, 2, 1)
    before = (abs(offset), 0) if offset > 0 else (0, abs(offset))
    wide = b("pad", x, widths=(*[(0, 0)] * (x.ndim - 1), before), mode="constant", value=0)
    return b("where", b("equal", column, row + offset), unsqueeze(b, wide, x.ndim - 1), fill)
