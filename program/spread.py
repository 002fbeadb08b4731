"""How far rounding moves a value: what ``Rounding`` shows by chance, as an expectation.

Errors of one primitive are independent of those of all others, and where each result is read once
their squares add up: one more product of squares stands for many executions with random errors.
Where errors are left out, the rest is the least that rounding does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from .execute import Execution, Limits
from .primitives import VOCABULARY, Array, Kind
from .rounding import EXACT, UNIT_ROUNDOFF, in_blocks, is_held, is_whole, unit_of_terms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .execute import Leaf
    from .lowering import Lowered, Node

_MOVES = frozenset({"cast", "flip", "neg", "reshape", "roll", "slice", "transpose"})
_SUMS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"div", "mul"})
_CONTRACTIONS = frozenset({"convolution", "convolution_transposed", "matmul"})
_FREE = frozenset({"full", "iota", "literal"})
_BLOCK = 1 << 20
"""Elements that are looked at together: a weight may take a tenth of the memory."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A value, and how far rounding moves it."""

    result: Array
    """As ``execute`` returns it."""
    errors: Array
    """Root mean squares of the errors of its elements, of its shape, >= 0."""
    is_complete: bool
    """Whether these are the errors of all primitives. Else rounding moves the value further."""


def execute_with_spread(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    wanted: int,
    units: Mapping[int, float],
) -> Spread:
    """Compute a value, and how far rounding moves each of its elements.

    Errors are followed from the value back, as far as each result is read once and a rule tells
    what becomes of its errors. They are independent of all others, so what happens further ahead
    only adds to them.

    Args:
        lowered: The program.
        leaves: Elements by the program's value ids, as ``execute`` takes them.
        wanted: Id of a value.
        units: Unit roundoff of each operator by its id; 0 for operators that are exact.

    Raises:
        ProgramError: As ``execute``.
    """
    known = {lowered.terms[one] for one in leaves}
    term = lowered.terms[wanted]
    nodes = [lowered.nodes[place] for place in lowered.behind([term], known=known)]
    followed, is_complete = _followed(lowered, nodes, term)
    run = _Spreading(lowered, leaves, units, followed)
    run.run_all(nodes, [term])
    square = run.squares.get(term)
    result = run.operand(term)
    errors = np.zeros(result.shape) if square is None else np.sqrt(square)
    return Spread(result, errors, is_complete)


def _followed(lowered: Lowered, nodes: list[Node], term: int) -> tuple[set[int], bool]:
    """Return the terms whose errors are followed, and whether none is left out."""
    producers = {output: node for node in nodes for output in node.outputs}
    reads = Counter(one for node in nodes for one in node.operands)
    found: set[int] = set()
    open_, is_complete = [term], True
    while open_:
        one = open_.pop()
        node = producers.get(one)
        if node is None or node.primitive in _FREE:
            continue  # it has no errors
        if lowered.specs[one].kind is not Kind.FLOAT:
            is_complete = False
            continue
        found.add(one)
        if not _is_known(lowered, node):
            is_complete = False
            continue
        for operand in node.operands:
            if reads[operand] == 1:
                open_.append(operand)
            elif operand in producers and producers[operand].primitive not in _FREE:
                is_complete = False
    return found, is_complete


def _is_known(lowered: Lowered, node: Node) -> bool:
    if any(lowered.specs[one].kind is not Kind.FLOAT for one in (*node.operands, *node.outputs)):
        return False
    return node.primitive in _MOVES | _SUMS | _PRODUCTS | _CONTRACTIONS


class _Spreading(Execution):
    """Holds, beside each term, the expected squares of its errors."""

    def __init__(
        self,
        lowered: Lowered,
        leaves: Mapping[int, Leaf],
        units: Mapping[int, float],
        followed: set[int],
    ) -> None:
        super().__init__(lowered, leaves, Limits(), None)
        self._units = units
        self._followed = followed
        self.squares: dict[int, Array] = {}
        """By term; none where a term has no errors, or where they are left out."""

    def run_node(self, node: Node, uses: Counter[int]) -> None:
        """Run one primitive on elements, and on the squares of their errors."""
        if node.outputs[0] not in self._followed:
            super().run_node(node, uses)
            return
        taken = [self.operand(term) for term in node.operands]
        errors = [self.squares.pop(term, self._of_number(term)) for term in node.operands]
        output = node.outputs[0]
        uses[output] += 1  # so that it is still there below
        super().run_node(node, uses)
        uses[output] -= 1
        parts = self._contributions(node, taken, errors)
        unit = 0.0 if node.primitive in EXACT else self._units.get(node.operator, 0.0)
        if parts or unit:
            self.squares[output] = _squares(self.arrays[output], unit, parts)

    def _of_number(self, term: int) -> Array | None:
        """Return the square of the error of a number that a kernel takes in float32."""
        place = self.lowered.producers.get(term)
        node = None if place is None else self.lowered.nodes[place]
        if node is None or node.primitive != "full":
            return None
        number = self.operand(term)
        if is_held(number, self._units.get(node.operator, 0.0)):
            return None
        return np.asarray(np.square(UNIT_ROUNDOFF["float32"] * number))

    def _contributions(
        self, node: Node, taken: list[Array], errors: list[Array | None]
    ) -> list[tuple[Array, Array]]:
        """Return the slopes and squares of errors of the operands, or of those inside a sum."""
        if node.primitive in _CONTRACTIONS:
            unit = unit_of_terms(node, taken, self._units.get(node.operator, 0.0))
            return [(_ONE, _contracted(node, taken, errors, unit))]
        if node.primitive in _PRODUCTS:
            return _multiplied(node, taken, errors)
        if not _is_known(self.lowered, node):
            return []
        found = [one for one in errors if one is not None]
        if node.primitive in _MOVES and node.primitive not in {"cast", "neg"}:
            run = VOCABULARY[node.primitive].run
            found = [np.asarray(run(one, **dict(node.attributes))) for one in found]
        return [(_ONE, one) for one in found]


_ONE = np.ones(())


def _squares(result: Array, unit: float, parts: list[tuple[Array, Array]]) -> Array:
    """Return the expected squares of a primitive's errors, those of its own rounding included.

    Args:
        result: What it makes.
        unit: Its unit roundoff; 0 if it rounds nothing.
        parts: Slopes and squares of the errors that it takes.
    """
    if not unit and len(parts) == 1 and parts[0][0] is _ONE:
        return np.broadcast_to(parts[0][1], result.shape)
    total = np.empty_like(result)
    for made, *rest, out in in_blocks(result, *chain(*parts), out=total):
        np.square(unit * made, out=out)
        whole = is_whole(made, unit)
        if whole.any():
            out[whole] = 0.0
        for slope, error in zip(rest[::2], rest[1::2], strict=True):
            np.add(out, slope * slope * error, out=out)
    return total


def _multiplied(
    node: Node, taken: list[Array], errors: list[Array | None]
) -> list[tuple[Array, Array]]:
    """Return the slopes of a product or a quotient, and the squares of the errors it takes."""
    one, two = taken
    pairs = zip((two, one), errors, strict=True)
    if node.primitive == "div":
        pairs = zip((1 / two, one / two**2), errors, strict=True)
    return [(slope, error) for slope, error in pairs if error is not None]


def _contracted(node: Node, taken: list[Array], errors: list[Array | None], unit: float) -> Array:
    """Return the squares of the errors of a sum of products.

    They need no more than a few digits: float32 is twice as fast.
    """
    scales = [_largest(one) or 1.0 for one in taken]
    squares = [_squared(one, scale) for one, scale in zip(taken, scales, strict=True)]
    own = [
        own_errors(one, square, scale, error, unit)
        for one, square, scale, error in zip(taken, squares, scales, errors, strict=True)
    ]
    attributes: dict[str, Any] = dict(node.attributes)
    run = VOCABULARY[node.primitive].run
    if all(one is square for one, square in zip(own, squares, strict=True)):
        total = 2 * run(squares[0], squares[1], **attributes)
    else:
        total = run(own[0], squares[1], **attributes) + run(squares[0], own[1], **attributes)
    return np.asarray(total, dtype=np.float64) * np.square(unit * scales[0] * scales[1])


def _largest(array: Array) -> float:
    """Return the largest magnitude, without an array of all of them."""
    return float(np.maximum(np.max(array, initial=0.0), -np.min(array, initial=0.0)))


def _squared(array: Array, scale: float) -> Array:
    """Return the squares of elements over a scale, in float32 and in the same order of axes."""
    found = np.empty_like(array, dtype=np.float32)
    np.divide(array, scale, out=found, casting="same_kind")
    return np.asarray(np.square(found, out=found))


def own_errors(
    taken: Array, square: Array, scale: float, error: Array | None, unit: float
) -> Array:
    """Return the squares of an operand's errors, in units of the unit roundoff and its scale."""
    found = square if scale < 1 else _without_whole(taken, square, unit)
    if error is None:
        return found
    return found + (error / np.square(unit * scale)).astype(np.float32)


def _without_whole(taken: Array, square: Array, unit: float) -> Array:
    """Return squares with zeros for whole numbers, which have no errors; themselves without any."""
    is_turned = taken.flags.f_contiguous
    found = square
    rows = taken.T if is_turned else taken
    count = max(_BLOCK // max(rows[:1].size, 1), 1)
    for start in range(0, len(rows), count):
        part = rows[start : start + count]
        whole = is_whole(part, unit) & (part != 0)
        if whole.any():
            found = square.copy("K") if found is square else found
            (found.T if is_turned else found)[start : start + count][whole] = 0
    return found
