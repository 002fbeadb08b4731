"""How far rounding moves a value: what ``Rounding`` shows by chance, as an expectation.

Where every result is read once, its errors are independent of all others, and squares of errors
add up: one more product of squares stands for many executions with random errors.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .execute import Execution, Limits
from .primitives import VOCABULARY, Array, Kind
from .rounding import EXACT, is_whole, unit_of_terms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .execute import Leaf
    from .lowering import Lowered, Node

__all__ = ["execute_with_spread", "own_errors"]

_MOVES = frozenset({"cast", "flip", "neg", "reshape", "roll", "slice", "transpose"})
_SUMS = frozenset({"add", "sub"})
_CONTRACTIONS = frozenset({"convolution", "matmul"})
_FREE = frozenset({"full", "iota", "literal"})
_BLOCK = 1 << 20
"""Elements that are looked at together: a weight may take a tenth of the memory."""


def execute_with_spread(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    wanted: int,
    units: Mapping[int, float],
) -> tuple[Array, Array] | None:
    """Compute a value, and how far rounding moves each of its elements.

    Args:
        lowered: The program.
        leaves: Elements by the program's value ids, as ``execute`` takes them.
        wanted: Id of a value.
        units: Unit roundoff of each operator by its id; 0 for operators that are exact.

    Returns:
        The value in float64, and root mean squares of the errors of its elements; None where
        errors depend on each other, or nothing is known of a primitive's.

    Raises:
        ProgramError: As ``execute``.
    """
    known = {lowered.terms[one] for one in leaves}
    term = lowered.terms[wanted]
    nodes = [lowered.nodes[place] for place in lowered.behind([term], known=known)]
    reads = Counter(one for node in nodes for one in node.operands)
    made = {one for node in nodes if node.primitive not in _FREE for one in node.outputs}
    if any(reads[one] > 1 for one in made) or not all(_is_known(lowered, node) for node in nodes):
        return None
    run = _Spreading(lowered, leaves, units)
    run.run_all(nodes, [term])
    square = run.squares.get(term)
    result = run.operand(term)
    return result, np.zeros(result.shape) if square is None else np.sqrt(square)


def _is_known(lowered: Lowered, node: Node) -> bool:
    if any(lowered.specs[one].kind is not Kind.FLOAT for one in (*node.operands, *node.outputs)):
        return False
    return node.primitive in _MOVES | _SUMS | _CONTRACTIONS | _FREE


class _Spreading(Execution):
    """Holds, beside each term, the expected squares of its errors."""

    def __init__(
        self, lowered: Lowered, leaves: Mapping[int, Leaf], units: Mapping[int, float]
    ) -> None:
        super().__init__(lowered, leaves, Limits(), None)
        self._units = units
        self.squares: dict[int, Array] = {}
        """By term; none where a term has no errors."""

    def run_node(self, node: Node, uses: Counter[int]) -> None:
        """Run one primitive on elements, and on the squares of their errors."""
        taken = [self.operand(term) for term in node.operands]
        errors = [self.squares.pop(term, None) for term in node.operands]
        output = node.outputs[0]
        uses[output] += 1  # so that it is still there below
        super().run_node(node, uses)
        uses[output] -= 1
        parts = self._handed_on(node, taken, errors)
        unit = self._units.get(node.operator, 0.0)
        if unit and node.primitive not in EXACT:
            result = self.arrays[output]
            parts.append(np.where(is_whole(result, unit), 0.0, np.square(unit * result)))
        if parts:
            shape = self.lowered.specs[output].shape
            self.squares[output] = np.broadcast_to(sum(parts[1:], start=parts[0]), shape)

    def _handed_on(self, node: Node, taken: list[Array], errors: list[Array | None]) -> list[Array]:
        """Return what errors of the operands, or inside a sum, do to the result."""
        if node.primitive in _CONTRACTIONS:
            unit = unit_of_terms(node, taken, self._units.get(node.operator, 0.0))
            return [_contracted(node, taken, errors, unit)]
        found = [one for one in errors if one is not None]
        if node.primitive in _MOVES and node.primitive not in {"cast", "neg"}:
            run = VOCABULARY[node.primitive].run
            return [np.asarray(run(one, **dict(node.attributes))) for one in found]
        return found


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
    return np.asarray(total, dtype=np.float64) * (unit * scales[0] * scales[1]) ** 2


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
    found = _without_whole(taken, square, unit)
    if error is None:
        return found
    return found + (error / (unit * scale) ** 2).astype(np.float32)


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
