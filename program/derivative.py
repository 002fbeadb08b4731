"""Derivatives along a direction, of programs that are smooth in what moves.

Where elements are moved, added and multiplied with what stays, the derivative is the same program,
run once on the direction itself. Of products of what moves and of functions of it, the elements
are needed, too. Directions and what becomes of them are kept as outer products where they are
such, so that a product with a matrix is one with a vector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .execute import Execution, Limits
from .primitives import VOCABULARY, Array, Kind

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

    from .execute import Leaf
    from .lowering import Lowered, Node


@dataclass(frozen=True, slots=True)
class Outer:
    """All products of an element of one array with one of another."""

    left: Array
    """Along the first axes."""
    right: Array
    """Along the others."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes of one array and then those of the other."""
        return self.left.shape + self.right.shape

    def part(self, place: tuple[slice, ...]) -> Outer:
        """Return the products that lie at a place, by slices of all axes."""
        split = self.left.ndim
        return Outer(self.left[place[:split]], self.right[place[split:]])

    def dense(self) -> Array:
        """Return the products."""
        return np.asarray(np.multiply.outer(self.left, self.right))


@dataclass(frozen=True, slots=True)
class _Turned:
    """An outer product with its last two axes exchanged: a matrix of keys, as scores take it."""

    left: Array
    right: Array
    """Of one axis."""

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.left.shape[:-1], len(self.right), self.left.shape[-1])

    def dense(self) -> Array:
        return np.asarray(self.left[..., None, :] * self.right[:, None])


Tangent: TypeAlias = Array | Outer

_EACH = frozenset({
    "cast", "cumsum", "diagonal", "expand", "flip", "neg", "overlap", "pad", "reshape", "roll",
    "slice", "sum", "transpose", "tril", "triu", "windows",
})  # fmt: skip
"""Linear in their only operand."""
_SUMS = frozenset({"add", "concat", "sub"})
"""Linear in all operands together: those that stay count as zero."""
LINEAR = (
    _EACH | _SUMS | {"convolution", "convolution_transposed", "full", "gather", "matmul", "take"}
)
"""Primitives through which a direction that is an outer product often stays one."""
_PRODUCTS = {
    "convolution": (0, 1),
    "convolution_transposed": (0, 1),
    "div": (0,),
    "gather": (0,),
    "grouped_matmul": (0, 1),
    "matmul": (0, 1),
    "mul": (0, 1),
    "pick": (0,),
    "take": (0,),
}
"""Linear in any one of these operands, where the others stay."""
_BILINEAR = frozenset({"div", "matmul", "mul"})
"""Whose two operands may move together."""
_SLOPES: dict[str, Callable[[Array, Array], Array]] = {
    "erf": lambda x, _: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "exp": lambda _, y: y,
    "log": lambda x, _: 1 / x,
    "sigmoid": lambda _, y: y * (1 - y),
    "sqrt": lambda _, y: 0.5 / y,
    "tanh": lambda _, y: 1 - y * y,
}
"""Derivatives of functions, by what they take and make."""


def derivative(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    value: int,
    direction: Tangent,
    wanted: int,
    *,
    limits: Limits | None = None,
) -> Tangent | None:
    """Return how one value of a program moves as another one does.

    Args:
        lowered: The program.
        leaves: Elements by the program's value ids, as ``execute`` takes them; those of the value
            that moves are needed where the program is not linear in it.
        value: Id of the value that moves.
        direction: How far each of its elements moves: float64, of its shape.
        wanted: Id of a value.
        limits: None for the default.

    Returns:
        float64 of the wanted value's shape, or an outer product; None if it does not depend on
        the other one by primitives whose derivatives are known.

    Raises:
        ProgramError: As ``execute``.
    """
    own = lowered.terms[value]
    known = {own, *(lowered.terms[one] for one in leaves)}
    nodes = [lowered.nodes[place] for place in lowered.behind([lowered.terms[wanted]], known=known)]
    moved = {own}
    read: list[int] = []
    for node in nodes:
        if moved.isdisjoint(node.operands):
            continue
        terms = _terms_read(lowered, node, moved)
        if terms is None:
            return None
        read += terms
        moved.update(node.outputs)
    if lowered.terms[wanted] not in moved:
        return None
    needed = {lowered.nodes[place].outputs[0] for place in lowered.behind(read, known=known)}
    run = _Along(lowered, leaves, limits or Limits(), moved, needed)
    run.tangents[own] = direction
    run.run_all(
        [one for one in nodes if one.outputs[0] in needed or not moved.isdisjoint(one.outputs)],
        [lowered.terms[wanted]],
    )
    found = run.tangents[lowered.terms[wanted]]
    return found.dense() if isinstance(found, _Turned) else found


def _terms_read(lowered: Lowered, node: Node, moved: set[int]) -> list[int] | None:
    """Return the terms whose elements a derivative takes; None if nothing is known of it."""
    if any(lowered.specs[one].kind is not Kind.FLOAT for one in node.outputs):
        return None
    if node.primitive in _EACH or node.primitive in _SUMS:
        return []
    if _is_linear(node, moved):
        return [term for term in node.operands if term not in moved]
    if node.primitive in {"matmul", "mul"}:
        return list(node.operands)
    if node.primitive in _BILINEAR or node.primitive in _SLOPES or node.primitive == "softmax":
        return [*node.operands, *node.outputs]
    return None


def _is_linear(node: Node, moved: set[int]) -> bool:
    """Return whether a product is linear in what moves."""
    places = [place for place, term in enumerate(node.operands) if term in moved]
    return len(places) == 1 and places[0] in _PRODUCTS.get(node.primitive, ())


class _Along(Execution):
    """Runs what moves on tangents, and what stays on elements."""

    def __init__(
        self,
        lowered: Lowered,
        leaves: Mapping[int, Leaf],
        limits: Limits,
        moved: set[int],
        needed: set[int],
    ) -> None:
        super().__init__(lowered, leaves, limits, None)
        self._moved, self._needed = moved, needed
        self.tangents: dict[int, Tangent | _Turned] = {}

    def run_node(self, node: Node, uses: Counter[int]) -> None:
        if self._moved.isdisjoint(node.operands):
            super().run_node(node, uses)
            return
        output = node.outputs[0]
        if output in self._needed:
            held = (*node.operands, output)  # so that their elements are still there below
            uses.update(held)
            super().run_node(node, uses)
            uses[output] -= 1
        else:
            specs = [self.lowered.specs[one] for one in node.outputs]
            self.check_limits(node, VOCABULARY[node.primitive], specs)
        self.tangents[output] = self._tangent(node)
        for term in node.operands:
            uses[term] -= 1
            if not uses[term]:
                self.tangents.pop(term, None)
                if term in self.arrays:
                    self.free(term)

    def _tangent(self, node: Node) -> Tangent | _Turned:
        shape = self.lowered.specs[node.outputs[0]].shape
        if node.primitive in _SUMS:
            return self._sum(node, shape)
        if node.primitive in _EACH:
            return _of_one(node, self.tangents[node.operands[0]], shape)
        if not _is_linear(node, self._moved):
            return self._curved(node)
        place = next(at for at, term in enumerate(node.operands) if term in self._moved)
        tangent = self.tangents[node.operands[place]]
        others = [self.operand(term) for at, term in enumerate(node.operands) if at != place]
        if node.primitive == "take":
            return _rows_taken(node, tangent, others[0])
        if isinstance(tangent, Outer):
            found = _of_outer(node, place, tangent, others[0])
            if found is not None:
                return found
        operands = [*others[:place], _dense(tangent), *others[place:]]
        return np.asarray(VOCABULARY[node.primitive].run(*operands, **dict(node.attributes)))

    def _curved(self, node: Node) -> Array:
        """Return the tangent of a function, or of a product of what moves."""
        taken = [self.operand(one) for one in node.operands]
        if node.primitive == "matmul":
            one, two = (self.tangents[term] for term in node.operands)
            return _product_of_left(one, taken[1]) + _product_of_right(taken[0], two)
        tangents = [
            _dense(self.tangents[term]) if term in self._moved else np.zeros(())
            for term in node.operands
        ]
        if node.primitive == "mul":
            return np.asarray(tangents[0] * taken[1] + taken[0] * tangents[1])
        made = self.arrays[node.outputs[0]]
        if node.primitive in _SLOPES:
            return np.asarray(tangents[0] * _SLOPES[node.primitive](taken[0], made))
        if node.primitive == "softmax":
            axis: int = dict(node.attributes)["axis"]
            weighted = tangents[0] * made
            return np.asarray(weighted - made * weighted.sum(axis, keepdims=True))
        return np.asarray((tangents[0] - made * tangents[1]) / taken[1])

    def _sum(self, node: Node, shape: tuple[int, ...]) -> Tangent | _Turned:
        found = [self.tangents.get(term) for term in node.operands]
        first = found[0]
        if node.primitive != "concat" and found[1] is None and first is not None:
            return first if first.shape == shape else np.broadcast_to(_dense(first), shape)
        operands = [
            np.zeros(self.lowered.specs[term].shape) if one is None else _dense(one)
            for term, one in zip(node.operands, found, strict=True)
        ]
        return np.asarray(VOCABULARY[node.primitive].run(*operands, **dict(node.attributes)))


def _dense(tangent: Tangent | _Turned) -> Array:
    return tangent.dense() if isinstance(tangent, Outer | _Turned) else tangent


def _product_of_left(tangent: Tangent | _Turned, other: Array) -> Array:
    """Return the product of a tangent with a matrix, or with each of many."""
    is_many = isinstance(tangent, Outer) and tangent.left.ndim + 1 == other.ndim
    if isinstance(tangent, Outer) and is_many and tangent.right.ndim == 1:
        return np.asarray(tangent.left[..., None] * np.matmul(tangent.right, other)[..., None, :])
    return np.asarray(VOCABULARY["matmul"].run(_dense(tangent), other))


def _product_of_right(other: Array, tangent: Tangent | _Turned) -> Array:
    """Return the product of a matrix, or of each of many, with a tangent."""
    if isinstance(tangent, _Turned) and tangent.left.ndim + 1 == other.ndim:
        return np.asarray(np.matmul(other, tangent.right)[..., None] * tangent.left[..., None, :])
    is_many = isinstance(tangent, Outer) and tangent.left.ndim + 1 == other.ndim
    if isinstance(tangent, Outer) and is_many and tangent.right.ndim == 1:
        return np.asarray(np.matmul(other, tangent.left[..., None]) * tangent.right)
    return np.asarray(VOCABULARY["matmul"].run(other, _dense(tangent)))


def _of_one(node: Node, tangent: Tangent | _Turned, shape: tuple[int, ...]) -> Tangent | _Turned:
    """Return what a primitive with one operand makes of a tangent."""
    attributes: dict[str, Any] = dict(node.attributes)
    if node.primitive == "cast":
        return tangent
    if isinstance(tangent, Outer):
        found = _reordered_outer(node, tangent, attributes, shape)
        if found is not None:
            return found
    if node.primitive == "pad":
        attributes["value"] = 0.0
    return np.asarray(VOCABULARY[node.primitive].run(_dense(tangent), **attributes))


def _reordered_outer(
    node: Node, tangent: Outer, attributes: dict[str, Any], shape: tuple[int, ...]
) -> Outer | _Turned | None:
    """Return an outer product whose elements are moved, if it is still one."""
    left, right = tangent.left, tangent.right
    ndim = left.ndim + right.ndim
    if node.primitive == "transpose" and right.ndim == 1:
        order = [axis % ndim for axis in attributes["order"]]
        if order[-1] == left.ndim:
            return Outer(left.transpose(order[:-1]), right)
        if order == [*range(ndim - 2), ndim - 1, ndim - 2]:
            return Outer(right, left) if left.ndim == 1 else _Turned(left, right)
    if node.primitive == "slice" and attributes["axis"] % ndim < left.ndim:
        attributes["axis"] %= ndim
        return Outer(VOCABULARY["slice"].run(left, **attributes), right)
    split = len(shape) - right.ndim
    is_apart = shape[split:] == right.shape and math.prod(shape[:split]) == left.size
    if node.primitive == "reshape" and is_apart:
        return Outer(left.reshape(shape[:split]), right)
    return None


def _rows_taken(node: Node, tangent: Tangent | _Turned, index: Array) -> Tangent:
    """Return rows of a tangent; nothing comes through the one that is held."""
    run, attributes = VOCABULARY[node.primitive].run, dict(node.attributes)
    held = attributes.get("held")
    if isinstance(tangent, Outer) and tangent.left.ndim == 1 and attributes["axis"] == 0:
        left = np.asarray(run(tangent.left, index, axis=0))
        return Outer(left if held is None else np.where(index == held, 0.0, left), tangent.right)
    rows = np.asarray(run(_dense(tangent), index, **attributes))
    if held is not None:
        rows[index == held] = 0.0
    return rows


def _of_outer(node: Node, place: int, tangent: Outer, other: Array) -> Tangent | None:
    """Return what a product makes of an outer product, if that is less than of its elements."""
    left, right = tangent.left, tangent.right
    if node.primitive in ("div", "mul") and not other.ndim:
        return Outer(left / other if node.primitive == "div" else left * other, right)
    if node.primitive == "matmul" and other.ndim > 1:
        if place == 0 and right.ndim == 1 and other.ndim == 2:  # noqa: PLR2004
            return Outer(left, right @ other)
        if place == 1 and left.ndim == right.ndim == 1:
            return Outer(other @ left, right)
    if node.primitive == "convolution" and left.ndim == 1:
        run, attributes = VOCABULARY[node.primitive].run, dict(node.attributes)
        if place == 0:
            return Outer(left, run(right[None], other, **attributes)[0])
        if attributes["groups"] == 1:
            filtered = run(other, right[None], **attributes)
            return np.asarray(filtered * left.reshape(-1, *(1,) * (right.ndim - 1)))
    return None
