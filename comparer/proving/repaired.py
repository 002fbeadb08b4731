"""The repaired candidate as one program: each exchange is the reference's expression, or open.

A repair puts values of the reference in the place of the candidate's. Values hide what lies before
them, so here the reference's expressions stand in their place, over what the candidate computes:
with one exchange left open, the candidate has that fault alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import ProgramError

from .exchanged import Start
from .reshaped import values_of, with_leaf

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from padiff.program import Leaf, Lowered, Node

    from .exchanged import Made
    from .executed import Sink
    from .numbering import Numbering
    from .side import Side


class Repaired:
    """The candidate, and the exchanges that make it compute what the reference computes."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        numbering: Numbering,
        start: Start | None = None,
        made: Sequence[Made] = (),
        sinks: Sequence[Sink] = (),
    ) -> None:
        """Note the exchanges.

        Args:
            sides: The reference and the candidate.
            given: What their leaves hold.
            numbering: Of their terms.
            start: The candidate that the repair began with; None for the candidate as it is.
            made: All exchanges, in the order in which they were made.
            sinks: The results that they repair.
        """
        self._sides, self._given, self._numbering = sides, given, numbering
        self._start = start or Start(sides[1].lowered)
        self.made = tuple(made)
        self._sinks = tuple(sinks)

    def program(self, faulty: Collection[int] = ()) -> tuple[Lowered, dict[int, Leaf]]:
        """Return the candidate's program and what its leaves hold.

        Args:
            faulty: Which exchanges are left open, as places among those that were made.

        Raises:
            ProgramError: An exchange takes what is only computed from it, or one of several that
                is left open changes shapes.
        """
        if len(faulty) == len(self.made):
            return self._sides[1].lowered, dict(self._given[1])
        begun = len(self._start.made)
        if self.is_reshaped(faulty):
            raise ProgramError("cannot leave one of several exchanges open: it changes shapes")
        draft = _Draft(self._start.lowered, self._given[1], self.made[begun:])
        numbers = self._numbering.of_candidate(
            self._start.lowered, self._start.numbers(self._numbering)
        )
        source = _Source(self._sides[0].lowered, self._numbering.reference, self._given[0])
        taken = {}
        for value, term in self._start.taken.items():
            leaf = self._start.lowered.terms[value]
            others = [None if number == numbers[leaf] else number for number in numbers]
            taken[leaf] = _graft(draft, source, term, others)
        for place, one in enumerate(self.made[begun:], start=begun):
            taken[draft.places[place - begun]] = (
                one.exchange.candidate
                if place in faulty
                else _graft(draft, source, one.exchange.reference, one.numbers)
            )
        wanted = {sink.candidate for sink in self._sinks}
        return draft.finished(taken, wanted), draft.given

    def is_reshaped(self, group: Collection[int]) -> bool:
        """Return whether exchanges are of values of another shape."""
        return any(place < len(self._start.made) for place in group)

    def reference_with(self, place: int) -> tuple[Lowered, dict[int, Leaf], set[int]]:
        """Return the reference's program with one fault that changes shapes, and nothing else.

        Args:
            place: Of the exchange, which is made the other way round.

        Returns:
            The program, what its leaves hold, and the operators that read the candidate's value.

        Raises:
            ProgramError: The reference's operators cannot take that shape.
        """
        made, reference = self.made[place], self._sides[0]
        lowered, numbers = reference.lowered, self._numbering.reference
        wanted, own = made.exchange.reference, set(made.numbers)
        readers = {
            node.operator
            for node in lowered.nodes
            if wanted in node.operands and own.isdisjoint(numbers[term] for term in node.outputs)
        }
        shape = made.lowered.specs[made.exchange.candidate].shape
        taken = values_of(lowered, wanted)
        found = with_leaf(reference, reference.program, {}, taken, readers, (-1, shape))
        if found is None:
            raise ProgramError("cannot take a fault over: the reference's operators refuse it")
        again = found[2]
        leaf = again.terms[-1]
        if made.exchange.results:
            results = dict.fromkeys(taken & {sink.reference for sink in self._sinks}, leaf)
            again = replace(again, terms={**again.terms, **results})
        source = _Source(made.lowered, made.numbers, self._given[1])
        draft = _Draft(again, self._given[0], ())
        own_term = _graft(
            draft, source, made.exchange.candidate, self._numbering.of_reference(again)
        )
        return draft.finished({leaf: own_term}, ()), draft.given, readers

    def operators(self, group: Collection[int]) -> set[int]:
        """Return the candidate's operators that what is exchanged goes into first."""
        return {
            one.lowered.nodes[place].operator
            for one in (self.made[place] for place in group)
            for place, _ in one.exchange.readers
        }


@dataclass(frozen=True, slots=True)
class _Source:
    """A program that expressions are taken from."""

    lowered: Lowered
    numbers: Sequence[int]
    """Of its terms."""
    given: Mapping[int, Leaf]


def _graft(draft: _Draft, source: _Source, wanted: int, own_numbers: Sequence[int | None]) -> int:
    """Add what makes a term of another program, and return its term.

    Args:
        draft: The program that it is added to.
        source: The other one.
        wanted: Its term.
        own_numbers: Of the draft's terms; None for those that are not to be read.
    """
    lowered, numbers = source.lowered, source.numbers
    own: dict[int | None, int] = {}
    for term, number in enumerate(own_numbers):
        own.setdefault(number, term)
    known = {term for term, number in enumerate(numbers) if number in own}
    found = {term: own[numbers[term]] for term in known}
    places = lowered.behind([wanted], known=known)
    needed = {wanted, *(term for place in places for term in lowered.nodes[place].operands)}
    for term in (needed & lowered.leaves.keys()) - known:
        elements = source.given.get(lowered.leaves[term])
        if elements is None:
            raise ProgramError("cannot repair: an exchange takes what another one puts in")
        found[term] = draft.leaf(lowered.specs[term], elements)
    for place in places:
        node = lowered.nodes[place]
        for term in node.outputs:
            found[term] = draft.term(lowered.specs[term])
        operands = tuple(found[term] for term in node.operands)
        outputs = tuple(found[term] for term in node.outputs)
        draft.nodes.append(replace(node, operands=operands, outputs=outputs))
    return found[wanted]


class _Draft:
    """A candidate's program that is being changed."""

    def __init__(self, candidate: Lowered, given: Mapping[int, Leaf], made: Sequence[Made]) -> None:
        self.candidate, self.made = candidate, made
        self.given = dict(given)
        self.nodes = list(candidate.nodes)
        self.specs = list(candidate.specs)
        self.leaves = dict(candidate.leaves)
        self.terms = dict(candidate.terms)
        self.places = [self.term(one.lowered.specs[one.exchange.candidate]) for one in made]
        """The term that stands for what each exchange puts in, as the repair numbered it."""

    def term(self, spec: object) -> int:
        self.specs.append(spec)  # type: ignore[arg-type]
        return len(self.specs) - 1

    def leaf(self, spec: object, elements: Leaf) -> int:
        term = self.term(spec)
        value = -term
        self.leaves[term], self.terms[value], self.given[value] = value, term, elements
        return term

    def finished(self, taken: Mapping[int, int], wanted: Collection[int]) -> Lowered:
        """Return the program, with a term in the place of each exchanged one."""
        for place, one in zip(self.places, self.made, strict=True):
            exchange = one.exchange
            for reader, _ in exchange.readers:
                node = self.nodes[reader]
                operands = (place if term == exchange.candidate else term for term in node.operands)
                self.nodes[reader] = replace(node, operands=tuple(operands))
            if exchange.results:
                self.terms.update(
                    (value, place)
                    for value, term in self.terms.items()
                    if term == exchange.candidate and value in wanted
                )

        def resolved(term: int) -> int:
            while term in taken:
                term = taken[term]
            return term

        nodes = [replace(node, operands=tuple(map(resolved, node.operands))) for node in self.nodes]
        ordered = _ordered(nodes)
        return replace(
            self.candidate,
            nodes=tuple(ordered),
            specs=tuple(self.specs),
            terms={value: resolved(term) for value, term in self.terms.items()},
            leaves=self.leaves,
            producers=_producers(ordered),
        )


def _producers(nodes: Iterable[Node]) -> dict[int, int]:
    return {term: place for place, node in enumerate(nodes) for term in node.outputs}


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Return nodes behind what they take, as near to their order as that allows.

    Raises:
        ProgramError: One takes what is computed from it.
    """
    producers = _producers(nodes)
    done, begun = set[int](), set[int]()
    found = []
    for first in range(len(nodes)):
        open_ = [first]
        while open_:
            place = open_[-1]
            before = {producers[term] for term in nodes[place].operands if term in producers}
            if place in done or before <= done:
                open_.pop()
                found += [] if place in done else [nodes[place]]
                done.add(place)
                continue
            if place in begun:
                raise ProgramError("cannot repair: an exchange takes what is computed from it")
            begun.add(place)
            open_ += before - done
    return found
