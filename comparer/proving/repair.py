"""Repair the candidate in memory until it computes what the reference computes.

Lines of the source may run several times, as in a loop: what is wrong in one run is wrong in the
others, and one fault.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress, islice, pairwise, takewhile
from math import gcd
from operator import not_
from typing import TYPE_CHECKING

import numpy as np

from .exchanged import Exchanged, Made, Start
from .exchanges import Search
from .pool import settings_of
from .slices import elements_of, find_smaller

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Lowered

    from .alignment import Likeness
    from .exchanged import Asked
    from .exchanges import Exchange
    from .executed import Runs, Sink
    from .side import Side

    Line = tuple[object, object]
    """Of the reference and of the candidate."""


_MOST_EXCHANGES = 32
"""That are not the one before in another run of the same line."""
_MOST_RUNS = 512
"""Of lines in loops: each takes as long as the search for its exchange."""
NUMBER = "full"
"""The primitive that makes what somebody wrote as a number."""
_FEW = 3
"""Steps after which an exchange is looked for that does all at once, in all runs of its lines."""
_MOST_ENDS = 8
"""Exchanges from which on one is looked for that does what all others do: each takes a search."""
_MOST_JOINED = 3
"""Exchanges before the last one that may be one with it."""
_MOST_BETWEEN = 8
"""Primitives between the place of an operator and the one that it should have."""
_MOST_SLICES = 8
"""Slices that are executed for a smaller exchange in them."""
_MOST_ELEMENTS = 1 << 27
"""That are computed to see whether one exchange does what several do: some seconds."""


class Repair(Exchanged):
    """Exchanges that are made one after another, until the results agree."""

    def __init__(self, asked: Asked, start: Start) -> None:
        """Begin with the candidate as it is, or with exchanges that were made already."""
        super().__init__(asked, start)
        self.first: Sequence[int] = ()
        """The numbers of the candidate's terms before the first exchange."""
        self._open: list[tuple[int, int]] = []
        """The results that differ, before the first exchange."""
        self._lines = Lines(self.sides, start.lowered, self.sinks)
        self._made_by: list[Line | None] = []
        """The lines whose values each exchange is of; None where one in their slice does: another
        run may need more than that one."""
        self._is_spread: set[object] = set()
        """Lines whose exchange was made in all of their runs."""
        self._is_constructed = False
        """Whether all results became the same expressions."""
        self._looked_into: dict[tuple[int, int], tuple[set[int], tuple[int, int] | None]] = {}
        """By the numbers of both ends of exchanges, the candidate's terms for which a smaller one
        was looked for, and the numbers of the ends of what was found."""

    def run(
        self,
        agree: Callable[[Runs, Sink], bool],
        likeness: Likeness | None = None,
        is_needless: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Make exchanges until the results agree.

        Args:
            agree: Whether a result of two executed programs agrees.
            likeness: The reference's terms that the candidate's are like; None to find them.
            is_needless: Whether another repair is smaller than the first exchange already; asked
                once, if a few do not do.

        Returns:
            Whether the repaired candidate computes what the reference computes: its results are
            the same expressions, or agree where it is executed.
        """
        self.look(likeness)
        is_fresh, steps, again = True, 0, 0
        while len(self.made) < _MOST_EXCHANGES + again and steps < 2 * _MOST_EXCHANGES + again:
            numbers = self.numbers()
            self.first = self.first or numbers
            results = self.differing(self.lowered, numbers)
            if not results:
                self._is_constructed = True
                return bool(self.made) and (self.numbering.is_strict or self.agrees(agree))
            if is_fresh and self._is_seen_alike(agree):
                return True
            exchange: Exchange | None = None
            parts: list[Exchange] = []
            if is_fresh or self._is_in_loop():
                search = self._search(self.lowered, numbers, results)
                exchange = search.smallest()
                parts = [] if exchange is None else self._in_lines(search.parted(exchange))
            is_again = again < _MOST_RUNS and self._is_in_last_line(exchange)
            spread = self._spread(None) if is_again else 0
            again += spread
            if spread or not (is_fresh or (is_again and self._is_as_small(exchange))):
                self.look()
                is_fresh = True
                continue
            if exchange is None:
                break
            smaller = self._smaller(exchange, search)
            self._made_by.append(self._lines.of(smaller or exchange, self.lowered))
            self._open = self._open or results
            parts = [smaller] if smaller else parts
            self._make_all(parts, numbers)
            again += len(parts) if is_again else 0
            if not is_again:
                self._take_back()
            if self._spread(agree) or (steps == _FEW and self._is_told_by_lines(agree)):
                return True
            self._made_by[-1] = None if smaller else self._made_by[-1]
            if steps == _FEW and is_needless():
                return False
            is_fresh, steps = False, steps + 1
        return bool(self.made) and self.agrees(agree)

    def _make_all(self, parts: Sequence[Exchange], numbers: Sequence[int]) -> None:
        for one in parts:
            self.make(one, numbers if one is parts[0] else self.numbers())

    def _is_seen_alike(self, agree: Callable[[Runs, Sink], bool]) -> bool:
        """Return whether results that were seen to hold what they should agree."""
        return self.is_alike and bool(self.made) and self.agrees(agree)

    def _is_in_last_line(self, exchange: Exchange | None) -> bool:
        """Return whether an exchange is of the lines that the last one was of."""
        line = None if exchange is None else self._lines.of(exchange, self.lowered)
        return line is not None and line in self._made_by[-1:]

    def _is_as_small(self, exchange: Exchange | None) -> bool:
        """Return whether an exchange is no larger than the last one; else it was not looked at."""
        return exchange is not None and exchange.size <= self.made[-1].exchange.size

    def _spread(self, agree: Callable[[Runs, Sink], bool] | None) -> int:
        """Make the last exchange in the other runs of its lines, too; return how many are needed.

        None is where more than that differs in one of them.

        Args:
            agree: Whether a result of two executed programs agrees: all have to then; None where
                another run is known to need it.
        """
        last, begun = self.made[-1].exchange, len(self.made)
        key = self._lines.of(last, self.lowered), agree is None
        if key in self._is_spread or last.results or not self._is_in_loop():
            return 0
        numbers = self.numbers()
        if not self.differing(self.lowered, numbers):
            return 0
        for one in self._lines.again(last, {one.exchange.candidate for one in self.made}):
            leaf = self.numbering.reference[self.made[-1].exchange.reference]
            self.make(one, numbers if len(self.made) == begun else [*self.made[-1].numbers, leaf])
        made = [one.exchange for one in self.made[begun:]]
        if not made:
            return 0
        self._is_spread.add(key)
        self.look()
        needed = list(self.needed(made))
        numbers = self.numbers()
        sizes = [self.sizes(one, self.lowered, numbers) for one in (last, *needed)]
        is_alike = all(one <= sizes[0] for one in sizes)
        kept = needed if is_alike and (agree is None or self.agrees(agree)) else []
        if len(kept) < len(made):
            self.remake(begun, kept)
            self.look()
        return len(kept)

    def _in_lines(self, parts: Sequence[Exchange]) -> list[Exchange]:
        """Return exchanges that are made at once, each as the one before again if its lines are."""
        lines = [self._lines.of(one, self.lowered) for one in parts]
        again = [one is not None and one == before for before, one in pairwise([None, *lines])]
        return [replace(one, is_again=each) for one, each in zip(parts, again, strict=True)]

    def _is_in_loop(self) -> bool:
        """Return whether the line of the last exchange ran several times."""
        line = self._made_by[-1] if self._made_by else None
        return line is not None and self._lines.counts[line[1]] > 1

    def looked_at(self, made: Sequence[Made], places: Sequence[int]) -> list[Made]:
        """Return exchanges, some of them as the candidate was seen that they were made in.

        One that was made beside others was seen without what these made right.

        Args:
            made: All.
            places: Of those that are looked at, as many as take no longer than others do.
        """
        found = [*made]
        own = [place for place in places if place >= len(self.start.made)]
        for place in own[: _MOST_ELEMENTS // self.elements()]:
            before = Start(made[place].lowered, tuple(made[:place]))
            seen = Exchanged(self.asked, before)
            seen.look()
            found[place] = replace(made[place], numbers=seen.numbers())
        return found

    def line_of(self, made: Made) -> Line | None:
        """Return the lines that make both terms of an exchange; None where one is not known."""
        return self._lines.of(made.exchange, made.lowered)

    @property
    def size(self) -> int:
        """The primitives of all exchanges together, those of one line once: the most of any run."""
        sizes: dict[object, int] = {}
        for place, one in enumerate(self.made):
            line = self.line_of(one) or place
            sizes[line] = max(sizes.get(line, 0), one.exchange.size)
        return sum(sizes.values())

    def _is_one_line(self, made: Sequence[Made]) -> bool:
        """Return whether exchanges are of runs of one line: they are one fault already."""
        return (
            len(lines := {self._lines.of(one.exchange, self.lowered) for one in made}) == 1
            and None not in lines
        )

    def reduce(self, agree: Callable[[Runs, Sink], bool]) -> None:
        """Take back exchanges without which the results agree all the same, large ones first.

        They may only turn one form into another on the way to what is wrong.
        """
        begun = len(self.start.made)
        self._uncross(begun, agree)
        lines: dict[object, list[Exchange]] = {}
        for place, one in enumerate(self.made[begun:]):
            if not (self._is_constructed and self._is_of_numbers(one)):
                lines.setdefault(self._lines.of(one.exchange, self.lowered) or place, []).append(
                    one.exchange
                )
        most = _MOST_ELEMENTS // self.elements() if len(self.made) > begun + 1 else 0
        groups = sorted(lines.values(), key=lambda group: -sum(one.size for one in group))
        tries = chain(((one, True) for one in _most_of(groups)), ((one, False) for one in groups))
        for dropped, is_alone in islice(tries, most):
            made = [one.exchange for one in self.made[begun:]]
            kept = [one for one in made if one not in dropped]
            is_less = kept and self._size_of(kept, made) <= sum(one.size for one in made)
            if len(kept) == len(made) or not is_less:
                continue
            is_begun = kept == made[: len(kept)]  # then those that read them may be all
            for less in (
                *([kept] if is_begun or not is_alone else []),
                *([self._read_everywhere(kept)] if is_alone else []),
            ):
                if self.suffice(less, begun, agree):
                    if self._is_shown([one for one in made if one in dropped]):
                        self.remake(begun, less)
                    break

    def _uncross(self, begun: int, agree: Callable[[Runs, Sink], bool]) -> None:
        """Put one exchange in the place of two of which one gives back what the other one took.

        Where both programs add up in another order, a wrong term may be put right by moving terms.
        Two values that changed places are another thing.
        """
        made = self.made[begun:]
        known = [self.numbering.reference[one.exchange.reference] for one in made]
        found = [one.numbers[one.exchange.candidate] for one in made]
        crossed: dict[int, int] = {}
        """Which exchange gives back what another one took, by place, that one first."""
        for place in range(len(made)):
            later = (at for at in range(place + 1, len(made)) if at not in crossed.values())
            back = [at for at in later if known[at] == found[place] and found[at] != known[place]]
            if back and place not in crossed.values():
                crossed[place] = back[0]
        if not crossed or self.elements() > _MOST_ELEMENTS:
            return
        whole = {at: self._straight(made[place], made[at]) for place, at in crossed.items()}
        kept = [whole.get(at) or one.exchange for at, one in enumerate(made) if at not in crossed]
        if None not in whole.values() and self.suffice(kept, begun, agree):
            self.remake(begun, kept)

    def _straight(self, taken: Made, back: Made) -> Exchange | None:
        """Return the exchange of what one put in for what another one took away, if that fits."""
        known, specs = self.sides[0].lowered.specs, taken.lowered.specs
        reference, term = taken.exchange.reference, back.exchange.candidate
        if term >= len(self.start.lowered.specs) or known[reference] != specs[term]:
            return None
        one = replace(back.exchange, reference=reference)
        return replace(one, size=sum(self.sizes(one, back.lowered, back.numbers)))

    def _read_everywhere(self, exchanges: Sequence[Exchange]) -> list[Exchange]:
        """Return exchanges for all that read their values before the first one.

        What read one in an expression that an earlier exchange replaced is no reader of it later.
        """
        nodes = self.start.lowered.nodes
        found: dict[tuple[int, int], Exchange] = {}
        for one in exchanges:
            ends = self.numbering.reference[one.reference], one.candidate
            taken = {place for place, _ in one.readers}
            more = (
                (place, None)
                for place, node in enumerate(nodes)
                if one.candidate in node.operands and place not in taken
            )
            found.setdefault(ends, replace(one, readers=(*one.readers, *more)))
        is_clear = len({candidate for _, candidate in found}) == len(found)
        return [*found.values()] if is_clear else [*exchanges]

    def _is_shown(self, exchanges: Sequence[Exchange]) -> bool:
        """Return whether the candidate as it was has other elements than what was put there.

        Where all became the same expressions, what is the same with these inputs alone is no form.
        """
        sides = self.sides[0].lowered, self.start.lowered
        every = self.leaves()
        leaves = self.given[0], {one: every[one] for one in sides[1].leaves.values()}
        ends = [{one.reference for one in exchanges}, {one.candidate for one in exchanges}]
        known, found = map(elements_of, sides, leaves, ends)
        return not self._is_constructed or not any(
            np.array_equal(found[one.candidate], known[one.reference]) for one in exchanges
        )

    def _size_of(self, kept: Sequence[Exchange], made: Sequence[Exchange]) -> float:
        """Return the size of exchanges without others: ahead of these they are what they were."""
        pairs = zip(kept, made, strict=False)
        ahead = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return sum(one.size for one in kept[:ahead]) + sum(map(self._size_alone, kept[ahead:]))

    def _size_alone(self, exchange: Exchange) -> float:
        """Return the size of an exchange in the candidate as it was before the first one."""
        if exchange.candidate >= len(self.first):
            return float("inf")
        return sum(self.sizes(exchange, self.start.lowered, self.first))

    def in_one(self, agree: Callable[[Runs, Sink], bool]) -> list[Made]:
        """Return the exchanges with one that does what the last ones do, if it is no larger.

        Where it is larger, they are independent of each other. Where both programs write the same
        in two ways, the others may only turn one into the other, up to a result.
        """
        most = _MOST_ELEMENTS // self.elements() if len(self.made) > 1 else 0
        begun = len(self.start.made)
        for place in range(begun, min(len(self.made) - 1, begun + _MOST_ENDS)):
            made = [one.exchange for one in self.made[place:]]
            first, size = self.made[place], sum(one.size for one in made if not one.is_again)
            results = self.differing(first.lowered, first.numbers)
            search = self._search(first.lowered, first.numbers, results)
            whole = search.whole(size)
            size = size if whole is None else whole.size - 1
            if not self._is_one_line(self.made[place:]):
                for one in islice(self._tries(search, place, size), most):
                    most -= 1
                    if self._do_runs(one, place, agree):
                        return self.made
            if whole is not None:
                return [*self.made[:place], Made(whole, first.lowered, first.numbers)]
        return self.made

    def _is_told_by_lines(self, agree: Callable[[Runs, Sink], bool]) -> bool:
        """Return whether one exchange, in all runs of its lines, does all, and make it if so.

        A norm that is left out in each layer is several smaller exchanges in each.
        """
        search = self._search(self.start.lowered, self.first, self._open)
        begun = len(self.start.made)
        return any(self._do_runs(one, begun, agree) for one in search.telling(self.size))

    def _do_runs(self, exchange: Exchange, place: int, agree: Callable[[Runs, Sink], bool]) -> bool:
        """Return whether an exchange in all runs of its lines does, and make it if so.

        Args:
            exchange: In the candidate as it was at the place.
            place: Of the first exchange that it stands for.
            agree: Whether a result of two executed programs agrees.
        """
        runs = self._in_all_runs(exchange, self.made[place].lowered)
        if not self.suffice(runs, place, agree):
            return False
        if len(runs) > 1 and not self.with_others(runs, place).are_one(runs):
            return False
        self.remake(place, runs)
        return True

    def _in_all_runs(self, exchange: Exchange, candidate: Lowered) -> list[Exchange]:
        """Return an exchange in a candidate with those in the other runs of its lines."""
        is_known = self._lines.of(exchange, candidate) is not None and not exchange.results
        runs = self._lines.again(exchange, {exchange.candidate}) if is_known else ()
        return [exchange, *runs]

    def _search(
        self, lowered: Lowered, numbers: Sequence[int], results: Sequence[tuple[int, int]]
    ) -> Search:
        """Return a search for exchanges in a candidate."""
        return Search((self.sides[0].lowered, lowered), self.numbering, numbers, results)

    def _tries(self, search: Search, place: int, size: int) -> Iterable[Exchange]:
        """Return exchanges that are executed to see whether they do what those from a place do.

        Where all became the same expressions, a number that was exchanged for another one is not
        taken back because it does not show with these inputs.
        """
        made = self.made[place:]
        if any(one.exchange.results for one in made):
            return chain(search.telling(size), search.each(size))
        if self._is_constructed and any(map(self._is_of_numbers, made)):
            return ()
        return search.telling(size)

    def _is_of_numbers(self, made: Made) -> bool:
        """Return whether an exchange is of two numbers that somebody wrote."""
        ends = (
            (self.sides[0].lowered, made.exchange.reference),
            (made.lowered, made.exchange.candidate),
        )
        places = [(program, program.producers.get(term)) for program, term in ends]
        return all(
            place is not None and program.nodes[place].primitive == NUMBER
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
        every, own = self.leaves(), search.candidate.lowered.leaves
        leaves = self.given[0], {one: every[one] for one in own.values() if one in every}
        results = {two for _, two in self.results()}
        found = find_smaller(search, leaves, exchange, results, told)
        if found is not None:
            told = search.numbers[0][found.reference], search.numbers[1][found.candidate]
        self._looked_into[ends] = before, told
        return found and replace(found, readers=self._widened(found))

    def _widened(self, exchange: Exchange) -> tuple[tuple[int, int | None], ...]:
        """Return the readers of an exchange in a slice, with those in other runs of their lines."""
        taken = {place for place, _ in exchange.readers}
        more = self._lines.reading(exchange.candidate, exchange)
        return (*exchange.readers, *(one for one in more if one[0] not in taken))

    def _take_back(self) -> None:
        """Take back what the last exchange made needless, and join it with those before."""
        begun, numbers = len(self.start.made), self.numbers()
        is_needless = [
            numbers[one.exchange.candidate] == self.numbering.reference[one.exchange.reference]
            for one in self.made[begun:-1]
        ]
        if any(is_needless):
            place = is_needless.index(True)
            kept = [one.exchange for one in compress(self.made[begun:], map(not_, is_needless))]
            self.remake(begun + place, [*kept[place:], self.made[-1].exchange])
        last, size = self.made[-1].exchange, 0
        earlier = range(max(begun, len(self.made) - 1 - _MOST_JOINED), len(self.made) - 1)
        for place in reversed(earlier):
            before = self.made[place]
            if self._is_from(before):
                size += before.exchange.size
                between = _MOST_BETWEEN if self._is_moved(before, self.made[-1]) else 0
                whole = self._joined(before, last, size + last.size + between)
                if whole is not None:
                    told = before.lowered, before.numbers
                    search = self._search(*told, self.differing(*told))
                    self.remake(place, [self._smaller(whole, search) or whole])
                    return

    def _is_from(self, before: Made) -> bool:
        """Return whether the last exchange is of what is computed from an earlier one."""
        last, leaf = self.made[-1], len(before.lowered.specs)
        end = last.exchange.candidate
        return end < leaf and end in last.lowered.ahead([leaf])

    def _is_moved(self, first: Made, second: Made) -> bool:
        """Return whether one of two exchanges takes away what the other one puts in elsewhere."""
        one, other = self._more_or_less(first), self._more_or_less(second)
        return any(
            taken is not None and taken == put for taken, put in zip(one, other[::-1], strict=True)
        )

    def _more_or_less(self, made: Made) -> tuple[object, object]:
        """Return the primitive that an exchange takes away, and the one that it puts in, if any."""
        known, own = self.sides[0].lowered, made.lowered
        numbers = self.numbering.reference, made.numbers
        ends = made.exchange.reference, made.exchange.candidate
        found: list[object] = []
        for program, mine, term, other in (
            (own, numbers[1], ends[1], numbers[0][ends[0]]),
            (known, numbers[0], ends[0], numbers[1][ends[1]]),
        ):
            place = program.producers.get(term)
            node = None if place is None else program.nodes[place]
            is_one = node is not None and other in [mine[one] for one in node.operands]
            found.append((node.primitive, node.attributes) if node and is_one else None)
        return found[0], found[1]

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


def _most_of(groups: Sequence[Sequence[Exchange]]) -> Iterator[Sequence[Exchange]]:
    """Yield all exchanges, and all but those of one group, which are left alone: small ones first.

    Two that turn a form there and back are only needless together.
    """
    if len(groups) > 1:
        yield [*chain.from_iterable(groups)]
        for kept in reversed(groups):
            yield [one for group in groups if group is not kept for one in group]


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
        """Look at nothing yet."""
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

    def again(self, last: Exchange, made: Collection[int]) -> Iterator[Exchange]:
        """Yield an exchange in each other run of its lines, where both sides run them alike.

        A number of the reference, and what it computes once, stands for all.
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
    def counts(self) -> Counter[object]:
        """How often each line of the candidate ran each operator."""
        return Counter((one.name, one.site) for one in self._sides[1].program.operators)
