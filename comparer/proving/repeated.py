"""Lines of the source that ran several times, as in a loop: what they made in each run.

What is wrong in one run is wrong in the others, and one fault.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING

from .pool import settings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from padiff.program import Lowered

    from .exchanges import Exchange
    from .executed import Sink
    from .side import Side

    Line = tuple[object, object]
    """Of the reference and of the candidate."""

__all__ = ["Lines"]


@dataclass(frozen=True, slots=True)
class _Made:
    """Which terms of a program the same lines make, run by run."""

    of: dict[int, object]
    """The line, and what it makes there, by term."""
    runs: dict[int, list[int]]
    """Each of these terms with those of the other runs that have the same arguments."""

    def is_once(self, term: int) -> bool:
        """Return whether the line that makes a term made it in one run alone, whatever it took."""
        line = self.of.get(term)
        return line is None or sum(other == line for other in self.of.values()) == 1

    @classmethod
    def of_side(cls, side: Side, lowered: Lowered) -> _Made:
        """Find them in a side's program, as it is lowered for a repair."""
        of, terms = dict[int, object](), defaultdict[object, list[int]](list)
        counts = Counter[tuple[int, str]]()
        settings = [*map(settings_of, side.program.operators)]
        for node in lowered.nodes:
            one, kind = side.program.operators[node.operator], (node.operator, node.primitive)
            for slot, term in enumerate(node.outputs):
                if one.site is not None:
                    line = one.name, one.site, kind[1], counts[kind], slot
                    of[term] = line
                    terms[line, settings[one.id]].append(term)
            counts[kind] += 1
        runs = {term: those for those in terms.values() for term in those}
        return cls(of, runs)


class Lines:
    """The lines that both programs were made by."""

    def __init__(self, sides: tuple[Side, Side], candidate: Lowered, sinks: Sequence[Sink]) -> None:
        """Look at nothing yet.

        Args:
            sides: The reference and the candidate.
            candidate: Its program before any exchange.
            sinks: The results that are of interest.
        """
        self._sides, self._candidate, self._sinks = sides, candidate, sinks

    def of(self, exchange: Exchange, candidate: Lowered) -> Line | None:
        """Return the lines that make both terms of an exchange; None where one is not known.

        Args:
            exchange: Of a term of the reference, and one of the candidate.
            candidate: Its program, as it is when the exchange is made.
        """
        ends = (self._sides[0].lowered, exchange.reference), (candidate, exchange.candidate)
        places = [program.producers.get(term) for program, term in ends]
        found: list[tuple[str, object]] = []
        for side, (program, term), place in zip(self._sides, ends, places, strict=True):
            if term in program.leaves:
                found.append(("", program.leaves[term]))
                continue
            node = None if place is None else program.nodes[place]
            one = None if node is None else side.program.operators[node.operator]
            if one is None or one.site is None:
                return None
            found.append((one.name, one.site))
        return found[0], found[1]

    def is_in_loop(self, line: Line) -> bool:
        """Return whether the candidate's line ran several times."""
        return self._counts[line[1]] > 1

    def again(self, last: Exchange, made: Collection[int]) -> Iterator[Exchange]:
        """Yield an exchange in each other run of its lines, where both sides run them alike.

        A number of the reference, and what it computes once, stands for all.

        Args:
            last: The exchange.
            made: The candidate's terms that were exchanged already.
        """
        specs = self._sides[0].lowered.specs, self._candidate.specs
        for reference, term in self._runs(last.reference, last.candidate):
            is_executed = reference in self._needs[0] and term in self._needs[1]
            if is_executed and term not in made and specs[0][reference] == specs[1][term]:
                readers = self.reading(term, last)
                if readers:
                    one = replace(last, reference=reference, candidate=term, readers=readers)
                    yield replace(one, is_again=True)

    def reading(self, term: int, like: Exchange) -> tuple[tuple[int, int | None], ...]:
        """Return what reads a term in runs of the lines that read what was exchanged."""
        lines = self._terms[1].of
        nodes = self._candidate.nodes
        kinds = {lines.get(nodes[place].outputs[0]) for place, _ in like.readers}
        return tuple(
            (place, None)
            for place in self._readers.get(term, ())
            if lines.get(nodes[place].outputs[0]) in kinds
        )

    def _runs(self, reference: int, own: int) -> Iterator[tuple[int, int]]:
        """Yield the terms that the lines of two terms make, run by run.

        A line may make several in each of its runs, and a run may read what the one before made.
        """
        sides = self._terms
        known, found = (
            side.runs.get(term, [term]) for side, term in zip(sides, (reference, own), strict=True)
        )
        runs = gcd(len(known), len(found))
        counts = len(known) // runs, len(found) // runs
        places = known.index(reference), found.index(own)
        later = places[0] // counts[0] - places[1] // counts[1]
        if abs(later) <= 1 < runs:
            ends = [
                those[place % count :: count][max(0, begin) :]
                for those, place, count, begin in zip(
                    (known, found), places, counts, (later, -later), strict=True
                )
            ]
            yield from zip(*ends, strict=False)
        elif sides[0].is_once(reference) or len(self._sides[0].lowered.behind([reference])) == 1:
            yield from ((reference, term) for term in found)

    @cached_property
    def _terms(self) -> tuple[_Made, _Made]:
        programs = self._sides[0].lowered, self._candidate
        known, found = map(_Made.of_side, self._sides, programs)
        return known, found

    @cached_property
    def _needs(self) -> tuple[set[int], set[int]]:
        """The terms of both sides that results are made of."""
        ends = zip(*((sink.reference, sink.candidate) for sink in self._sinks), strict=True)
        programs = self._sides[0].lowered, self._candidate
        known, found = (
            {
                term
                for place in program.behind(program.terms[value] for value in values)
                for term in (*program.nodes[place].operands, *program.nodes[place].outputs)
            }
            for program, values in zip(programs, ends, strict=True)
        )
        return known, found

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        """The positions of the nodes that read each term of the candidate as it was."""
        found: dict[int, list[int]] = defaultdict(list)
        for place, node in enumerate(self._candidate.nodes):
            for term in set(node.operands):
                found[term].append(place)
        return found

    @cached_property
    def _counts(self) -> Counter[object]:
        """How often each line of the candidate ran each operator."""
        return Counter((one.name, one.site) for one in self._sides[1].program.operators)
