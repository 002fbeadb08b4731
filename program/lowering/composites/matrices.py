"""Products of vectors and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .shaping import reshape, swap

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term

__all__ = ["linear", "matmul"]


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


def linear(b: Builder, x: Term, weight: Term, bias: Term | None) -> Term:
    """Multiply with the transpose of a weight (out, in), and add a bias."""
    result = matmul(b, x, swap(b, weight, 0, 1) if weight.ndim > 1 else weight)
    return result if bias is None else result + bias
