"""Number the terms of two programs: equal numbers are the same expression of the same leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Hashable

    from padiff.program import Lowered, Node

    from .leaves import Leaves
    from .side import Side

__all__ = ["number_terms"]

_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "and", "or", "xor", "equal"})
"""Primitives whose operands may be exchanged."""
_PLAIN = frozenset({"cast", "reshape", "expand", "transpose"})
"""Primitives that are nothing where kind, shape and order of axes stay as they are."""


def number_terms(reference: Side, candidate: Side, leaves: Leaves) -> tuple[list[int], list[int]]:
    """Return the number of each term of both programs, by position."""
    numbers = _Numbers()
    known = {
        term: numbers.leaf(("leaf", value)) for term, value in reference.lowered.leaves.items()
    }
    found = {}
    for term, value in candidate.lowered.leaves.items():
        pair = leaves.pairs.get(value)
        if pair is None:
            found[term] = numbers.leaf(("own", value))
        else:
            parts = tuple(known[reference.lowered.terms[one]] for one in pair.reference)
            shape = candidate.program.values[value].shape
            found[term] = numbers.turned(parts, pair.rule, shape)
    return numbers.all(reference.lowered, known), numbers.all(candidate.lowered, found)


class _Numbers:
    """One number for each expression met."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._reshaped: dict[int, int] = {}
        """What a reshaped value was reshaped from."""

    def leaf(self, key: Hashable) -> int:
        """Return the number of a key, a new one for a new key."""
        return self._known.setdefault(key, len(self._known))

    def turned(self, parts: tuple[int, ...], rule: object, shape: tuple[int, ...]) -> int:
        """Return the number of a leaf that is made of others by a layout rule."""
        text = str(rule)
        if rule == IDENTITY and len(parts) == 1:
            return parts[0]
        if text == "transpose" and len(parts) == 1:
            return self.leaf(("transpose", repr((("order", (1, 0)),)), parts, 0))
        return self.leaf(("rule", text, parts, shape))

    def all(self, lowered: Lowered, leaves: dict[int, int]) -> list[int]:
        """Return the numbers of all terms of a program."""
        found = [-1] * len(lowered.specs)
        for term, number in leaves.items():
            found[term] = number
        for node in lowered.nodes:
            operands = tuple(found[term] for term in node.operands)
            for place, term in enumerate(node.outputs):
                found[term] = self._of_node(lowered, node, operands, place, term)
        return found

    def _of_node(
        self, lowered: Lowered, node: Node, operands: tuple[int, ...], place: int, term: int
    ) -> int:
        if node.primitive in _PLAIN and lowered.specs[node.operands[0]] == lowered.specs[term]:
            axes = dict(node.attributes).get("order")
            if node.primitive != "transpose" or axes == tuple(range(len(axes or ()))):
                return operands[0]
        if node.primitive == "reshape":
            return self._reshape(operands[0], lowered.specs[term].shape)
        if node.primitive in _COMMUTATIVE:
            operands = tuple(sorted(operands))
        return self.leaf((node.primitive, repr(node.attributes), operands, place))

    def _reshape(self, operand: int, shape: tuple[int, ...]) -> int:
        base = self._reshaped.get(operand, operand)
        number = self.leaf(("reshape", base, shape))
        self._reshaped[number] = base
        return number
