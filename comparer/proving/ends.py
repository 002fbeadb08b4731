"""The ends of an exchange: a term of one side, what makes it, and what each is called."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import DRAWN, LeafKind
from padiff.program import LAYOUT, ValueRef

from .parting import place_of
from .pool import is_value, plain_word, used_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.program import Argument, Lowered, Node, Operator, Value

    from .result import Place, UsedOperator
    from .side import Side

_CONSTANT = frozenset({"full", "literal"})
"""Primitives that are numbers: the operators that read them are meant."""


@dataclass(frozen=True)
class End:
    """An exchanged term of one side."""

    side: Side
    lowered: Lowered
    term: int
    numbers: Sequence[int]
    """Of its terms."""
    common: set[int]
    """Terms of the side that both programs have."""
    readers: list[int]
    """The operators that read the term where it is exchanged."""

    @property
    def nodes(self) -> list[Node]:
        """What lies between the term and what both programs have."""
        return [self.lowered.nodes[place] for place in self.places]

    @property
    def places(self) -> list[int]:
        """The positions of these nodes."""
        return self.lowered.behind([self.term], known=self.common)

    @property
    def taken(self) -> list[Operator]:
        """Operators there whose outcomes were taken as recorded."""
        terms = {self.term, *(term for node in self.nodes for term in node.operands)}
        values = (self.lowered.leaves.get(term) for term in sorted(terms - self.common))
        found = []
        for value in values:
            if value is not None and value >= 0:
                producer = self.side.program.values[value].producer
                found += [] if producer is None else [self.side.program.operators[producer]]
        return found

    @property
    def own(self) -> list[Operator]:
        """The operators between the term and what both programs have."""
        ids = {node.operator for node in self.nodes if node.primitive not in _CONSTANT}
        ids.update(one.id for one in self.taken)
        return [self.side.program.operators[one] for one in sorted(ids)]

    @property
    def around(self) -> list[Operator]:
        """The operators that are meant: those between, or else what reads and makes the term."""
        if self.own:
            return self.own
        place = self.lowered.producers.get(self.term)
        ids = [min(self.readers)] if self.readers else []
        if place is not None and self.lowered.nodes[place].primitive not in _CONSTANT:
            ids.append(self.lowered.nodes[place].operator)
        return [self.side.program.operators[one] for one in ids]

    @property
    def slice(self) -> tuple[int, ...]:
        """The ids of these operators, in order."""
        return tuple(sorted({one.id for one in self.around}))

    @property
    def inputs(self) -> list[int]:
        """What is read of what both programs have."""
        made = {term for node in self.nodes for term in node.outputs}
        found = [term for node in self.nodes for term in node.operands if term not in made]
        found += [self.lowered.computed(value) for one in self.taken for value in one.taken]
        return found

    @property
    def place(self) -> Place | None:
        """Where the last of the operators ran."""
        around = self.around
        if not around:
            return None
        last = around[-1] if self.own else around[0]
        return place_of(self.side, last.id, len(self.own))

    @property
    def used(self) -> tuple[UsedOperator, ...]:
        """The operators between, or that read a number, with their arguments that are no values."""
        return self.used_of(self.around if self.number is not None else self.own)

    def used_of(self, those: Iterable[Operator]) -> tuple[UsedOperator, ...]:
        """Return operators with their arguments that are no values."""
        return tuple(used_of(self.side, one) for one in those)

    def used_in_part(self, other: End) -> tuple[UsedOperator, ...]:
        """Return the operators between, one that both sides have a part of with its primitives.

        Of a single primitive its numbers are told, not those of the operator.
        """
        pairs = zip(self.own, self.used_of(self.own), strict=True)
        return tuple(self._in_part(*pair, other) for pair in pairs)

    def _in_part(self, operator: Operator, used: UsedOperator, other: End) -> UsedOperator:
        parts = self._parts_of(operator, other)
        read = [
            term
            for node in self.nodes
            if (node.operator, (node.primitive,)) == (operator.id, parts)
            for term in node.operands
        ]
        numbers = tuple(one for one in map(self.number_of, read) if one is not None)
        return replace(used, parts=parts, arguments=numbers if parts else used.arguments)

    def _parts_of(self, operator: Operator, other: End) -> tuple[str, ...]:
        """Return what an operator computes between if that is a part; nothing if it is all.

        It goes on behind the term, or has made what the other side's term is. One number that it
        computes of others, such as a scale, is no part.
        """
        made = {self.lowered.computed(value) for value in operator.outputs}
        own = [node for node in self.lowered.nodes if node.operator == operator.id]
        goes_on = self.term not in made and any(self.term in node.outputs for node in own)
        goes_on = goes_on and any(self.term in node.operands for node in own)
        number = other.numbers[other.term]
        if not goes_on and all(self.numbers[one] != number for node in own for one in node.outputs):
            return ()
        names, numbers = dict[int, str](), set[int]()
        for place, node in enumerate(self.lowered.nodes):
            is_single = all(self.lowered.specs[term].count == 1 for term in node.outputs)
            if is_single and numbers.issuperset(node.operands):
                numbers.update(node.outputs)
            elif node.operator == operator.id and node.primitive not in _CONSTANT | LAYOUT:
                names[place] = node.primitive
        between = [place for place in self.places if place in names]
        parts = {place: names[place] for place in between}
        for place in between:
            if (summed := self._averaged(place)) in parts:
                parts[summed] = "mean"
                del parts[place]
        return tuple(dict.fromkeys(parts.values()))

    def _averaged(self, place: int) -> int:
        """Return the position of the sum that a node divides by a number; -1 if it does not."""
        nodes, producers = self.lowered.nodes, self.lowered.producers
        if nodes[place].primitive != "div":
            return -1
        summed, count = (producers.get(term, -1) for term in nodes[place].operands)
        is_mean = summed >= 0 and nodes[summed].primitive == "sum"
        return summed if is_mean and count >= 0 and nodes[count].primitive == "full" else -1

    def part_of(self, whole: End) -> Operator | None:
        """Return the operator that is a part of the one that the other side alone has."""
        made = self.computed(), whole.computed()
        if len(whole.own) != 1 or whole.own[0].id not in made[1]:
            return None
        if whole.term not in {whole.lowered.computed(one) for one in whole.own[0].outputs}:
            return None  # it goes on behind what the other side lacks
        ids = [id_ for id_, numbers in made[0].items() if numbers <= made[1][whole.own[0].id]]
        return self.side.program.operators[ids[0]] if len(ids) == 1 else None

    def computed(self) -> dict[int, set[int]]:
        """Return the numbers of all that each operator computes."""
        found: dict[int, set[int]] = defaultdict(set)
        for node in self.lowered.nodes:
            if node.primitive not in _CONSTANT | LAYOUT:
                found[node.operator].update(self.numbers[term] for term in node.outputs)
        return found

    @property
    def number(self) -> Argument:
        """The number that the term is; None if it is none."""
        return self.number_of(self.term)

    def number_of(self, term: int) -> Argument:
        """Return the number that a term is; None if it is none."""
        place = self.lowered.producers.get(term)
        node = None if place is None else self.lowered.nodes[place]
        if node is None or node.primitive not in {"full", "literal"}:
            return None
        told = dict(node.attributes)
        values: tuple[Argument, ...] = told.get("values", (told.get("value"),))
        return values[0] if len(values) == 1 else None

    @property
    def name(self) -> str:
        """What the term is called."""
        return self.named(self.term)

    def named(self, term: int) -> str:
        """Return what a term is called: the name of a leaf, or what made it first and where."""
        while (place := self.lowered.producers.get(term)) is not None:
            node = self.lowered.nodes[place]
            same = (one for one in node.operands if self.numbers[one] == self.numbers[term])
            before = next(same, None)
            if before is None:
                return self._made_by(node.operator, term)
            term = before  # what only hands on, as a copy does
        return self.name_of(self.lowered.leaves[term])

    def part(self, number: int) -> str:
        """Return which of several outputs of a module a value is; empty if it is none."""
        parts = (
            f"{part} of {path}"
            for (value, path), part in self.side.parts.items()
            if (term := self.lowered.computed(value)) >= 0 and self.numbers[term] == number
        )
        return next(parts, "")

    def laid_out(self, term: int) -> tuple[tuple[str, str], int] | None:
        """Return how a term was made if only its layout is another, and of which term."""
        place = self.lowered.producers.get(term)
        node = None if place is None else self.lowered.nodes[place]
        if node is None or node.primitive not in LAYOUT or len(node.operands) != 1:
            return None
        return (node.primitive, repr(node.attributes)), node.operands[0]

    def name_of(self, value: int) -> str:
        """Return what a value is called."""
        if value < 0:
            return "a repaired value"
        one = self.side.program.values[value]
        place = self.lowered.producers.get(self.lowered.computed(value))
        if place is not None and self.lowered.nodes[place].primitive == "transpose":
            leaf = self.lowered.leaves.get(self.lowered.nodes[place].operands[0], -1)
            if leaf >= 0:
                return f"{self.name_of(leaf)} transposed"
        if one.kind is LeafKind.GRADIENT:
            return f"the gradient of {one.name}"
        if one.name or one.producer is None:
            return one.name or (self._nameless(one) if one.kind else "a value")
        return self._made_by(one.producer, self.lowered.computed(value))

    def _nameless(self, leaf: Value) -> str:
        """Return the kind of a leaf without name, and its number if it holds one."""
        elements = self.side.recorded.elements(leaf.id) if prod(leaf.shape) == 1 else None
        number = "" if elements is None else f" {elements.item():.7g}"
        return f"{leaf.kind}{number}"

    def origin(self, term: int) -> str:
        """Return the operator that made a term."""
        place = self.lowered.producers.get(term)
        if place is None:
            return self.named(term)
        one = self.side.program.operators[self.lowered.nodes[place].operator]
        return f"{self._slot(one, term)} of {self.side.recorded.module_of(one)[0] or '(root)'}"

    def form_of(self, term: int) -> tuple[str, str]:
        """Return the last word of the operator that made a term, and the module that it ran in."""
        place = self.lowered.producers.get(term)
        if place is None:
            return "", self.named(term)
        one = self.side.program.operators[self.lowered.nodes[place].operator]
        return plain_word(one.name), self.side.recorded.module_of(one)[0]

    def made_of(self, term: int) -> str:
        """Return the operator that made a term, and what it is computed from."""
        place = self.lowered.producers.get(term)
        operands = () if place is None else self.lowered.nodes[place].operands
        return ", of ".join((self.origin(term), *filter(None, map(self._word, operands))))

    def _word(self, term: int) -> str:
        """Return the operator that made a term, or the name of a leaf; empty for numbers."""
        for one in sorted(self.laid_from(term)):
            if (leaf := self.lowered.leaves.get(one, -1)) >= 0:
                return self.side.program.values[leaf].name
        place = self.lowered.producers.get(term)
        node = None if place is None else self.lowered.nodes[place]
        if node is None or node.primitive in _CONSTANT:
            return ""
        return self._slot(self.side.program.operators[node.operator], term)

    def _made_by(self, operator: int, term: int) -> str:
        one = self.side.program.operators[operator]
        path = self.side.recorded.module_of(one)[0]
        parts = (
            self.side.parts.get((value, path))
            for value in one.outputs
            if self.lowered.computed(value) == term
        )
        return f"{next(filter(None, parts), self._slot(one, term))} of {path or '(root)'}"

    def _slot(self, operator: Operator, term: int) -> str:
        """Return the name of an operator, and which of its outputs a term is if it has several."""
        slots = (
            f"{operator.name}[{slot}]"
            for slot, value in enumerate(operator.outputs)
            if len(operator.outputs) > 1 and term in self.laid_from(self.lowered.computed(value))
        )
        return next(slots, operator.name)

    def laid_from(self, term: int | None) -> set[int]:
        """Return a term, and those that were laid out otherwise to make it."""
        found: set[int] = set()
        while term is not None and term not in found:
            found.add(term)
            laid = self.laid_out(term)
            term = None if laid is None else laid[1]
        return found

    def numbers_of(self, operator: Operator) -> dict[str, int]:
        """Return the arguments of an operator that are values by name, as numbers of terms."""
        return {
            name: self.numbers[self.lowered.computed(value)]
            for name, value in self.values_of(operator).items()
        }

    def values_of(self, operator: Operator) -> dict[str, int]:
        """Return the arguments of an operator that are values by name, as their ids.

        Those of a list are told apart by their place in it.
        """
        table = self.side.table
        named = table.named(operator.name, operator.positional, operator.keywords)
        return {
            f"{name}[{place}]" if isinstance(value, tuple) else name: part.id
            for name, value in named
            for place, part in enumerate(value if isinstance(value, tuple) else (value,))
            if isinstance(part, ValueRef)
        }

    def arguments(self, operator: Operator) -> dict[str, Argument]:
        """Return the arguments of an operator by name; a value by its name."""
        table = self.side.table
        named = table.named(operator.name, operator.positional, operator.keywords)
        return {
            name: self.name_of(value.id) if isinstance(value, ValueRef) else value
            for name, value in named
            if name != DRAWN and (isinstance(value, ValueRef) or not is_value(value))
        }
