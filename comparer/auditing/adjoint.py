"""The first look at a gradient: one direction, and exact derivatives where that is cheap.

The direction is the outer product of signs along the first axes and along the others, so that what
is linear in a value, as a product with a matrix is, costs next to nothing along it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from padiff.program import LINEAR, Outer, derivative, in_blocks

from .limits import LEAN, STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.program import Tangent
    from padiff.program.primitives import Array

    from .slices import KnownProgram, Part

_FEW = 4
"""Elements of which one may turn around and the others still lean along a gradient."""
_BLOCK = 1 << 16
"""Elements that are multiplied at once, so that they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Products:
    """Sums over the elements of a product of two arrays."""

    count: int
    """How many there are."""
    total: float
    squares: float
    magnitudes: float

    def __add__(self, other: Products) -> Products:
        """Return the sums over the elements of both."""
        return Products(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            self.magnitudes + other.magnitudes,
        )


def summed(products: Array) -> Products:
    """Return the sums over products."""
    return Products(
        count=products.size,
        total=float(products.sum()),
        squares=float(np.vdot(products, products)),
        magnitudes=float(np.abs(products).sum()),
    )


def look(known: KnownProgram, value: int, parts: Sequence[Part]) -> tuple[Products, list[Products]]:
    """Return both sides of the adjoint identity along one direction.

    Raises:
        ProgramError: Elements lack on the way, or the program cannot be executed.
        DumpFormatError: Elements are damaged.
    """
    gradient = known.narrow(value, is_gradient=True)
    direction = outer_signs(gradient, split=_split(gradient, parts), seed=value)
    terms = []
    for part in parts:
        incoming = known.narrow(part.wanted, is_gradient=True)
        found = _product_in_pieces(known, value, part, direction, incoming)
        terms.append(found or product_of(incoming, _tangent_of_end(known, value, part, direction)))
    return product_of(gradient, direction), terms


def lean_signs(gradient: Array, *, seed: int | Sequence[int]) -> Array:
    """Draw a direction of ones and minus ones, more of them along a gradient than against it.

    So its product with the gradient is some ``LEAN`` times the gradient's norm. With as many of
    either it may be next to nothing, and whatever is wrong with the gradient's size with it. Errors
    that are independent of each other are no larger for it. There are never as many of either: that
    would hide what is off by the same everywhere, as where a norm forgets a mean.
    """
    random = np.random.default_rng(seed)
    total, norm = float(np.abs(gradient).sum()), float(np.sqrt(np.square(gradient).sum()))
    along = 0.5 + 0.5 * min(LEAN * norm / total, 1.0) if total else 0.5
    own = np.where(gradient == 0, random.choice([-1.0, 1.0], gradient.shape), np.sign(gradient))
    signs = np.where(random.random(gradient.shape) < along, own, -own)
    if signs.size >= _FEW and not signs.sum():
        smallest = np.argmin(np.abs(gradient))
        signs.flat[smallest] *= -1
    return signs


def outer_signs(gradient: Array, *, split: int, seed: int) -> Outer:
    """Draw a direction of ones and minus ones that leans along a gradient, as an outer product.

    The shorter side leans along that part of the gradient that is largest: where all parts are
    alike, as those of a mean are, sums over them are not next to nothing then. The longer side
    leans along these sums.

    Args:
        gradient: Of a value.
        split: How many axes are on the left.
        seed: Of what is left to chance.
    """
    shapes = gradient.shape[:split], gradient.shape[split:]
    rows = gradient.reshape(math.prod(shapes[0]), math.prod(shapes[1]))
    is_turned = rows.shape[0] < rows.shape[1]
    rows = rows.T if is_turned else rows
    squares = np.einsum("ij,ij->i", rows, rows)
    largest = rows[int(np.argmax(squares))] if squares.size else np.zeros(rows.shape[1])
    short = lean_signs(largest.astype(np.float64), seed=[seed, 0])
    sums = rows @ short.astype(rows.dtype)
    long = lean_signs(sums.astype(np.float64), seed=[seed, 1])
    left, right = (short, long) if is_turned else (long, short)
    return Outer(left.reshape(shapes[0]), right.reshape(shapes[1]))


def _split(point: Array, parts: Sequence[Part]) -> int:
    """Return between which axes the primitives that read a value split it."""
    names = {node.primitive for part in parts for node in part.nodes}
    split = 1 if any("convolution" in name for name in names) else point.ndim - 1
    return min(max(split, 0), point.ndim)


def _tangent_of_end(known: KnownProgram, value: int, part: Part, direction: Outer) -> Tangent:
    """Return how the end of a part moves: exactly, or as a central difference."""
    leaves = {**known.leaves(part), value: partial(known.elements, value)}
    found = derivative(known.lowered, leaves, value, direction, part.wanted)
    if found is not None:
        return found
    point, signs = known.elements(value), direction.dense()
    sizes = point[point != 0]
    step = STEP * (float(np.sqrt(np.mean(np.square(sizes)))) if sizes.size else 1.0)
    above, below = (
        known.compute(part, changed={value: point + way * step * signs}) for way in (1.0, -1.0)
    )
    return apart(above, below) / (2 * step)


def _product_in_pieces(
    known: KnownProgram, value: int, part: Part, direction: Outer, gradient: Array
) -> Products | None:
    """Return the sums over the products of a gradient and of how the end of a part moves.

    None where it is not cut into pieces, or moves along an outer product without them.
    """
    if LINEAR.issuperset(node.primitive for node in part.nodes):
        return None
    pieces = known.pieces(part, value)
    leaves = None if pieces is None else known.as_recorded(pieces.taken)
    if pieces is None or leaves is None or value not in leaves:
        return None
    total = Products(count=0, total=0.0, squares=0.0, magnitudes=0.0)
    for lowered, own, places in pieces.over(leaves):
        moved = derivative(lowered, own, value, direction.part(places[value]), part.wanted)
        if moved is None:
            return None
        total += product_of(gradient[places[part.wanted]], moved)
    return total


def apart(above: Array, below: Array) -> Array:
    """Return a difference; what is infinite in both, as masked scores are, does not differ."""
    with np.errstate(invalid="ignore"):
        return np.where(above == below, 0.0, above - below)


def product_of(gradient: Array, tangent: Tangent) -> Products:
    """Return the sums over the products of a gradient and a tangent, block by block."""
    sums = np.zeros(3)
    if not isinstance(tangent, Outer):
        for block, other in in_blocks(gradient, tangent):
            block = block * other  # noqa: PLW2901
            sums += block.sum(), block @ block, np.abs(block, out=block).sum()
        return Products(gradient.size, *map(float, sums))
    left, right = tangent.left.reshape(-1), tangent.right.reshape(-1)
    rows = gradient.reshape(left.size, right.size)
    high, wide = max(1, _BLOCK // max(right.size, 1)), _BLOCK
    for row in range(0, left.size, high):
        one = left[row : row + high]
        for column in range(0, right.size, wide):
            two = right[column : column + wide]
            sums += _sums_along(rows[row : row + high, column : column + wide], one, two)
    return Products(gradient.size, *map(float, sums))


def _sums_along(rows: Array, one: Array, two: Array) -> tuple[float, float, float]:
    """Return the sums of products, of their squares and of their magnitudes.

    Magnitudes need no more digits than the rows have, unless they are too large for these.
    """
    block = rows.astype(np.float64, copy=False)
    total = float(one @ (block @ two))
    if _is_signs(one) and _is_signs(two):
        flat = block.reshape(-1)
        squares = float(flat @ flat)
    else:
        squares = float((one * one) @ ((block * block) @ (two * two)))
    scale = float(np.abs(two).max(initial=0.0)) or 1.0
    weights = (np.abs(two) / scale).astype(rows.dtype)
    magnitudes = scale * float(np.abs(one) @ (np.abs(rows) @ weights))
    if not math.isfinite(magnitudes):
        magnitudes = float(np.abs(one) @ (np.abs(block) @ np.abs(two)))
    return total, squares, magnitudes


def _is_signs(array: Array) -> bool:
    return bool((np.abs(array) == 1).all())
