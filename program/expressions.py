"""Number what programs compute: equal numbers are the same expression of the same leaves."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Mapping, Sequence

    from .lowering import Lowered, Node

    Join: TypeAlias = Callable[[int, Sequence[int]], int | None]
    _Read: TypeAlias = tuple[str, str, int, tuple[int, ...]]
    """Primitive, attributes, which operand it is, and what the outputs are read for."""

LAYOUT = frozenset({"cast", "reshape", "expand", "transpose"})
"""Primitives that move elements; nothing where kind, shape and order of axes stay as they are."""
COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum", "and", "or", "xor", "equal"})
"""Primitives whose operands may be exchanged."""
_ONE = repr([("kind", "float"), ("shape", ()), ("value", 1.0)])
"""Attributes of the number that reciprocals are divided from."""


class Expressions:
    """One number for each expression that programs compute."""

    left_out: Container[str] = frozenset({"held", "least"})
    """Attributes that make no other expression. Which row gets no gradient does not change what is
    computed; what stands for the smallest exponentials hardly does."""

    def __init__(self) -> None:
        """Begin without any."""
        self._known: dict[Hashable, int] = {}
        self._reshaped: dict[int, int] = {}
        """What a reshaped value was reshaped from."""
        self._transposed: dict[int, tuple[int, tuple[int, ...]]] = {}
        """What a transposed value was transposed from, and its axes there."""
        self._ones: set[int] = set()
        self._reciprocals: dict[int, int] = {}
        """What one was divided by."""

    def new(self, key: Hashable) -> int:
        """Return the number of a key, a new one for a new key."""
        return self._known.setdefault(key, len(self._known))

    def number(
        self, lowered: Lowered, given: Mapping[int, int], join: Join | None = None
    ) -> list[int]:
        """Return the numbers of all terms of a program.

        Args:
            lowered: The program.
            given: Numbers of its leaves, and of other terms that are known to be something else.
            join: Asked of each other term, with the numbers so far: another number, or None.
        """
        found = [-1] * len(lowered.specs)
        for term, number in given.items():
            found[term] = number
        for node in lowered.nodes:
            operands = tuple(found[term] for term in node.operands)
            for place, term in enumerate(node.outputs):
                if term in given:
                    continue
                key = self._key(lowered, node, operands, term, place)
                found[term] = key if isinstance(key, int) else self._added(key)
                if join is not None:
                    same = join(term, found)
                    found[term] = found[term] if same is None else same
        return found

    def number_reads(
        self, lowered: Lowered, given: Mapping[int, int], unknown: Container[int]
    ) -> list[int]:
        """Return numbers of what all terms of a program are read for, up to its ends.

        Args:
            lowered: The program.
            given: Terms that are known to be something of their own, by numbers that say what.
            unknown: Terms that are read for what is not known, too.
        """
        found = [-1] * len(lowered.specs)
        reads: dict[int, list[_Read]] = defaultdict(list)
        for node in reversed(lowered.nodes):
            for term in node.outputs:
                found[term] = self._read(term, given, unknown, reads)
            made = tuple(found[term] for term in node.outputs)
            name, attributes = node.primitive, _attributes(lowered, node, self.left_out)
            for place, term in enumerate(node.operands):
                is_moved = name in LAYOUT and lowered.specs[term] == lowered.specs[node.outputs[0]]
                if is_moved and name != "transpose" and node.outputs[0] not in given:
                    reads[term] += reads[node.outputs[0]]
                else:
                    where = 0 if name in COMMUTATIVE else place
                    reads[term].append((name, attributes, where, made))
        for term in lowered.leaves:
            found[term] = self._read(term, given, unknown, reads)
        return found

    def _read(
        self,
        term: int,
        given: Mapping[int, int],
        unknown: Container[int],
        reads: Mapping[int, Sequence[_Read]],
    ) -> int:
        if term in given:
            return given[term]
        own = ("unknown", len(self._known)) if term in unknown else ()
        return self.new(("read", own, tuple(sorted(reads[term]))))

    def find(self, lowered: Lowered, node: Node, operands: Sequence[int], place: int) -> int | None:
        """Return the number of an output of a node if its operands had these; None if new."""
        key = self._key(lowered, node, tuple(operands), node.outputs[place], place)
        return key if isinstance(key, int) else self._known.get(key)

    def transposed(self, number: int) -> int:
        """Return the number of a matrix with its two axes exchanged."""
        key = self._transpose(number, (1, 0))
        return key if isinstance(key, int) else self._added(key)

    def _added(self, key: Hashable) -> int:
        """Return the number of a key, and remember what it was moved from."""
        number = self.new(key)
        match key:
            case ("reshape", int(base), _):
                self._reshaped[number] = base
            case ("transpose", int(base), tuple(axes)):
                self._transposed[number] = base, axes
            case ("full", str(attributes), (), _) if attributes == _ONE:
                self._ones.add(number)
            case ("div", _, (int(one), int(base)), _) if one in self._ones:
                self._reciprocals[number] = base
        return number

    def _transpose(self, number: int, order: tuple[int, ...]) -> int | Hashable:
        """Return what a transposed value is known by; transposed back it is what it was."""
        base, before = self._transposed.get(number, (number, tuple(range(len(order)))))
        axes = tuple(before[axis] for axis in order)
        return base if axes == tuple(range(len(axes))) else ("transpose", base, axes)

    def _key(
        self, lowered: Lowered, node: Node, operands: tuple[int, ...], term: int, place: int
    ) -> int | Hashable:
        """Return what an output is known by: its number if it is one of the operands."""
        if node.primitive == "transpose":
            count = lowered.specs[term].ndim
            order = dict(node.attributes)["order"]
            return self._transpose(operands[0], tuple(axis % count for axis in order))
        if node.primitive in LAYOUT and lowered.specs[node.operands[0]] == lowered.specs[term]:
            return operands[0]
        if node.primitive == "reshape":
            return ("reshape", self._base(operands[0]), lowered.specs[term].shape)
        if node.primitive in COMMUTATIVE:
            operands = tuple(sorted(operands))
        if node.primitive == "mul":
            for factor, other in (operands, operands[::-1]):
                if other in self._reciprocals:
                    return ("div", "[]", (factor, self._reciprocals[other]), place)
        return (node.primitive, _attributes(lowered, node, self.left_out), operands, place)

    def _base(self, number: int) -> int:
        return self._reshaped.get(number, number)


def _attributes(lowered: Lowered, node: Node, left_out: Container[str]) -> str:
    """Return the attributes of a node as text, but for some, axes counted from the front."""
    count = lowered.specs[node.operands[0]].ndim if node.operands else 0
    return repr(
        [
            (name, _from_front(value, count) if name in {"axis", "axes"} else value)
            for name, value in node.attributes
            if name not in left_out
        ]
    )


def _from_front(axes: Any, count: int) -> Any:
    if isinstance(axes, tuple):
        return tuple(_from_front(axis, count) for axis in axes)
    return axes + count if isinstance(axes, int) and axes < 0 else axes
