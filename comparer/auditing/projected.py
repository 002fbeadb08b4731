"""Audits products of matrices and convolutions along a few directions of what they make.

Whether y is x W is seen, with all but certainty, by whether y R is x (W R) for a few random
columns R of ones and minus ones (Freivalds, Probabilistic machines can use less running time, IFIP
1977): that costs next to nothing beside the product. The rounding of the elements of one row of y
adds up as that of independent errors. Columns of R are divided by the size of those of W, so that
all elements of a row weigh as much as they round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.program import EXACT, VOCABULARY, own_errors, unit_of_terms

from .limits import LARGEST_ELEMENT, LARGEST_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.program import Node
    from padiff.program.primitives import Array

    from .slices import KnownProgram, Part

_DIRECTIONS = 4
_BLOCK = 1 << 16
"""Elements that are summed at a time."""
_MATRIX = 2


@dataclass(frozen=True, slots=True)
class Projected:
    """How far the sums over the features of a recorded value are from its program's."""

    error: float
    """Root mean square, in units of the rounding of each sum."""
    worst: float
    """What the largest of them would be if one element of its row had made it."""
    largest: float
    """The largest absolute difference of a sum."""

    @property
    def is_sound(self) -> bool:
        """Whether rounding explains what was seen."""
        return self.error <= LARGEST_ERROR and self.worst <= LARGEST_ELEMENT


@dataclass(frozen=True, slots=True)
class _Product:
    """A product, and what is added to it."""

    node: Node
    added: tuple[int, ...]
    """Terms."""


def project(known: KnownProgram, part: Part) -> Projected | None:
    """Hold a recorded value against its program, along a few directions of its features.

    Args:
        known: The program.
        part: That makes the value.

    Returns:
        None if that is no product with what is added to it, or not everything is finite.

    Raises:
        ProgramError: Elements lack on the way, or the program cannot be executed.
        DumpFormatError: Elements are damaged.
    """
    product = _product_of(known, part)
    if product is None:
        return None
    node, unit = product.node, known.units[product.node.operator]
    terms = [*node.operands, *product.added]
    taken = known.terms_as_recorded(part, terms) or known.compute_terms(part, terms)
    value = known.narrow(part.wanted)
    if not unit or any(each.dtype.kind != "f" for each in (value, *taken)):
        return None
    one, two, added = taken[0].astype(np.float64, copy=False), taken[1], taken[2:]
    with np.errstate(all="ignore"):
        rows = _Rows(node, one, two, seed=part.wanted)
        made, sizes = rows.of(value)
        off = made - rows.product() - sum(rows.of(each)[0] for each in added)
        squares = rows.errors(unit) + unit**2 * (1 + len(added)) * sizes
        ratio = np.abs(off) / np.sqrt(squares)
        ratio = np.where(off == 0, 0.0, ratio)
        worst = float(ratio.max(initial=0.0))
        if not math.isfinite(worst):
            return None
        return Projected(
            error=float(np.sqrt(np.mean(np.square(ratio)))) if ratio.size else 0.0,
            worst=worst * math.sqrt(rows.features),
            largest=float(np.abs(off).max(initial=0.0)),
        )


def _product_of(known: KnownProgram, part: Part) -> _Product | None:
    """Return the product that makes a value by itself, with what is added; None if it is more."""
    producers = {term: node for node in part.nodes for term in node.outputs}
    lowered = known.lowered
    added: list[int] = []
    node = producers.get(lowered.terms[part.wanted])
    while node is not None and node.primitive == "add":
        sums = [one for one in node.operands if _is_product(producers.get(one))]
        sums = sums or [one for one in node.operands if one in producers]
        if len(sums) != 1 or len(node.operands) != _MATRIX:
            return None
        added += [one for one in node.operands if one != sums[0]]
        node = producers.get(sums[0])
    if not _is_product(node) or node is None:
        return None
    shapes = [lowered.specs[one].shape for one in (*node.operands, *node.outputs)]
    axis = _feature_axis(node, len(shapes[2]))
    is_wide = all(
        len(lowered.specs[one].shape) >= -axis and lowered.specs[one].shape[axis] == shapes[2][axis]
        for one in added
    )
    is_plain = min(len(shapes[0]), len(shapes[1])) >= _MATRIX and is_wide and shapes[2][axis] > 0
    if node.primitive == "convolution":
        is_plain &= dict(node.attributes)["groups"] == 1
    behind = lowered.behind([*node.operands, *added], known=part.taken)
    is_exact = all(lowered.nodes[place].primitive in EXACT for place in behind)
    return _Product(node, tuple(added)) if is_plain and is_exact else None


def _is_product(node: Node | None) -> bool:
    return node is not None and node.primitive in ("matmul", "convolution")


def _feature_axis(node: Node, ndim: int) -> int:
    """Return the axis along which the second operand's columns or filters make elements."""
    return -1 if node.primitive == "matmul" else 1 - ndim


class _Rows:
    """Sums over the features of what a product makes, with random signs; they lie last."""

    def __init__(self, node: Node, one: Array, two: Array, *, seed: int) -> None:
        """Draw the directions."""
        self._node, self._one, self._two = node, one, two
        self._is_matrix = node.primitive == "matmul"
        self._axis = _feature_axis(node, one.ndim)
        columns = self._filters(two)
        self.features = columns.shape[-1]
        rows = columns.reshape(-1, self.features)
        sizes, largest = np.zeros(self.features), 0.0
        for at, place in _blocks(rows):
            block = rows[at, place].astype(np.float64)
            np.square(block, out=block)
            sizes[place] += block.sum(0)
            largest = max(largest, float(block.max(initial=0.0)))
        self._largest = math.sqrt(largest)
        self._squares = 1 / np.where(sizes > 0, sizes, float(sizes.max(initial=0.0)) or 1.0)
        signs = np.random.default_rng(seed).choice((-1.0, 1.0), (self.features, _DIRECTIONS))
        self._directions = signs * np.sqrt(self._squares)[:, None]
        self._columns, self._weighted = self._summed(columns)

    def of(self, array: Array) -> tuple[Array, Array]:
        """Return the sums over the features of what was made, or of what is added to it.

        And the sums of the squares, as they weigh in any of these sums.
        """
        return self._summed(self._featured(array))

    def product(self) -> Array:
        """Return the sums over the features of the product, without making it."""
        return self._run(self._one, self._columns)

    def errors(self, unit: float) -> Array:
        """Return the squares of what rounding does to the sums, inside the product."""
        unit = unit_of_terms(self._node, (self._one, self._two), unit)
        scale = float(np.maximum(self._one.max(initial=0.0), -self._one.min(initial=0.0))) or 1.0
        square = np.square(self._one / scale, dtype=np.float32)
        own = own_errors(self._one, square, scale, None, unit)
        weighted, own_weighted = self._weighted, self._weighted
        if self._largest >= 1:  # there may be whole numbers, which have no errors
            squares = np.square(self._two, dtype=np.float64)
            found = own_errors(self._two, squares, self._largest, None, unit)
            own_weighted = self._filters(found) @ self._squares[:, None]
        weighted, own_weighted = (
            each.astype(np.float32, copy=False) for each in (weighted, own_weighted)
        )
        total = self._run(own, weighted) + self._run(square, own_weighted)
        return np.asarray(total * np.square(unit * scale), dtype=np.float64)

    def _summed(self, array: Array) -> tuple[Array, Array]:
        """Return the sums over the last axis along all directions, and those of the squares."""
        rows = array.reshape(-1, self.features)
        sums, squares = np.zeros((len(rows), _DIRECTIONS)), np.zeros((len(rows), 1))
        for at, place in _blocks(rows):
            block = rows[at, place].astype(np.float64)
            sums[at] += block @ self._directions[place]
            np.square(block, out=block)
            squares[at] += block @ self._squares[place, None]
        shape = array.shape[:-1]
        return sums.reshape(*shape, _DIRECTIONS), squares.reshape(*shape, 1)

    def _run(self, one: Array, columns: Array) -> Array:
        """Run the product with other columns, or filters, that lie last."""
        run, attributes = VOCABULARY[self._node.primitive].run, dict(self._node.attributes)
        two = columns if self._is_matrix else np.moveaxis(columns, -1, 0)
        return self._featured(np.asarray(run(one, two, **attributes)))

    def _featured(self, array: Array) -> Array:
        """Return what is made, or added to it, with its features last."""
        return array if self._is_matrix else np.moveaxis(array, self._axis, -1)

    def _filters(self, array: Array) -> Array:
        """Return columns or filters with the features that they make last."""
        return array if self._is_matrix else np.moveaxis(array, 0, -1)


def _blocks(rows: Array) -> Iterator[tuple[slice, slice]]:
    """Yield the places of blocks that lie together, each small enough for the processor's cache."""
    is_turned = rows.flags.f_contiguous and not rows.flags.c_contiguous
    count, size = rows.shape[::-1] if is_turned else rows.shape
    step = max(_BLOCK // max(size, 1), 1)
    for start in range(0, count, step):
        place = slice(start, start + step)
        yield (slice(None), place) if is_turned else (place, slice(None))
