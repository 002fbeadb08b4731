"""Number the terms of two programs: equal numbers are the same expression of the same leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from padiff.pairing import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from padiff.program import Lowered, Node

    from .executed import Sink
    from .leaves import Leaves
    from .side import Side

    Join: TypeAlias = Callable[[int, Sequence[int]], int | None]

__all__ = ["COMMUTATIVE", "LAYOUT", "Numbering"]

LAYOUT = frozenset({"cast", "reshape", "expand", "transpose"})
"""Primitives that move elements; nothing where kind, shape and order of axes stay as they are."""
COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "and", "or", "xor", "equal"})
"""Primitives whose operands may be exchanged."""


class Numbering:
    """One number for each expression that two programs compute."""

    def __init__(self, reference: Side, candidate: Side, leaves: Leaves) -> None:
        """Number the terms of both programs."""
        self._known: dict[Hashable, int] = {}
        self._reshaped: dict[int, int] = {}
        """What a reshaped value was reshaped from."""
        known = {
            term: self._new(("leaf", value)) for term, value in reference.lowered.leaves.items()
        }
        self.reference: Sequence[int] = self._all(reference.lowered, known)
        """By term."""
        self._expressions = frozenset(self.reference)
        self._leaves: dict[int, int] = {}
        """The numbers of the candidate's leaves, and of what holds the same as a value of the
        reference, by value id."""
        for value, made in leaves.computed.items():
            number = self.reference[reference.lowered.terms[made]]
            shapes = reference.program.values[made].shape, candidate.program.values[value].shape
            is_whole = shapes[0] == shapes[1]
            self._leaves[value] = number if is_whole else self._new(("fitted", number, shapes[1]))
        for value in candidate.lowered.leaves.values():
            pair = leaves.pairs.get(value)
            if value in leaves.computed:
                continue
            if pair is None:
                self._leaves[value] = self._new(("own", value))
            else:
                parts = tuple(known[reference.lowered.terms[one]] for one in pair.reference)
                shape = candidate.program.values[value].shape
                self._leaves[value] = self._turned(parts, pair.rule, shape)
        self.candidate: Sequence[int] = self.of_candidate(candidate.lowered, {})
        """By term."""

    @property
    def both(self) -> tuple[Sequence[int], Sequence[int]]:
        """The numbers of the reference's terms and of the candidate's."""
        return self.reference, self.candidate

    def is_same(self, sides: tuple[Side, Side], sink: Sink) -> bool:
        """Return whether two values that lie alike are the same expression."""
        reference, candidate = (side.lowered.terms for side in sides)
        return (
            sink.is_plain
            and self.reference[reference[sink.reference]]
            == self.candidate[candidate[sink.candidate]]
        )

    def of_candidate(
        self, lowered: Lowered, given: Mapping[int, int], *, join: Join | None = None
    ) -> list[int]:
        """Return the numbers of the candidate's terms if some are known to be something else.

        Args:
            lowered: The candidate's program, or an edited one with more leaves.
            given: Numbers of its new leaves, by term.
            join: Asked of each term that is no expression of the reference, with the numbers so
                far: the number of a term of the reference that holds the same, or None.
                Nothing is asked without it.
        """
        known = {
            lowered.terms[value]: number
            for value, number in self._leaves.items()
            if value in lowered.terms
        }
        return self._all(lowered, {**known, **given}, join)

    def of_reference(self, lowered: Lowered) -> list[int]:
        """Return the numbers of the reference's terms in a program with leaves of its own.

        Args:
            lowered: The reference's program, or an edited one.
        """
        leaves = {term: self._new(("leaf", value)) for term, value in lowered.leaves.items()}
        return self._all(lowered, leaves)

    def find(self, lowered: Lowered, node: Node, operands: Sequence[int], place: int) -> int | None:
        """Return the number of an output of a node if its operands had these; None if new."""
        key = self._key(lowered, node, tuple(operands), node.outputs[place], place)
        return key if isinstance(key, int) else self._known.get(key)

    def _new(self, key: Hashable) -> int:
        """Return the number of a key, a new one for a new key."""
        return self._known.setdefault(key, len(self._known))

    def _turned(self, parts: tuple[int, ...], rule: object, shape: tuple[int, ...]) -> int:
        """Return the number of a leaf that is made of others by a layout rule."""
        text = str(rule)
        if rule == IDENTITY and len(parts) == 1:
            return parts[0]
        if text == "transpose" and len(parts) == 1:
            return self._new(("transpose", repr([("order", (1, 0))]), parts, 0))
        return self._new(("rule", text, parts, shape))

    def _all(
        self, lowered: Lowered, given: Mapping[int, int], join: Join | None = None
    ) -> list[int]:
        """Return the numbers of all terms of a program."""
        found = [-1] * len(lowered.specs)
        for term, number in given.items():
            found[term] = number
        for node in lowered.nodes:
            operands = tuple(found[term] for term in node.operands)
            for place, term in enumerate(node.outputs):
                if term in given:
                    continue
                key = self._key(lowered, node, operands, term, place)
                found[term] = key if isinstance(key, int) else self._new(key)
                if join is not None and found[term] not in self._expressions:
                    same = join(term, found)
                    found[term] = found[term] if same is None else same
                if node.primitive == "reshape" and not isinstance(key, int):
                    self._reshaped[found[term]] = self._base(operands[0])
        return found

    def _key(
        self, lowered: Lowered, node: Node, operands: tuple[int, ...], term: int, place: int
    ) -> int | Hashable:
        """Return what an output is known by: its number if it is one of the operands."""
        if node.primitive in LAYOUT and lowered.specs[node.operands[0]] == lowered.specs[term]:
            axes = dict(node.attributes).get("order")
            if node.primitive != "transpose" or axes == tuple(range(len(axes or ()))):
                return operands[0]
        if node.primitive == "reshape":
            return ("reshape", self._base(operands[0]), lowered.specs[term].shape)
        if node.primitive in COMMUTATIVE:
            operands = tuple(sorted(operands))
        return (node.primitive, _attributes(lowered, node), operands, place)

    def _base(self, number: int) -> int:
        return self._reshaped.get(number, number)


def _attributes(lowered: Lowered, node: Node) -> str:
    """Return the attributes of a node as text, axes counted from the front.

    Which row gets no gradient does not change what is computed.
    """
    count = lowered.specs[node.operands[0]].ndim if node.operands else 0
    return repr(
        [
            (name, _from_front(value, count) if name in {"axis", "axes"} else value)
            for name, value in node.attributes
            if name != "held"
        ]
    )


def _from_front(axes: Any, count: int) -> Any:  # noqa: ANN401 - as the primitive takes them
    if isinstance(axes, tuple):
        return tuple(_from_front(axis, count) for axis in axes)
    return axes + count if isinstance(axes, int) and axes < 0 else axes
