"""Repair the candidate in memory until it computes what the reference computes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, islice
from math import gcd
from operator import not_
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ProgramError

from .exchanges import Region, Search
from .executed import Runs, is_near
from .pool import is_value
from .slices import elements_of, find_smaller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Leaf, Lowered, Node

    from .alignment import Alignment, Likeness
    from .exchanges import Exchange
    from .executed import Sink
    from .numbering import Numbering
    from .side import Side

__all__ = ["Made", "Repair", "Start", "reached"]

_MOST_EXCHANGES = 32
"""That are not the one before in another run of the same line."""
_MOST_RUNS = 512
"""Of lines in loops: each takes as long as the search for its exchange."""
_NUMBER = "full"
_MOST_ENDS = 8
"""Exchanges from which on one is looked for that does what all others do: each takes a search."""
_MOST_JOINED = 3
"""Exchanges before the last one that may be one with it."""
_MOST_SLICES = 8
"""Slices that are executed for a smaller exchange in them."""
_MOST_ELEMENTS = 1 << 27
"""That are computed to see whether one exchange does what several do: some seconds."""
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


@dataclass(frozen=True, slots=True)
class _Lines:
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
    def of_side(cls, side: Side, lowered: Lowered) -> _Lines:
        """Find them in a side's program, as it is lowered for the repair."""
        of, terms = dict[int, object](), defaultdict[object, list[int]](list)
        counts = Counter[tuple[int, str]]()
        told = [
            repr(
                [value for value in (*one.positional, *one.keywords.items()) if not is_value(value)]
            )
            for one in side.program.operators
        ]
        for node in lowered.nodes:
            one, kind = side.program.operators[node.operator], (node.operator, node.primitive)
            for slot, term in enumerate(node.outputs):
                if one.site is not None:
                    line = one.name, one.site, kind[1], counts[kind], slot
                    of[term] = line
                    terms[line, told[one.id]].append(term)
            counts[kind] += 1
        runs = {term: those for those in terms.values() for term in those}
        return cls(of, runs)


class Repair:
    """The exchanges that were made, and the candidate's program with them."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        numbering: Numbering,
        alignment: Alignment,
        sinks: Sequence[Sink],
        start: Start,
    ) -> None:
        """Begin with the candidate as it is, or with exchanges that were made already.

        Args:
            sides: The reference and the candidate.
            given: What their leaves hold.
            numbering: Of their terms.
            alignment: With the reference.
            sinks: What has to become equal.
            start: The candidate, as it is or with earlier exchanges.
        """
        self.start = start
        self._sides, self._given = sides, given
        self._numbering, self._alignment, self._sinks = numbering, alignment, sinks
        self.lowered: Lowered = self.start.lowered
        """The candidate's program as it is now."""
        self.made: list[Made] = [*self.start.made]
        self.first: Sequence[int] = ()
        """The numbers of its terms before the first exchange."""
        self._open: list[tuple[int, int]] = []
        """The results that differ, before the first exchange."""
        self._alike: dict[int, int] = {}
        """Numbers of the candidate's terms that execution found."""
        self._lines: list[tuple[object, object] | None] = []
        """Of the reference and the candidate, whose values each exchange is of; None where one in
        their slice does: another run may need more than that one."""
        self._is_spread: set[object] = set()
        """Lines whose exchange was made in all of their runs."""
        self._is_constructed = False
        """Whether all results became the same expressions."""
        self._repeated = 0
        """The primitives of exchanges that are the one before in another run of its line."""
        self._looked_into: dict[tuple[int, int], tuple[set[int], tuple[int, int] | None]] = {}
        """By the numbers of both ends of exchanges, the candidate's terms for which a smaller one
        was looked for, and the numbers of the ends of what was found."""
        self._new: dict[int, int] = self.start.numbers(numbering)
        """Numbers of its new leaves."""
        self._taken: dict[int, int] = self.start.taken
        """The reference's term that each new leaf of the candidate holds, by value id."""

    def run(self, agree: Callable[[Runs, Sink], bool], likeness: Likeness | None = None) -> bool:
        """Make exchanges until the results agree.

        Args:
            agree: Whether a result of two executed programs agrees.
            likeness: The reference's terms that the candidate's are like; None to find them.

        Returns:
            Whether the repaired candidate computes what the reference computes: its results are
            the same expressions, or agree where it is executed.
        """
        self._note(self._likeness() if likeness is None else likeness)
        is_fresh, steps, again = True, 0, 0
        while len(self.made) < _MOST_EXCHANGES + again and steps < 2 * _MOST_EXCHANGES + again:
            numbers = self._numbers()
            self.first = self.first or numbers
            results = self._differing(self.lowered, numbers)
            if not results:
                self._is_constructed = True
                return bool(self.made) and (self._numbering.is_strict or self._agrees(agree))
            exchange: Exchange | None = None
            parts: list[Exchange] = []
            if is_fresh or self._is_in_loop():
                search = self._search(self.lowered, numbers, results)
                exchange = search.smallest()
                parts = [] if exchange is None else search.parted(exchange)
            line = None if exchange is None else self._line(exchange)
            is_again = line is not None and line in self._lines[-1:] and again < _MOST_RUNS
            spread = self._spread(None) if is_again else 0
            again += spread
            if spread or not (is_fresh or is_again):
                self._note(self._likeness())
                is_fresh = True
                continue
            if exchange is None:
                break
            smaller = self._smaller(exchange, search)
            self._lines.append(None if smaller else line)
            self._open = self._open or results
            parts = [smaller] if smaller else parts
            for one in parts:
                self._make(one, numbers if one is parts[0] else self._numbers())
            if is_again:
                again += len(parts)
                self._repeated += sum(one.size for one in parts)
            else:
                self._take_back()
            if self._spread(agree):
                return True
            is_fresh, steps = False, steps + 1
        return bool(self.made) and self._agrees(agree)

    def _spread(self, agree: Callable[[Runs, Sink], bool] | None) -> int:
        """Make the last exchange in the other runs of its lines, too; return how many are needed.

        None is where more than that differs in one of them.

        Args:
            agree: Whether a result of two executed programs agrees: all have to then; None where
                another run is known to need it.
        """
        last, begun = self.made[-1].exchange, len(self.made)
        key = self._line(last), agree is None
        if key in self._is_spread or last.results or not self._is_in_loop():
            return 0
        numbers = self._numbers()
        if not self._differing(self.lowered, numbers):
            return 0
        for one in self._again(last):
            leaf = self._numbering.reference[self.made[-1].exchange.reference]
            self._make(one, numbers if len(self.made) == begun else [*self.made[-1].numbers, leaf])
        made = [one.exchange for one in self.made[begun:]]
        if not made:
            return 0
        self._is_spread.add(key)
        self._note(self._likeness())
        needed = list(self._needed(made))
        numbers = self._numbers()
        sizes = [self._sizes(one, self.lowered, numbers) for one in (last, *needed)]
        is_alike = all(one <= sizes[0] for one in sizes)
        kept = needed if is_alike and (agree is None or self._agrees(agree)) else []
        if len(kept) < len(made):
            self._remake(begun, kept)
            self._note(self._likeness())
        self._repeated += sum(one.size for one in kept)
        return len(kept)

    def _needed(self, exchanges: Sequence[Exchange]) -> Iterator[Exchange]:
        """Yield those that put other elements in the place of what the candidate has there."""
        sides = self._sides[0].lowered, self.lowered
        leaves = self._given[0], self._leaves()
        ends = [{one.reference for one in exchanges}, {one.candidate for one in exchanges}]
        known, found = map(elements_of, sides, leaves, ends)
        for one in exchanges:
            if not is_near(found[one.candidate], known[one.reference]):
                yield one

    def _sizes(
        self, exchange: Exchange, lowered: Lowered, numbers: Sequence[int]
    ) -> tuple[int, int]:
        """Return the primitives behind both terms of an exchange that only their side has."""
        ends = (
            (self._sides[0].lowered, exchange.reference, self._numbering.reference, numbers),
            (lowered, exchange.candidate, numbers, self._numbering.reference),
        )
        known, own = (
            Region(program, mine, set(others), [term]).sizes[term]
            for program, term, mine, others in ends
        )
        return known, own

    def _again(self, last: Exchange) -> Iterator[Exchange]:
        """Yield an exchange in each other run of its lines, where both sides run them alike.

        A number of the reference, and what it computes once, stands for all.
        """
        exchanged = {one.exchange.candidate for one in self.made}
        specs = self._sides[0].lowered.specs, self.lowered.specs
        for reference, term in self._runs(last.reference, last.candidate):
            is_executed = reference in self._needs[0] and term in self._needs[1]
            if is_executed and term not in exchanged and specs[0][reference] == specs[1][term]:
                readers = self._reading(term, last)
                if readers:
                    one = replace(last, reference=reference, candidate=term, readers=readers)
                    yield replace(one, is_again=True)

    def _runs(self, reference: int, own: int) -> Iterator[tuple[int, int]]:
        """Yield the terms that the lines of two terms make, run by run.

        A line may make several in each of its runs, and a run may read what the one before made.
        """
        sides = self._lines_of_terms
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

    def _reading(self, term: int, like: Exchange) -> tuple[tuple[int, int | None], ...]:
        """Return what reads a term in runs of the lines that read what was exchanged."""
        lines = self._lines_of_terms[1].of
        nodes = self.lowered.nodes
        kinds = {lines.get(nodes[place].outputs[0]) for place, _ in like.readers}
        return tuple(
            (place, None)
            for place in self._readers.get(term, ())
            if lines.get(nodes[place].outputs[0]) in kinds
        )

    @cached_property
    def _needs(self) -> tuple[set[int], set[int]]:
        """The terms of both sides that results are made of."""
        ends = zip(*((sink.reference, sink.candidate) for sink in self._sinks), strict=True)
        programs = self._sides[0].lowered, self.start.lowered
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
        for place, node in enumerate(self.start.lowered.nodes):
            for term in set(node.operands):
                found[term].append(place)
        return found

    @cached_property
    def _lines_of_terms(self) -> tuple[_Lines, _Lines]:
        programs = self._sides[0].lowered, self.start.lowered
        known, found = map(_Lines.of_side, self._sides, programs)
        return known, found

    def _line(self, exchange: Exchange) -> tuple[object, object] | None:
        """Return the lines that make both terms of an exchange; None where one is not known."""
        ends = (self._sides[0].lowered, exchange.reference), (self.lowered, exchange.candidate)
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

    @cached_property
    def _runs_of_lines(self) -> Counter[object]:
        """How often each line of the candidate ran each operator."""
        return Counter((one.name, one.site) for one in self._sides[1].program.operators)

    def _is_in_loop(self) -> bool:
        """Return whether the line of the last exchange ran several times."""
        line = self._lines[-1] if self._lines else None
        return line is not None and self._runs_of_lines[line[1]] > 1

    @property
    def size(self) -> int:
        """The primitives of all exchanges together, those of one line in a loop once."""
        return sum(one.exchange.size for one in self.made) - self._repeated

    def _is_one_line(self, made: Sequence[Made]) -> bool:
        """Return whether exchanges are of runs of one line: they are one fault already."""
        return len(lines := {self._line(one.exchange) for one in made}) == 1 and None not in lines

    def reduce(self, agree: Callable[[Runs, Sink], bool]) -> None:
        """Take back exchanges without which the results agree all the same, large ones first.

        They may only turn one form into another on the way to what is wrong.

        Args:
            agree: Whether a result of two executed programs agrees.
        """
        begun = len(self.start.made)
        lines: dict[object, list[Exchange]] = {}
        for place, one in enumerate(self.made[begun:]):
            if not (self._is_constructed and self._is_of_numbers(one)):
                lines.setdefault(self._line(one.exchange) or place, []).append(one.exchange)
        most = _MOST_ELEMENTS // self._elements() if len(self.made) > begun + 1 else 0
        groups = sorted(lines.values(), key=lambda group: -sum(one.size for one in group))
        for group in groups[:most]:
            kept = [one.exchange for one in self.made[begun:] if one.exchange not in group]
            size = sum(one.exchange.size for one in self.made[begun:])
            is_less = kept and sum(map(self._size_alone, kept)) <= size
            if is_less and self._suffice(kept, begun, agree) and self._is_shown(group):
                self._remake(begun, kept)

    def _is_shown(self, exchanges: Sequence[Exchange]) -> bool:
        """Return whether the candidate as it was has other elements than what was put there.

        Where all became the same expressions, what is the same with these inputs alone is no form.
        """
        sides = self._sides[0].lowered, self.start.lowered
        every = self._leaves()
        leaves = self._given[0], {one: every[one] for one in sides[1].leaves.values()}
        ends = [{one.reference for one in exchanges}, {one.candidate for one in exchanges}]
        known, found = map(elements_of, sides, leaves, ends)
        return not self._is_constructed or not any(
            np.array_equal(found[one.candidate], known[one.reference]) for one in exchanges
        )

    def _size_alone(self, exchange: Exchange) -> float:
        """Return the size of an exchange in the candidate as it was before the first one."""
        if exchange.candidate >= len(self.first):
            return float("inf")
        return sum(self._sizes(exchange, self.start.lowered, self.first))

    def in_one(self, agree: Callable[[Runs, Sink], bool]) -> list[Made]:
        """Return the exchanges with one that does what the last ones do, if it is no larger.

        Where it is larger, they are independent of each other. Where both programs write the same
        in two ways, the others may only turn one into the other, up to a result.

        Args:
            agree: Whether a result of two executed programs agrees.
        """
        most = _MOST_ELEMENTS // self._elements() if len(self.made) > 1 else 0
        begun = len(self.start.made)
        for place in range(begun, min(len(self.made) - 1, begun + _MOST_ENDS)):
            made = [one.exchange for one in self.made[place:]]
            first, size = self.made[place], sum(one.size for one in made if not one.is_again)
            results = self._differing(first.lowered, first.numbers)
            search = self._search(first.lowered, first.numbers, results)
            whole = search.whole(size)
            if whole is None and not self._is_one_line(self.made[place:]):
                for one in islice(self._tries(search, place, size), most):
                    most -= 1
                    if self._suffice([one], place, agree):
                        whole = one
                        break
            if whole is not None:
                return [*self.made[:place], Made(whole, first.lowered, first.numbers)]
        return self.made

    def _search(
        self, lowered: Lowered, numbers: Sequence[int], results: Sequence[tuple[int, int]]
    ) -> Search:
        """Return a search for exchanges in a candidate."""
        return Search((self._sides[0].lowered, lowered), self._numbering, numbers, results)

    def _tries(self, search: Search, place: int, size: int) -> Iterable[Exchange]:
        """Return exchanges that are executed to see whether they do what those from a place do.

        Where all became the same expressions, a number that was exchanged for another one is not
        taken back because it does not show with these inputs.
        """
        made = self.made[place:]
        if any(one.exchange.results for one in made):
            return search.each(size)
        if self._is_constructed and any(map(self._is_of_numbers, made)):
            return ()
        return search.telling(size)

    def _is_of_numbers(self, made: Made) -> bool:
        """Return whether an exchange is of two numbers that somebody wrote."""
        ends = (
            (self._sides[0].lowered, made.exchange.reference),
            (made.lowered, made.exchange.candidate),
        )
        places = [(program, program.producers.get(term)) for program, term in ends]
        return all(
            place is not None and program.nodes[place].primitive == _NUMBER
            for program, place in places
        )

    def _smaller(self, exchange: Exchange, search: Search) -> Exchange | None:
        """Return a smaller exchange that does the same in its slice; None where none is found.

        It is looked for once in each slice: where it does not do for what follows, the whole does.
        In another slice of the same expressions the same one is tried alone.
        """
        ends = search.numbers[0][exchange.reference], search.numbers[1][exchange.candidate]
        before, told = self._looked_into.get(ends, (set[int](), None))
        is_again = exchange.candidate in before or (before and told is None)
        if is_again or not (before or len(self._looked_into) < _MOST_SLICES):
            return None
        before.add(exchange.candidate)
        leaves = self._given[0], self._leaves()
        results = {two for _, two in self._results()}
        found = find_smaller(search, leaves, exchange, results, told)
        if found is not None:
            told = search.numbers[0][found.reference], search.numbers[1][found.candidate]
        self._looked_into[ends] = before, told
        return found and replace(found, readers=self._widened(found))

    def _widened(self, exchange: Exchange) -> tuple[tuple[int, int | None], ...]:
        """Return the readers of an exchange in a slice, with those in other runs of their lines."""
        taken = {place for place, _ in exchange.readers}
        more = self._reading(exchange.candidate, exchange)
        return (*exchange.readers, *(one for one in more if one[0] not in taken))

    def _elements(self) -> int:
        """Count the elements of all that the results are made of, on both sides, as time spent."""
        ends = zip(*self._results(), strict=True)
        programs = self._sides[0].lowered, self.lowered
        return 1 + sum(
            program.specs[term].count + _PER_PRIMITIVE
            for program, terms in zip(programs, ends, strict=True)
            for place in program.behind(terms)
            for term in program.nodes[place].outputs
        )

    def _suffice(
        self, exchanges: Iterable[Exchange], place: int, agree: Callable[[Runs, Sink], bool]
    ) -> bool:
        """Execute the candidate with others from a place on; return whether results agree."""
        start = Start(self.made[place].lowered, tuple(self.made[:place]))
        again = Repair(
            self._sides, self._given, self._numbering, self._alignment, self._sinks, start
        )
        for one in exchanges:
            again._make(one, self.made[place].numbers)
        try:
            return again._agrees(agree)
        except ProgramError:
            return False  # what an operator takes now is nothing that it can take

    def _differing(self, lowered: Lowered, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return the results that are another expression in a candidate, as terms."""
        known, reference = self._numbering.reference, self._sides[0].lowered.terms
        ends = (
            (sink.is_plain, reference[sink.reference], lowered.terms[sink.candidate])
            for sink in self._sinks
        )
        return [(one, two) for plain, one, two in ends if not plain or known[one] != numbers[two]]

    def _results(self) -> list[tuple[int, int]]:
        reference = self._sides[0].lowered
        return [
            (reference.terms[sink.reference], self.lowered.terms[sink.candidate])
            for sink in self._sinks
        ]

    def _numbers(self) -> list[int]:
        return self._numbering.of_candidate(
            self.lowered, self._new, join=lambda term, _: self._alike.get(term)
        )

    def _note(self, likeness: Likeness) -> None:
        """Number terms that hold what a term of the reference holds by that."""
        wanted = {self.lowered.terms[sink.candidate] for sink in self._sinks}
        for term, other in likeness.same.items():
            if term not in wanted:
                self._alike[term] = self._numbering.reference[other]

    def _likeness(self) -> Likeness:
        wanted = [sink.candidate for sink in self._sinks]
        numbers = self._numbering.of_candidate(self.lowered, self._new)
        return self._alignment.partners(self.lowered, self._leaves(), wanted, numbers)

    def _take_back(self) -> None:
        """Take back what the last exchange made needless, and join it with those before."""
        begun, numbers = len(self.start.made), self._numbers()
        is_needless = [
            numbers[one.exchange.candidate] == self._numbering.reference[one.exchange.reference]
            for one in self.made[begun:-1]
        ]
        if any(is_needless):
            place = is_needless.index(True)
            kept = [one.exchange for one in compress(self.made[begun:], map(not_, is_needless))]
            self._remake(begun + place, [*kept[place:], self.made[-1].exchange])
        last, size = self.made[-1].exchange, 0
        earlier = range(max(begun, len(self.made) - 1 - _MOST_JOINED), len(self.made) - 1)
        for place in reversed(earlier):
            before = self.made[place]
            if self._is_from(before):
                size += before.exchange.size
                whole = self._joined(before, last, size + last.size)
                if whole is not None:
                    self._remake(place, [whole])
                    return

    def _is_from(self, before: Made) -> bool:
        """Return whether the last exchange is of what is computed from an earlier one."""
        last, leaf = self.made[-1], len(before.lowered.specs)
        end = last.exchange.candidate
        return end < leaf and end in reached(last.lowered.nodes, [leaf])

    def _joined(self, before: Made, last: Exchange, most: int) -> Exchange | None:
        """Return one exchange that does what an earlier one and the last do, if it is no larger.

        A sigmoid in the place of a SiLU is a wrong factor, and one that is left out. Where a factor
        of another operator stands in the place of one too much, what reads both is exchanged, too.
        """
        told, ends = (before.lowered, before.numbers), [(last.reference, last.candidate)]
        whole = self._search(*told, ends).whole(most)
        if whole is None or whole.candidate == last.candidate:
            return None if whole is None else replace(last, size=whole.size)
        return self._search(*told, self._open).widened(whole)

    def _remake(self, place: int, exchanges: Iterable[Exchange]) -> None:
        """Make others in the place of the exchanges from one on."""
        first = self.made[place]
        begin = len(first.lowered.specs)
        for term in reached(self.lowered.nodes, range(begin, len(self.lowered.specs))):
            self._alike.pop(term, None)  # what it holds now was not executed yet
        self.lowered = first.lowered
        del self.made[place:]
        self._new = {term: number for term, number in self._new.items() if term < begin}
        self._taken = {value: term for value, term in self._taken.items() if -value <= place}
        for one in exchanges:
            self._make(one, self._numbers())

    def _make(self, exchange: Exchange, numbers: Sequence[int]) -> None:
        """Give a new leaf to the nodes that read the exchanged term, and to the results.

        Args:
            exchange: What to make.
            numbers: Those of the candidate's terms.
        """
        self.made.append(Made(exchange, self.lowered, numbers))
        leaf, value = len(self.lowered.specs), -len(self.made)
        nodes = list(self.lowered.nodes)
        for place, _ in exchange.readers:
            node = nodes[place]
            operands = tuple(leaf if term == exchange.candidate else term for term in node.operands)
            nodes[place] = replace(node, operands=operands)
        wanted = {sink.candidate for sink in self._sinks if exchange.results}
        terms = {
            id_: leaf if term == exchange.candidate and id_ in wanted else term
            for id_, term in self.lowered.terms.items()
        }
        self.lowered = replace(
            self.lowered,
            nodes=tuple(nodes),
            specs=(*self.lowered.specs, self._sides[0].lowered.specs[exchange.reference]),
            terms={**terms, value: leaf},
            leaves={**self.lowered.leaves, leaf: value},
        )
        for term in reached(nodes, [leaf]):
            self._alike.pop(term, None)  # what it holds now was not executed yet
        self._new[leaf] = self._numbering.reference[exchange.reference]
        self._taken[value] = exchange.reference

    def _leaves(self) -> dict[int, Leaf]:
        """Return what the leaves of the repaired candidate hold."""
        reference = self._sides[0].lowered
        inner = {term for term in self._taken.values() if term not in reference.leaves}
        arrays = self._alignment.arrays(inner)
        found = dict(self._given[1])
        for value, term in self._taken.items():
            leaf = reference.leaves.get(term)
            found[value] = arrays[term] if leaf is None else self._given[0][leaf]
        return found

    def _agrees(self, agree: Callable[[Runs, Sink], bool]) -> bool:
        """Execute the repaired candidate, and return whether all results agree.

        Of many, as of what an update leaves, the first is executed alone: most repairs fail there.
        """
        sides = self._sides[0], replace(self._sides[1], lowered=self.lowered)
        given = self._given[0], self._leaves()
        for sinks in [self._sinks[:1]] * (len(self._sinks) > 1) + [self._sinks]:
            runs = Runs(sides, given, sinks, (self._alignment.executed, {}))
            if not all(agree(runs, sink) for sink in sinks):
                return False
        return True


def reached(nodes: Iterable[Node], terms: Iterable[int]) -> set[int]:
    """Return terms and all that nodes compute from them."""
    found = set(terms)
    for node in nodes:
        if not found.isdisjoint(node.operands):
            found.update(node.outputs)
    return found
