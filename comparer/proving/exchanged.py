"""The candidate's program with exchanges made in it, executed to see whether results agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from padiff.dumpfile import ProgramError
from padiff.program import LAYOUT

from .exchanges import Region
from .executed import Runs, is_near
from .slices import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Leaf, Lowered

    from .alignment import Alignment, Likeness
    from .exchanges import Exchange
    from .executed import Sink
    from .numbering import Numbering
    from .side import Side

_FORMAL = LAYOUT | {"full", "literal"}
"""Primitives that compute nothing of elements."""
_PER_PRIMITIVE = 1 << 11
"""Elements whose computing takes as long as a primitive does before it computes any."""


@dataclass(frozen=True, slots=True)
class Made:
    """An exchange, and the candidate in which it was made."""

    exchange: Exchange
    lowered: Lowered
    numbers: Sequence[int]
    """Of its terms."""


@dataclass(frozen=True, slots=True)
class Start:
    """A candidate in which exchanges were made already."""

    lowered: Lowered
    """Its leaves -1, -2 … hold the reference's terms that were exchanged."""
    made: tuple[Made, ...] = ()

    @property
    def taken(self) -> dict[int, int]:
        """The reference's term that each new leaf holds, by value id."""
        return {-place: one.exchange.reference for place, one in enumerate(self.made, start=1)}

    def numbers(self, numbering: Numbering) -> dict[int, int]:
        """Return the numbers of the new leaves, by term."""
        return {
            self.lowered.terms[value]: numbering.reference[term]
            for value, term in self.taken.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Two programs whose results differ, for whatever reason."""

    sides: tuple[Side, Side]
    """The reference and the candidate."""
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]]
    """What their leaves hold."""
    numbering: Numbering
    """Of their terms."""
    alignment: Alignment
    """With the reference."""
    sinks: Sequence[Sink]
    """What has to become equal."""


class Exchanged:
    """The exchanges that were made, and the candidate's program with them."""

    def __init__(self, asked: Asked, start: Start) -> None:
        """Begin with the candidate as it is, or with exchanges that were made already."""
        self.start, self.asked = start, asked
        self.sides, self.given, self.sinks = asked.sides, asked.given, asked.sinks
        self.numbering, self._alignment = asked.numbering, asked.alignment
        self.lowered: Lowered = start.lowered
        """The candidate's program as it is now."""
        self.made: list[Made] = [*start.made]
        self._alike: dict[int, int] = {}
        """Numbers of the candidate's terms that execution found."""
        self.is_alike = False
        """Whether each result held what the reference's does when it was last looked at."""
        self._new: dict[int, int] = start.numbers(self.numbering)
        """Numbers of its new leaves."""
        self._taken: dict[int, int] = start.taken
        """The reference's term that each new leaf of the candidate holds, by value id."""

    def differing(self, lowered: Lowered, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return the results that are another expression in a candidate, as terms."""
        known, reference = self.numbering.reference, self.sides[0].lowered.terms
        ends = (
            (sink.is_plain, reference[sink.reference], lowered.terms[sink.candidate])
            for sink in self.sinks
        )
        return [(one, two) for plain, one, two in ends if not plain or known[one] != numbers[two]]

    def results(self) -> list[tuple[int, int]]:
        """Return the results of both sides, as terms."""
        reference = self.sides[0].lowered
        return [
            (reference.terms[sink.reference], self.lowered.terms[sink.candidate])
            for sink in self.sinks
        ]

    def numbers(self) -> list[int]:
        """Return the numbers of the candidate's terms, with what execution found."""
        return self.numbering.of_candidate(
            self.lowered, self._new, join=lambda term, _: self._alike.get(term)
        )

    def look(self, likeness: Likeness | None = None) -> None:
        """Number terms that hold what a term of the reference holds by that.

        Args:
            likeness: Which those are; None to execute the candidate.
        """
        values = [sink.candidate for sink in self.sinks]
        if likeness is None:
            numbers = self.numbering.of_candidate(self.lowered, self._new)
            leaves = self.leaves()
            likeness = self._alignment.partners(self.lowered, leaves, values, numbers)
        wanted = {self.lowered.terms[value] for value in values}
        known = self.numbering.reference
        self.is_alike = all(
            two in likeness.same and known[likeness.same[two]] == known[one]
            for one, two in self.results()
        )
        for term, other in likeness.same.items():
            if term not in wanted:
                self._alike[term] = known[other]

    def remake(self, place: int, exchanges: Iterable[Exchange]) -> None:
        """Make others in the place of the exchanges from one on."""
        first = self.made[place]
        begin = len(first.lowered.specs)
        self._outdate(range(begin, len(self.lowered.specs)))
        self.lowered = first.lowered
        del self.made[place:]
        self._new = {term: number for term, number in self._new.items() if term < begin}
        self._taken = {value: term for value, term in self._taken.items() if -value <= place}
        for one in exchanges:
            self.make(one, self.numbers())

    def make(self, exchange: Exchange, numbers: Sequence[int]) -> None:
        """Give a new leaf to the nodes that read the exchanged term, and to the results."""
        self.made.append(Made(exchange, self.lowered, numbers))
        leaf, value = len(self.lowered.specs), -len(self.made)
        nodes = list(self.lowered.nodes)
        for place, _ in exchange.readers:
            node = nodes[place]
            operands = tuple(leaf if term == exchange.candidate else term for term in node.operands)
            nodes[place] = replace(node, operands=operands)
        wanted = {sink.candidate for sink in self.sinks if exchange.results}
        terms = {
            id_: leaf if term == exchange.candidate and id_ in wanted else term
            for id_, term in self.lowered.terms.items()
        }
        self.lowered = replace(
            self.lowered,
            nodes=tuple(nodes),
            specs=(*self.lowered.specs, self.sides[0].lowered.specs[exchange.reference]),
            terms={**terms, value: leaf},
            leaves={**self.lowered.leaves, leaf: value},
        ).like(self.lowered)
        self._outdate([leaf])
        self._new[leaf] = self.numbering.reference[exchange.reference]
        self._taken[value] = exchange.reference

    def leaves(self) -> dict[int, Leaf]:
        """Return what the leaves of the repaired candidate hold."""
        reference = self.sides[0].lowered
        inner = {term for term in self._taken.values() if term not in reference.leaves}
        arrays = self._alignment.arrays(inner)
        found = dict(self.given[1])
        for value, term in self._taken.items():
            leaf = reference.leaves.get(term)
            found[value] = arrays[term] if leaf is None else self.given[0][leaf]
        return found

    def agrees(self, agree: Callable[[Runs, Sink], bool]) -> bool:
        """Execute the repaired candidate, and return whether all results agree.

        Of many, as of what an update leaves, the first is executed alone: most repairs fail there.
        """
        sides = self.sides[0], replace(self.sides[1], lowered=self.lowered)
        given = self.given[0], self.leaves()
        for sinks in [self.sinks[:1]] * (len(self.sinks) > 1) + [self.sinks]:
            runs = Runs(sides, given, sinks, (self._alignment.executed, {}))
            if not all(agree(runs, sink) for sink in sinks):
                return False
        return True

    def suffice(
        self, exchanges: Iterable[Exchange], place: int, agree: Callable[[Runs, Sink], bool]
    ) -> bool:
        """Execute the candidate with others from a place on; return whether results agree."""
        try:
            return self.with_others(exchanges, place).agrees(agree)
        except ProgramError:
            return False  # what an operator takes now is nothing that it can take

    def with_others(self, exchanges: Iterable[Exchange], place: int) -> Exchanged:
        """Return the candidate with others in the place of the exchanges from one on."""
        first = self.made[place]
        again = Exchanged(self.asked, Start(first.lowered, tuple(self.made[:place])))
        for one in exchanges:
            again.make(one, first.numbers)
        return again

    def are_one(self, runs: Sequence[Exchange]) -> bool:
        """Return whether exchanges of runs of one line are of one mistake: all needed, and alike.

        What is right in some runs, or wrong in another way, is no fault of the line. A loop that
        the other side has in one operator goes on from run to run: by the same each time.
        """
        numbers = self.numbers()
        ordered = sorted(runs, key=lambda run: run.candidate)
        forms = [self._primitives(one, numbers) for one in ordered]
        steps = [(after - before, before - after) for before, after in pairwise(forms)]
        is_loop = len(steps) > 1 or not any(map(any, steps))
        is_alike = all(one == steps[0] for one in steps)
        return is_loop and is_alike and [*self.needed(runs)] == runs

    def _primitives(self, exchange: Exchange, numbers: Sequence[int]) -> Counter[tuple[int, str]]:
        """Count what makes both terms of an exchange of what both programs have, by side.

        How it lies is another matter in each run, and so are numbers such as the count of a mean.
        """
        reference, found = self.numbering.reference, Counter[tuple[int, str]]()
        for which, (lowered, term, mine, others) in enumerate((
            (self.sides[0].lowered, exchange.reference, reference, numbers),
            (self.lowered, exchange.candidate, numbers, reference),
        )):  # fmt: skip
            common = set(others)
            known = {one for one, number in enumerate(mine) if number in common}
            places = lowered.behind([term], known=known)
            names = (lowered.nodes[place].primitive for place in places)
            found.update((which, name) for name in names if name not in _FORMAL)
        return found

    def needed(self, exchanges: Sequence[Exchange]) -> Iterator[Exchange]:
        """Yield those that put other elements in the place of what the candidate has there."""
        sides = self.sides[0].lowered, self.lowered
        leaves = self.given[0], self.leaves()
        ends = [{one.reference for one in exchanges}, {one.candidate for one in exchanges}]
        known, found = map(elements_of, sides, leaves, ends)
        for one in exchanges:
            if not is_near(found[one.candidate], known[one.reference]):
                yield one

    def elements(self) -> int:
        """Count the elements of all that the results are made of, on both sides, as time spent."""
        ends = zip(*self.results(), strict=True)
        programs = self.sides[0].lowered, self.lowered
        return 1 + sum(
            program.specs[term].count + _PER_PRIMITIVE
            for program, terms in zip(programs, ends, strict=True)
            for place in program.behind(terms)
            for term in program.nodes[place].outputs
        )

    def sizes(
        self, exchange: Exchange, lowered: Lowered, numbers: Sequence[int]
    ) -> tuple[int, int]:
        """Return the primitives behind both terms of an exchange that only their side has."""
        ends = (
            (self.sides[0].lowered, exchange.reference, self.numbering.reference, numbers),
            (lowered, exchange.candidate, numbers, self.numbering.reference),
        )
        known, own = (
            Region(program, mine, set(others), [term]).sizes[term]
            for program, term, mine, others in ends
        )
        return known, own

    def _outdate(self, terms: Iterable[int]) -> None:
        """Forget what was known of terms, and of all that is computed from them, by executing."""
        for term in self.lowered.ahead(terms):
            self._alike.pop(term, None)
