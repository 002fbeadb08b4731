"""Find a term of the candidate in whose place one of the reference does.

An exchange puts a term of the reference in the place of one of the candidate's, wherever what is
computed from that has no counterpart. If what reads it then is an expression of the reference, the
two terms are where the programs part. The smallest exchange is looked for: the one with the fewest
primitives between the two terms and what both programs have.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING

from padiff.program import COMMUTATIVE, LAYOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Lowered, Node

    from .numbering import Numbering

_MOST_NODES = 1000
"""Primitives without a counterpart that are looked at, of each side, in order. Slices of real
faults have 6 to 7 operators in the median; the norm of all gradients has some for each weight."""
_MOST_TRIALS = 40_000
_MOST_PARTS = 4
"""Operands of one kind, or kinds of them, that are exchanged in the place of what reads them."""
_MOST_ALIKE = 64
"""Operands of few kinds, as what is stacked."""
_PRODUCTS = frozenset(
    {"convolution", "convolution_transposed", "grouped_matmul", "matmul", "recurrent"}
)
"""What takes long to execute, and hides nothing of its operands."""
_MOST_TELLING = 4
"""Exchanges that are executed because much becomes equal."""


def differing_operands(
    one: Node, two: Node, is_same: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Return the operands in which nodes of one form differ, in whatever order they are added."""
    rests = list(one.operands), list(two.operands)
    if one.primitive in COMMUTATIVE:
        for term in one.operands:
            same = (other for other in rests[1] if is_same(term, other))
            if (other := next(same, None)) is not None:
                rests[0].remove(term)
                rests[1].remove(other)
    return [pair for pair in zip(*rests, strict=True) if not is_same(*pair)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A term of the reference in the place of one of the candidate's."""

    reference: int
    candidate: int
    readers: tuple[tuple[int, int | None], ...]
    """Positions of the candidate's nodes that read it instead, each with the position of the
    reference's node that computes the same then, or that reads it there in another form."""
    results: tuple[int, ...]
    """Places among the results that it becomes."""
    size: int
    """Primitives between the two terms and what both programs have."""
    is_again: bool = False
    """Whether it is the one before, in another run of the same lines."""


class Region:
    """The part of one program that the other does not have."""

    def __init__(
        self, lowered: Lowered, numbers: Sequence[int], others: set[int], results: Sequence[int]
    ) -> None:
        self.lowered = lowered
        self.common = {term for term, number in enumerate(numbers) if number in others}
        self.nodes = lowered.behind(results, known=self.common)[:_MOST_NODES]
        self.readers = self._reading(self.nodes)
        self.followers = self._reading(self._with_inner(results))
        """Those of its operators that read a term, also where both programs have what they make."""
        self.sizes: dict[int, int] = {}
        """Of terms that may be exchanged: primitives behind them that the other side lacks."""
        behind = self._behind()
        for term in {*self.readers, *results}:  # of a node's outputs some may be read by nobody
            if term in self.common:
                self.sizes[term] = 0
            elif term in behind:
                self.sizes[term] = behind[term].bit_count()
            else:
                places = lowered.behind([term], known=self.common)
                self.sizes[term] = 1 if term in lowered.leaves else len(places)

    def followed(self) -> set[int]:
        """Return the values that nodes alone read of which both programs have what they make."""
        values = self.followers.keys() & set(self.lowered.terms.values())
        return (values & self.common) - self.sizes.keys()

    def _reading(self, places: Iterable[int]) -> dict[int, list[int]]:
        """Return the positions of the nodes that read each term."""
        found: dict[int, list[int]] = defaultdict(list)
        for place in places:
            for term in set(self.lowered.nodes[place].operands):
                found[term].append(place)
        return found

    def _with_inner(self, results: Sequence[int]) -> list[int]:
        """Return its nodes, and all others of their operators, in order.

        What a norm divides by may be what another norm of the same value divides by.
        """
        own, nodes = self.operators, self.lowered.nodes
        inner = (place for place in self.lowered.behind(results) if nodes[place].operator in own)
        return sorted({*self.nodes, *inner})

    def _behind(self) -> dict[int, int]:
        """Return the nodes behind what each node makes, as the bits of a number."""
        found: dict[int, int] = {}
        for count, place in enumerate(self.nodes):
            node = self.lowered.nodes[place]
            bits = 1 << count
            for term in node.operands:
                bits |= 0 if term in self.common else found.get(term, 0)
            found.update(dict.fromkeys(node.outputs, bits))
        return found

    @property
    def operators(self) -> set[int]:
        """The operators that its nodes are of."""
        return {self.lowered.nodes[place].operator for place in self.nodes}


def _by_spec(region: Region) -> dict[object, dict[int, list[int]]]:
    """Return the terms that may be exchanged by their spec and size."""
    found: dict[object, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for term, size in region.sizes.items():
        found[region.lowered.specs[term]][size].append(term)
    return found


def _sums(
    size: int, terms: Sequence[int], others: Sequence[tuple[int, Sequence[int]]]
) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
    """Yield terms of one size with those of each other size, and what both are together."""
    for other, those in others:
        yield size + other, terms, those


class Search:
    """Looks for exchanges after which results of a candidate are the reference's."""

    def __init__(
        self,
        programs: tuple[Lowered, Lowered],
        numbering: Numbering,
        numbers: Sequence[int],
        results: Sequence[tuple[int, int]],
    ) -> None:
        """Find what either program computes for the results and the other one does not."""
        self.numbering, self.results = numbering, results
        self.numbers = numbering.reference, numbers
        own = set(numbers)
        known = set(numbering.reference)
        self.reference = Region(programs[0], numbering.reference, own, [one for one, _ in results])
        self.candidate = Region(programs[1], numbers, known, [one for _, one in results])
        self._lone = self.candidate.followed()
        """Values in whose place one that an operator makes of them may lack."""
        self.candidate.sizes.update(dict.fromkeys(self._lone, 0))
        self.wanted = {
            numbering.reference[term]: place
            for place in reversed(self.reference.nodes)
            for term in programs[0].nodes[place].outputs
        }
        """What the candidate lacks, and where the reference makes it first."""
        self.keys = {
            (node.primitive, *sorted(numbering.reference[term] for term in node.operands))
            for node in (programs[0].nodes[place] for place in self.reference.nodes)
        }
        """The primitives that the candidate lacks, with the numbers that they read."""

    @cached_property
    def _open(self) -> set[int]:
        """The positions of what the candidate computes and the reference does not."""
        return {*self.candidate.nodes}

    @cached_property
    def _values(self) -> set[int]:
        """The candidate's terms that are values of its program."""
        lowered = self.candidate.lowered
        return {*lowered.terms.values(), *lowered.bases.values()}

    def smallest(self) -> Exchange | None:
        """Return the smallest exchange after which more of the candidate is the reference's."""
        tried = 0
        for size, pairs in groupby(self.pairs(), key=itemgetter(0)):
            found: list[tuple[int, bool, Exchange]] = []
            for _, known, own in pairs:
                tried += 1
                gain, exchange = self.tried(known, own, size)
                if gain:
                    found.append((gain, self._is_alike(known, own), exchange))
            if found:
                return max(found, key=itemgetter(0, 1))[2]
            if tried > _MOST_TRIALS:
                return None
        return None

    def _is_alike(self, known: int, own: int) -> bool:
        """Return whether the same primitive makes two terms, the candidate's as a value of its own.

        What stands for another one inside an operator is nothing that somebody wrote.
        """
        if own not in self._values:
            return False
        sides = (self.reference.lowered, known), (self.candidate.lowered, own)
        places = [(lowered, lowered.producers.get(term)) for lowered, term in sides]
        names = [
            None if place is None else lowered.nodes[place].primitive for lowered, place in places
        ]
        return names[0] == names[1]

    def whole(self, most: int) -> Exchange | None:
        """Return the smallest exchange, up to a size, that alone makes all results equal."""
        tried = (self.tried(*pair, is_counted=False) for pair in self._up_to(most))
        return next((one for equal, one in tried if equal == len(self.results)), None)

    def telling(self, most: int) -> list[Exchange]:
        """Return the few, up to a size, after which most of the candidate is the reference's."""
        tried = (self.tried(*pair) for pair in self._up_to(most))
        found = heapq.nlargest(_MOST_TELLING, tried, key=itemgetter(0))
        return [exchange for gain, exchange in found if gain]

    def each(self, most: int) -> Iterator[Exchange]:
        """Yield all up to a size, whether or not what reads them is the reference's.

        Of a term that is read in another form, too, first the exchange for what is the reference's.
        """
        for pair in self._up_to(most):
            gain, exchange = self.tried(*pair)
            if gain:
                yield exchange
            everywhere = self.everywhere(exchange)
            if not gain or len(everywhere.readers) > len(exchange.readers):
                yield everywhere  # what reads it in another form reads it, too

    def widened(self, exchange: Exchange) -> Exchange:
        """Return an exchange that was found for one term for all that the results are made of."""
        return self.tried(exchange.reference, exchange.candidate, exchange.size)[1]

    def parted(self, exchange: Exchange) -> list[Exchange]:
        """Return an exchange, or those of all that its ends read otherwise if these are smaller.

        No operand alone makes a product of two faulty ones right, so that its exchange gains
        nothing by itself. Operands that are only exchanged are one fault.
        """
        readers: dict[tuple[int, int], list[tuple[int, int | None]]] = {}
        parted = set[tuple[int, int]]()
        open_ = [((exchange.reference, exchange.candidate), (-1, -1))]
        while open_ and len(readers) <= _MOST_ALIKE:
            ends, reader = open_.pop()
            if ends in parted:
                continue
            places, operands = (reader, []) if ends in readers else self._parts(*ends)
            if operands:
                parted.add(ends)
                open_ += [(pair, places) for pair in reversed(operands)]
            else:
                readers.setdefault(ends, []).append(reader)
        sizes = self.reference.sizes, self.candidate.sizes
        parts = [
            Exchange(
                reference=known,
                candidate=own,
                readers=tuple(those),
                results=(),
                size=sizes[0][known] + sizes[1][own],
            )
            for (known, own), those in readers.items()
        ]
        kinds = {self._kind_of(one.reference, one.candidate): one.size for one in parts}
        is_less = 2 * sum(kinds.values()) <= exchange.size
        numbers = {self.numbers[0][known] for known, _ in readers}
        is_order = any(self.numbers[1][own] in numbers for _, own in readers)
        is_few = len(kinds) <= _MOST_PARTS and len(parts) <= _MOST_ALIKE
        is_parted = len(parts) > 1 and is_few and is_less and not is_order
        return parts if is_parted else [exchange]

    def _kind_of(self, known: int, own: int) -> tuple[object, ...]:
        """Return what makes two terms, on each side; the term where nothing does."""
        places = (
            (region.lowered.nodes, region.lowered.producers.get(term), term)
            for region, term in ((self.reference, known), (self.candidate, own))
        )
        return tuple(
            term if place is None else (nodes[place].primitive, nodes[place].attributes)
            for nodes, place, term in places
        )

    def _parts(self, known: int, own: int) -> tuple[tuple[int, int], list[tuple[int, int]]]:
        """Return the operands in which two terms differ that the same primitive makes.

        Returns:
            The positions of the candidate's node and the reference's, and pairs of operands; none
            where more than operands differs.
        """
        regions = self.reference, self.candidate
        places = [
            -1 if term in region.common else region.lowered.producers.get(term, -1)
            for region, term in zip(regions, (known, own), strict=True)
        ]
        if any(place not in region.nodes for region, place in zip(regions, places, strict=True)):
            return (-1, -1), []
        one, two = (
            region.lowered.nodes[place] for region, place in zip(regions, places, strict=True)
        )
        forms = [(node.primitive, node.attributes, len(node.operands)) for node in (one, two)]
        is_form = forms[0] == forms[1] and len(one.outputs) == 1
        pairs = self._differing(one, two) if is_form else []
        return (places[1], places[0]), pairs

    def _differing(self, one: Node, two: Node) -> list[tuple[int, int]]:
        """Return the operands of two nodes that differ; none where a shape does, too."""
        pairs = differing_operands(one, two, self._is_same)
        specs = self.reference.lowered.specs, self.candidate.lowered.specs
        return pairs if all(specs[0][term] == specs[1][other] for term, other in pairs) else []

    def _is_same(self, known: int, own: int) -> bool:
        return self.numbers[0][known] == self.numbers[1][own]

    def _up_to(self, most: int) -> Iterator[tuple[int, int, int]]:
        """Yield the pairs up to a size as ``tried`` takes them, small ones first."""
        pairs = takewhile(lambda pair: pair[0] <= most, self.pairs())
        for size, known, own in islice(pairs, _MOST_TRIALS):
            yield known, own, size

    def pairs(self) -> Iterator[tuple[int, int, int]]:
        """Yield pairs of terms of one shape, and of results, with their size, small ones first."""
        regions = self.reference, self.candidate
        known, found = (_by_spec(one) for one in regions)
        streams = [
            _sums(one, terms, sorted(found[spec].items()))
            for spec in known.keys() & found.keys()
            for one, terms in known[spec].items()
        ]
        specs, numbers = [one.lowered.specs for one in regions], self.numbers
        turned = [
            (self.reference.sizes[one] + self.candidate.sizes[two], [one], [two])
            for one, two in {*self.results}
            if specs[0][one] != specs[1][two]
        ]
        merged = heapq.merge(*streams, sorted(turned), key=itemgetter(0))
        for size, groups in groupby(merged, key=itemgetter(0)):
            yield from sorted(
                (size, one, two)
                for _, ones, twos in groups
                for one in ones
                for two in twos
                if (numbers[0][one] != numbers[1][two] or specs[0][one] != specs[1][two])
                and (size == 1 or two not in self._lone)
            )

    def tried(
        self, known: int, own: int, size: int, *, is_counted: bool = True
    ) -> tuple[int, Exchange]:
        """Put a term of the reference in the place of the candidate's, and count what it gains.

        Args:
            known: The reference's term.
            own: The candidate's.
            size: Of the exchange.
            is_counted: Whether all that becomes equal counts, or results alone.
        """
        number = self.numbers[0][known]
        changed: dict[int, int] = {}
        readers: list[tuple[int, int | None]] = []
        gain = 0
        specs = self.reference.lowered.specs[known], self.candidate.lowered.specs[own]
        is_read = specs[0] == specs[1]  # a result of another shape is nothing to what else reads it
        for place, partner, becoming, is_direct in self._followed(own, number) if is_read else ():
            changed.update(becoming)
            if is_direct:
                readers.append((place, partner))
            primitive = self.candidate.lowered.nodes[place].primitive
            is_gain = partner is not None and place in self._open and primitive not in LAYOUT
            gain += is_counted and is_gain
        results = tuple(
            place
            for place, (one, two) in enumerate(self.results)
            if two == own and self.numbers[0][one] == number
        )
        gain += len(results) + sum(
            two != own and self.numbers[0][one] == changed.get(two) for one, two in self.results
        )
        if not (readers or results):
            gain = 0
        exchange = Exchange(
            reference=known,
            candidate=own,
            readers=(*readers, *(self._read_beside(known, own, readers) if gain else ())),
            results=results,
            size=size,
        )
        return gain, exchange

    def _followed(
        self, own: int, number: int
    ) -> Iterator[tuple[int, int | None, dict[int, int], bool]]:
        """Yield the candidate's nodes that compute what the reference does if a term becomes other.

        Yields:
            The position of a node, that of the reference's node, what its outputs become, and
            whether it reads the term itself.
        """
        open_ = [*self.candidate.followers.get(own, ())]
        if not any(self._may_become(place, own, number) for place in open_):
            return
        heapq.heapify(open_)
        changed: dict[int, int] = {}
        seen: set[int] = set()
        while open_:
            place = heapq.heappop(open_)
            if place in seen:
                continue
            seen.add(place)
            node = self.candidate.lowered.nodes[place]
            partner, becoming = self._partner(place, {**changed, own: number})
            is_direct = bool(becoming) and own in node.operands
            if not becoming and changed:  # it may read the term as it is, as a residual does
                partner, becoming = self._partner(place, changed)
            if not becoming:
                continue
            changed.update(becoming)
            yield place, partner, becoming, is_direct
            for term in node.outputs:
                for reader in self.candidate.followers.get(term, ()):
                    heapq.heappush(open_, reader)

    def behind(self, exchange: Exchange, most: int) -> tuple[set[int], dict[int, int]]:
        """Return what is computed from an exchanged term up to the next products.

        Args:
            exchange: What is exchanged.
            most: How many primitives from it.

        Returns:
            The positions of the candidate's nodes, and the terms in which they end, as terms of the
            reference by the candidate's: all that is behind takes these alone.
        """
        known, own = exchange.reference, exchange.candidate
        nodes, made = self.candidate.lowered.nodes, {own: self.numbers[0][known]}
        steps, places = {own: 0}, set[int]()
        for place, _, becoming, _ in self._followed(own, made[own]):
            node = nodes[place]
            count = max(
                (steps.get(term, most) for term in {*node.operands} & made.keys()), default=most
            )
            made.update(becoming)
            if count < most and node.primitive not in _PRODUCTS:
                places.add(place)
                is_step = node.primitive not in LAYOUT
                steps.update(dict.fromkeys(becoming, count + is_step))
        taken = {two for _, two in self.results}
        ends = {
            term: made[term]
            for term in steps
            if term in taken or not places.issuperset(self.candidate.readers.get(term, ()))
        }
        terms = {number: term for term, number in enumerate(self.numbers[0])}
        return places, {term: terms[number] for term, number in ends.items()}

    def _read_beside(
        self, known: int, own: int, readers: Sequence[tuple[int, int | None]]
    ) -> Iterator[tuple[int, int]]:
        """Yield what reads both terms beside something else that differs: a sum of two faults."""
        taken: list[set[int | None]] = [{one for one, _ in readers}, {two for _, two in readers}]
        sides = ((self.candidate, own), (self.reference, known))
        left: list[dict[object, list[int]]] = [defaultdict(list), defaultdict(list)]
        for which, (region, term) in enumerate(sides):
            for place in region.readers.get(term, ()):
                node = region.lowered.nodes[place]
                others = [one for one in node.operands if one != term]
                if place not in taken[which] and not region.common.issuperset(others):
                    left[which][node.primitive, node.attributes].append(place)
        for kind, places in left[0].items():
            partners = left[1].get(kind, ())
            if len(places) == len(partners) == 1:
                yield places[0], partners[0]

    def _may_become(self, place: int, own: int, number: int) -> bool:
        """Return whether the candidate may lack what a node makes if a term has another number."""
        node, numbers = self.candidate.lowered.nodes[place], self.numbers[1]
        read = sorted(number if term == own else numbers[term] for term in node.operands)
        return node.primitive in LAYOUT or (node.primitive, *read) in self.keys

    def everywhere(self, exchange: Exchange) -> Exchange:
        """Return an exchange for all that reads the candidate's term."""
        own = exchange.candidate
        partner = next(iter(self.reference.readers.get(exchange.reference, ())), None)
        return replace(
            exchange,
            readers=tuple((place, partner) for place in self.candidate.readers.get(own, ())),
            results=tuple(place for place, (_, two) in enumerate(self.results) if two == own),
        )

    def _partner(self, place: int, changed: Mapping[int, int]) -> tuple[int | None, dict[int, int]]:
        """Return the reference's node that computes what a node would, and its outputs' numbers.

        A node that only hands on what it takes, as a cast in float64 does, needs no such partner.
        """
        node = self.candidate.lowered.nodes[place]
        operands = [changed.get(term, self.numbers[1][term]) for term in node.operands]
        partner, becoming = None, {}
        for output, term in enumerate(node.outputs):
            found = self.numbering.find(self.candidate.lowered, node, operands, output)
            if found in self.wanted:
                becoming[term] = found
                partner = self.wanted[found]
            elif found in operands:
                becoming[term] = found
        return partner, becoming
