"""Derivatives along a direction.

Where elements are moved, added and multiplied with what stays, the derivative is the same program,
run once on the direction itself. Of products of what moves and of functions of it, the elements
are needed, too. What is chosen by the elements, as by a limit, is what is chosen where they are:
however near the next kink, that is the derivative. Integers and truths do not move. Directions
and what becomes of them are kept as outer products where they are such, so that a product with a
matrix is one with a vector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .execute import Execution, Limits
from .primitives import VOCABULARY, Array, Kind
from .primitives.elementwise import sigmoid

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

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
    "cast", "conj", "cumsum", "diagonal", "expand", "flip", "fourier",
    "fourier_real_inverse", "imag", "neg", "overlap",
    "pad", "real", "reshape", "roll", "slice", "sum", "transpose", "tril", "triu", "windows",
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
_PAIRS = frozenset({"convolution", "convolution_transposed", "grouped_matmul", "mul"})
_BILINEAR = frozenset({"div", "matmul", *_PAIRS})
"""Whose two operands may move together."""
_WRITES = frozenset({"put", "scatter"})
"""Linear in an array and what is written into it, or added to it, together."""
_SLOPES: dict[str, Callable[[Array, Array], Array]] = {
    "abs": lambda x, _: np.sign(x),
    "acos": lambda x, _: -1 / np.sqrt(1 - x * x),
    "asin": lambda x, _: 1 / np.sqrt(1 - x * x),
    "atan": lambda x, _: 1 / (1 + x * x),
    "cos": lambda x, _: -np.sin(x),
    "cosh": lambda x, _: np.sinh(x),
    "erf": lambda x, _: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "erfc": lambda x, _: -2 / math.sqrt(math.pi) * np.exp(-x * x),
    "exp": lambda _, y: y,
    "expm1": lambda _, y: y + 1,
    "log": lambda x, _: 1 / x,
    "log10": lambda x, _: 1 / (x * math.log(10)),
    "log1p": lambda x, _: 1 / (1 + x),
    "log2": lambda x, _: 1 / (x * math.log(2)),
    "sigmoid": lambda _, y: y * (1 - y),
    "sin": lambda x, _: np.cos(x),
    "sinh": lambda x, _: np.cosh(x),
    "softplus": lambda x, _: sigmoid(x),
    "sqrt": lambda _, y: 0.5 / y,
    "tan": lambda _, y: 1 + y * y,
    "tanh": lambda _, y: 1 - y * y,
}
"""Derivatives of functions, by what they take and make; at the kink of ``abs`` as frameworks do."""
_FARTHER: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], Array]]] = {
    "maximum": (np.greater, np.greater_equal),
    "minimum": (np.less, np.less_equal),
}
"""Whether the first of two is chosen: of equal ones the second one is, or the first."""
_EXTREMES = frozenset({"amax", "amin"})
"""The one element along axes that is chosen."""
_SOLVED = frozenset({"inverse", "solve"})
"""Functions of whole matrices."""
_SHARED = frozenset({"softmax", "log_softmax"})
"""Functions of all elements along an axis."""
_CURVED = frozenset({"pow", *_BILINEAR, *_SLOPES, *_EXTREMES, *_SOLVED, *_SHARED})
"""Primitives whose derivatives rest on what they take and make."""


def derivative(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    value: int,
    direction: Tangent,
    wanted: int,
) -> Tangent | None:
    """Return how one value of a program moves as another one does.

    Args:
        lowered: The program.
        leaves: Elements by the program's value ids, as ``execute`` takes them; those of the value
            that moves are needed where the program is not linear in it.
        value: Id of the value that moves.
        direction: How far each of its elements moves: float64, of its shape.
        wanted: Id of a value.

    Returns:
        float64 of the wanted value's shape, or an outer product; None if it does not depend on
        the other one by primitives whose derivatives are known.

    Raises:
        ProgramError: As ``execute``.
    """
    found = derivatives(lowered, leaves, {value: direction}, [wanted])
    return None if found is None else found.get(wanted)


def derivatives(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    directions: Mapping[int, Tangent],
    wanted: Sequence[int],
    *,
    stopped: Collection[int] = (),
    is_first: bool = False,
    limits: Limits | None = None,
) -> dict[int, Tangent] | None:
    """Return how values of a program move as others do.

    Args:
        lowered: The program.
        leaves: Elements by the program's value ids, as ``execute`` takes them.
        directions: How far the elements of values move, by their ids.
        wanted: Ids of values.
        stopped: Ids of values that count as constant: a program detaches them.
        is_first: Which of equal elements is the largest, or the smallest, where they tie.
        limits: None for the default.

    Returns:
        As ``derivative``, of those wanted values that move; None if one of them does by a
        primitive whose derivative is not known.

    Raises:
        ProgramError: As ``execute``.
    """
    ends = {one: lowered.terms[one] for one in wanted}
    begins = {lowered.terms[one]: direction for one, direction in directions.items()}
    known = {*begins, *(lowered.terms[one] for one in leaves)}
    nodes = [lowered.nodes[place] for place in lowered.behind([*ends.values()], known=known)]
    moved = set(begins)
    still = {lowered.terms[one] for one in stopped if one in lowered.terms} - begins.keys()
    read = _follow(lowered, nodes, moved, still)
    if read is None:
        return None
    ends = {one: term for one, term in ends.items() if term in moved}
    needed = {lowered.nodes[place].outputs[0] for place in lowered.behind(read, known=known)}
    run = _Along(lowered, leaves, limits or Limits(), moved, needed, is_first=is_first)
    run.tangents.update(begins)
    if ends:
        run.run_all(
            [one for one in nodes if one.outputs[0] in needed or not moved.isdisjoint(one.outputs)],
            [*ends.values()],
        )
    found = {one: run.tangents[term] for one, term in ends.items()}
    return {one: each.dense() if isinstance(each, _Turned) else each for one, each in found.items()}


def _follow(
    lowered: Lowered, nodes: Sequence[Node], moved: set[int], still: AbstractSet[int]
) -> list[int] | None:
    """Add the terms that move with others, and return those whose elements derivatives take.

    Args:
        lowered: The program.
        nodes: In their order.
        moved: The terms that move; changed in place.
        still: Terms that do not, whatever they are made of.

    Returns:
        None where a derivative is not known.
    """
    read: list[int] = []
    for node in nodes:
        if moved.isdisjoint(node.operands) or not _moves(lowered, node):
            continue
        if not still.isdisjoint(node.outputs):
            continue
        terms = _terms_read(lowered, node, moved)
        if terms is None:
            return None
        read += terms
        moved.update(node.outputs)
    return read


def _terms_read(lowered: Lowered, node: Node, moved: set[int]) -> list[int] | None:
    """Return the terms whose elements a derivative takes; None if nothing is known of it."""
    if node.primitive in _EACH or node.primitive in _SUMS:
        return []
    if _is_linear(node, moved) or _is_written(node):
        return [term for term in node.operands if term not in moved]
    if node.primitive in {"matmul", "mul", "where", *_FARTHER}:
        return list(node.operands[:1] if node.primitive == "where" else node.operands)
    if any(lowered.specs[one].kind is Kind.COMPLEX for one in (*node.operands, *node.outputs)):
        return None
    if node.primitive in _CURVED:
        return [*node.operands, *node.outputs]
    return None


def _moves(lowered: Lowered, node: Node) -> bool:
    """Return whether what a primitive makes can move with what it takes."""
    return any(lowered.specs[one].kind in (Kind.FLOAT, Kind.COMPLEX) for one in node.outputs)


def is_affine(node: Node, moves: Callable[[int], bool]) -> bool:
    """Return whether a primitive only adds up and multiplies what moves, where others stay.

    Args:
        node: The primitive.
        moves: Whether a term moves; one of the node's operands does.
    """
    moved = {term for term in node.operands if moves(term)}
    return node.primitive in _EACH | _SUMS or _is_linear(node, moved)


def _is_written(node: Node) -> bool:
    """Return whether a primitive writes elements into others, or adds them."""
    return node.primitive in _WRITES and dict(node.attributes)["reduce"] in ("set", "add")


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
        *,
        is_first: bool,
    ) -> None:
        super().__init__(lowered, leaves, limits, None)
        self._is_first = is_first
        self._moved, self._needed = moved, needed
        self.tangents: dict[int, Tangent | _Turned] = {}

    def run_node(self, node: Node, uses: Counter[int]) -> None:
        if self._moved.isdisjoint(node.outputs):
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
        if node.primitive in _SUMS or _is_written(node):
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
        if node.primitive == "where":
            return self._chosen(node)
        taken = [self.operand(one) for one in node.operands]
        if node.primitive == "matmul":
            one, two = (self.tangents[term] for term in node.operands)
            return _product_of_left(one, taken[1]) + _product_of_right(taken[0], two)
        tangents = [
            _dense(self.tangents[term]) if term in self._moved else np.zeros(())
            for term in node.operands
        ]
        if node.primitive in _PAIRS:
            run = partial(VOCABULARY[node.primitive].run, **dict(node.attributes))
            return np.asarray(run(tangents[0], taken[1]) + run(taken[0], tangents[1]))
        if node.primitive in _FARTHER:
            is_farther = _FARTHER[node.primitive][self._is_first](*taken)
            return np.asarray(np.where(is_farther, tangents[0], tangents[1]))
        if node.primitive in _EXTREMES:
            made = self.arrays[node.outputs[0]]
            return _of_extreme(node, taken[0], made, tangents[0], is_first=self._is_first)
        return _of_function(node, taken, self.arrays[node.outputs[0]], tangents)

    def _chosen(self, node: Node) -> Array:
        """Return the tangent of what is chosen element by element."""
        chooses, *others = node.operands
        tangents = [
            _dense(self.tangents[term]) if term in self._moved else np.zeros(()) for term in others
        ]
        found = np.where(self.operand(chooses), *tangents)
        return np.broadcast_to(found, self.lowered.specs[node.outputs[0]].shape)

    def _sum(self, node: Node, shape: tuple[int, ...]) -> Tangent | _Turned:
        found = [self.tangents.get(term) for term in node.operands]
        first = found[0]
        is_alone = node.primitive in ("add", "sub") and found[1] is None
        if is_alone and first is not None:
            return first if first.shape == shape else np.broadcast_to(_dense(first), shape)
        operands = [self._moving(node, term) for term in node.operands]
        return np.asarray(VOCABULARY[node.primitive].run(*operands, **dict(node.attributes)))

    def _moving(self, node: Node, term: int) -> Array:
        """Return a tangent, zeros for what stays, and the places of what is written."""
        spec = self.lowered.specs[term]
        if term in self._moved:
            return _dense(self.tangents[term])
        is_place = node.primitive in _WRITES and spec.kind is Kind.INT
        return self.operand(term) if is_place else np.zeros(spec.shape)


def _of_extreme(node: Node, taken: Array, made: Array, tangent: Array, *, is_first: bool) -> Array:
    """Return the tangent of the first, or the last, of those elements that are the extreme."""
    attributes: dict[str, Any] = dict(node.attributes)
    axes = tuple(axis % taken.ndim for axis in attributes["axes"])
    whole = [1 if axis in axes else size for axis, size in enumerate(taken.shape)]
    order = [*(axis for axis in range(taken.ndim) if axis not in axes), *axes]
    rest = [taken.shape[axis] for axis in order[: taken.ndim - len(axes)]]
    hits = (taken == made.reshape(whole)).transpose(order).reshape(*rest, -1)
    rows = np.broadcast_to(tangent, taken.shape).transpose(order).reshape(*rest, -1)
    turned = hits if is_first else hits[..., ::-1]
    places = turned.argmax(-1)[..., None]
    places = places if is_first else hits.shape[-1] - 1 - places
    return np.take_along_axis(rows, places, -1).reshape(made.shape)


def _of_function(node: Node, taken: list[Array], made: Array, tangents: list[Array]) -> Array:
    """Return the tangent of a function of one or two arrays."""
    if node.primitive in _SLOPES:
        return np.asarray(tangents[0] * _SLOPES[node.primitive](taken[0], made))
    if node.primitive in _SHARED:
        axis: int = dict(node.attributes)["axis"]
        is_softmax = node.primitive == "softmax"
        weights = made if is_softmax else np.exp(made)
        mean = (tangents[0] * weights).sum(axis, keepdims=True)
        return np.asarray((weights if is_softmax else 1.0) * (tangents[0] - mean))
    if node.primitive in _SOLVED:
        return _of_solved(taken[0], made, tangents)
    if node.primitive == "pow":
        base, exponent = taken
        of_base = tangents[0] * exponent * np.power(base, exponent - 1)
        of_exponent = tangents[1] * made * np.log(base) if tangents[1].ndim else 0.0
        return np.asarray(of_base + of_exponent)
    return np.asarray((tangents[0] - made * tangents[1]) / taken[1])


def _of_solved(matrix: Array, made: Array, tangents: list[Array]) -> Array:
    """Return the tangent of what a matrix times gives something, which may move with it."""
    moved = -np.matmul(tangents[0], made) if tangents[0].ndim else np.zeros(())
    if len(tangents) > 1:
        moved = moved + tangents[1]
    return np.asarray(np.linalg.solve(matrix, np.broadcast_to(moved, made.shape)))


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
    if node.primitive == "cast" and not (
        isinstance(tangent, np.ndarray) and tangent.dtype.kind == "c"
    ):
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
