"""Exchanges of values of other shapes: what operators make of them is inferred anew.

A wrong axis, a padding or a token left out changes the shapes of all that follows, and with them
what operators are made of: the count that a mean divides by, the end of a slice. So where a value
of the reference takes the place of one of another shape, the operators that read it are lowered
again. If what they compute then is what the reference computes, the two values are where the
programs part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, count, islice
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpFormatError, ProgramError
from padiff.program import COMMUTATIVE, EXACT, LAYOUT, Slice, Value, ValueRef, lower

from .exchanged import Made, Start
from .exchanges import Exchange, Region
from .repair import Repair

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Hashable,
        Iterator,
        Mapping,
        Sequence,
    )

    from padiff.program import Argument, Lowered, Node, Operator, Program
    from padiff.program.primitives import Array

    from .exchanged import Asked
    from .executed import Runs, Sink
    from .numbering import Numbering
    from .side import Side

_ITSELF = -1
"""The number of what a node reads twice, as a square does, whatever it is."""
_MOST_FAULTS = 3
"""Faults that change shapes, of one model."""
_MOST_TRIALS = 40
"""Exchanges for which the program is lowered again, for each fault."""
_MOST_LOWERED = 40_000
"""Operators that are lowered in all these trials: some ten seconds. Larger programs are tried less
often."""
_MOST_REPAIRS = 4
"""Of those, exchanges from which the repair goes on."""
_MOST_SIZES = 3
"""Sizes that change in the arguments of one operator."""


class Reshaping:
    """Repairs that begin with exchanges of values of other shapes."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self._sides, self._numbering = asked, asked.sides, asked.numbering

    def find(
        self, before: Repair, agree: Callable[[Runs, Sink], bool], *, below: int | None
    ) -> Repair | None:
        """Return the repair that is smallest, None where none is found.

        Args:
            before: The repair without such exchanges.
            agree: Whether a result of two executed programs agrees.
            below: The size that all exchanges together have to stay below; None for any.
        """
        found = None
        draft = _Draft(self._sides[1].program, self._sides[1].lowered)
        for _ in range(_MOST_FAULTS):
            smaller = self._smaller(draft, before, agree, below)
            if smaller is None:
                break
            draft, found = smaller
            before, below = found, found.size
        return found

    def is_moved(self, repair: Repair) -> bool:
        """Return whether an exchange of other shapes is of a move that both sides make somewhere.

        Then one of them makes it earlier, which is another form and no fault by itself.
        """
        counts = [Counter(one.name for one in side.program.operators) for side in self._sides]
        for made in repair.start.made:
            nodes = [*self._nodes(made)]
            names = {
                self._sides[which].program.operators[one.operator].name for which, one in nodes
            }
            is_move = all(one.primitive in EXACT for _, one in nodes)
            if is_move and all(counts[0][name] == counts[1][name] for name in names):
                return True
        return False

    def _computed(self, repair: Repair) -> int:
        """Count the primitives of all exchanges that do more than move elements.

        What only moves them is there or not with the next view of the same value.
        """
        nodes = (node for made in repair.made for _, node in self._nodes(made))
        return sum(node.primitive not in LAYOUT for node in nodes)

    def _nodes(self, made: Made) -> Iterator[tuple[int, Node]]:
        """Yield what an exchange is made of, of the reference (0) and the candidate (1)."""
        reference = self._numbering.reference
        sides = (
            (self._sides[0].lowered, made.exchange.reference, reference, set(made.numbers)),
            (made.lowered, made.exchange.candidate, made.numbers, set(reference)),
        )
        for which, (lowered, term, numbers, others) in enumerate(sides):
            known = {one for one, number in enumerate(numbers) if number in others}
            for place in lowered.behind([term], known=known):
                yield which, lowered.nodes[place]

    def _smaller(
        self,
        draft: _Draft,
        before: Repair,
        agree: Callable[[Runs, Sink], bool],
        below: int | None,
    ) -> tuple[_Draft, Repair] | None:
        """Return a repair with one more of these exchanges, and the candidate that it begins with.

        Only a few are tried to the end: each executes the candidate.
        """
        sides, numbering, sinks = self._sides, self._numbering, self._asked.sinks
        drafts = _drafts(sides, numbering, draft, before.first, sinks, below)
        for other in islice(drafts, _MOST_REPAIRS):
            repair = Repair(self._asked, Start(other.lowered, other.made))
            try:
                is_proved = repair.run(agree)
            except (ProgramError, DumpFormatError):
                continue
            if is_proved and (
                below is None
                or (repair.size < below and self._computed(repair) < self._computed(before))
            ):
                return other, repair
        return None


@dataclass(frozen=True, slots=True)
class _Draft:
    """The candidate's program with leaves that hold values of the reference."""

    program: Program
    lowered: Lowered
    made: tuple[Made, ...] = ()
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of the values in whose place the leaves stand, by the leaves' ids."""
    results: Mapping[int, int] = field(default_factory=dict)
    """The results that became such a leaf."""


def _drafts(
    sides: tuple[Side, Side],
    numbering: Numbering,
    draft: _Draft,
    numbers: Sequence[int],
    sinks: Sequence[Sink],
    below: int | None,
) -> Iterator[_Draft]:
    """Yield the candidate with one exchange more, small ones first."""
    spent = sum(one.exchange.size for one in draft.made)
    reference = set(numbering.reference)
    exchanges = _exchanges(sides[0].lowered, draft.lowered, numbering, numbers, sinks)
    trials = min(_MOST_TRIALS, _MOST_LOWERED // max(len(draft.program.operators), 1))
    for exchange, readers in exchanges[:trials]:
        if below is not None and spent + exchange.size >= below:
            return
        made = Made(exchange, draft.lowered, numbers)
        shape = sides[0].lowered.specs[exchange.reference].shape
        other = _with_exchange(sides[1], draft, made, readers, shape, sinks)
        if other is None:
            continue
        start = Start(other.lowered, other.made)
        found = numbering.of_candidate(other.lowered, start.numbers(numbering))
        taken = numbering.reference[exchange.reference]
        if any(
            found[term] in reference and found[term] != taken
            for node in other.lowered.nodes
            if node.operator in readers and node.operands
            for term in node.outputs
        ):
            yield other


def _exchanges(
    reference: Lowered,
    candidate: Lowered,
    numbering: Numbering,
    numbers: Sequence[int],
    sinks: Sequence[Sink],
) -> list[tuple[Exchange, set[int]]]:
    """Find values of other shapes that are read alike.

    Returns:
        Exchanges, small ones first, each with the operators that read the reference's value then.
        Those of two leaves come last: most are weights of layers that have nothing in common.
    """
    results = [(reference.terms[one.reference], candidate.terms[one.candidate]) for one in sinks]
    known = Region(reference, numbering.reference, set(numbers), [one for one, _ in results])
    own = Region(candidate, numbers, set(numbering.reference), [two for _, two in results])
    values = set(reference.terms.values()), set(candidate.terms.values())
    by_reading: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    for reading, term, place in _readings(known, numbering.reference):
        if term in values[0]:
            by_reading[reading].append((term, place))
    readers: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for reading, term, place in _readings(own, numbers):
        if term not in values[1]:
            continue
        for other, partner in by_reading.get(reading, ()):
            readers[other, term].append((place, partner))
    found = []
    for (one, two), alike in readers.items():
        specs = reference.specs[one], candidate.specs[two]
        if specs[0].shape == specs[1].shape or specs[0].kind is not specs[1].kind:
            continue
        exchange = Exchange(
            reference=one,
            candidate=two,
            readers=tuple(alike),
            results=tuple(place for place, ends in enumerate(results) if ends == (one, two)),
            size=known.sizes[one] + own.sizes[two],
        )
        some = {candidate.nodes[place].operator for place, _ in alike}
        every = {candidate.nodes[place].operator for place in own.readers[two]}
        found += [(exchange, those) for those in ([every, some] if some != every else [every])]

    def rank(item: tuple[Exchange, set[int]]) -> tuple[bool, int, int, int]:
        one, two = item[0].reference, item[0].candidate
        are_leaves = one in reference.leaves and two in candidate.leaves
        return are_leaves, item[0].size, two, one

    return sorted(found, key=rank)


def _readings(region: Region, numbers: Sequence[int]) -> Iterator[tuple[Hashable, int, int]]:
    """Yield what reads each term: the primitive, the place and the other operands."""
    for place in region.nodes:
        node = region.lowered.nodes[place]
        for position, term in enumerate(node.operands):
            others = [_ITSELF if one == term else numbers[one] for one in node.operands]
            del others[position]
            if node.primitive in COMMUTATIVE:
                yield (node.primitive, tuple(sorted(others))), term, place
            else:
                yield (node.primitive, position, tuple(others)), term, place


def _with_exchange(
    candidate: Side,
    draft: _Draft,
    made: Made,
    readers: set[int],
    shape: tuple[int, ...],
    sinks: Sequence[Sink],
) -> _Draft | None:
    """Lower the candidate again with a leaf of another shape in the place of a value.

    Args:
        candidate: Its side.
        draft: Its program with earlier exchanges.
        made: The exchange.
        readers: The operators that read the leaf.
        shape: Of the leaf.
        sinks: The results.

    Returns:
        None where its operators cannot take that shape.
    """
    exchange = made.exchange
    id_ = -len(draft.made) - 1
    taken = values_of(draft.lowered, exchange.candidate)
    found = with_leaf(candidate, draft.program, draft.shapes, taken, readers, (id_, shape))
    if found is None:
        return None
    program, shapes, lowered = found
    results = dict(draft.results)
    if exchange.results:
        results |= dict.fromkeys(taken & {sink.candidate for sink in sinks}, id_)
    terms = {value: lowered.terms[other] for value, other in results.items()}
    lowered = replace(lowered, terms={**lowered.terms, **terms})
    return _Draft(program, lowered, (*draft.made, made), shapes, results)


def values_of(lowered: Lowered, term: int) -> set[int]:
    """Return the ids of the values that are a term."""
    return {value for value, other in lowered.terms.items() if other == term}


def with_leaf(
    side: Side,
    program: Program,
    shapes: Mapping[int, tuple[int, ...]],
    taken: set[int],
    readers: set[int],
    leaf: tuple[int, tuple[int, ...]],
) -> tuple[Program, dict[int, tuple[int, ...]], Lowered] | None:
    """Lower the program of a side again with a leaf in the place of a value.

    Args:
        side: Whose program.
        program: It, with earlier leaves.
        shapes: Of the values in whose place these stand, by their ids.
        taken: Ids of the value.
        readers: The operators that read the leaf.
        leaf: Its id and shape.

    Returns:
        The program, the shapes with that of the value, and what it is lowered to. None where its
        operators cannot take that shape.
    """
    id_, shape = leaf
    recorded = next(one for one in program.values if one.id in taken)

    def taking(part: Argument) -> Argument:
        return ValueRef(id_) if isinstance(part, ValueRef) and part.id in taken else part

    operators = tuple(
        _changed(one, taking) if one.id in readers else one for one in program.operators
    )
    value = Value(id=id_, dtype=recorded.dtype, shape=shape)
    program = replace(program, values=(*program.values, value), operators=operators)
    known = {**shapes, id_: recorded.shape}
    lowered = lowered_again(side, program, known)
    return None if lowered is None else (program, known, lowered)


def lowered_again(
    side: Side, program: Program, shapes: Mapping[int, tuple[int, ...]]
) -> Lowered | None:
    """Lower a program, where needed with other sizes in the arguments of operators."""

    def contents(value: int) -> Array | None:
        return None if value < 0 else side.recorded.elements(value)

    def adapted(operator: Operator, now: Mapping[int, tuple[int, ...]]) -> Operator:
        recorded = {
            value: shapes[value] if value < 0 else program.values[value].shape for value in now
        }
        return _adapted(operator, recorded, now)

    found = lower(program, side.table, contents=contents, repaired=shapes, adapted=adapted)
    return None if found.opaque.keys() - side.lowered.opaque.keys() else found


def _adapted(
    operator: Operator,
    recorded: Mapping[int, tuple[int, ...]],
    now: Mapping[int, tuple[int, ...]],
) -> Operator:
    """Return an operator that reshapes with the sizes that its operand has now.

    A size that stands for several axes is changed where the count of elements comes out.
    """
    numbers = [part for part in _parts(operator) if type(part) is int]
    for value, old in recorded.items():
        new = now[value]
        sizes = _sizes(old, new)
        places = [place for place, size in enumerate(numbers) if size in sizes]
        several = range(1, min(len(places), _MOST_SIZES) + 1)
        for chosen in chain.from_iterable(combinations(places, many) for many in several):
            factor = prod(sizes[numbers[place]] for place in chosen) * prod(old)
            if factor == prod(numbers[place] for place in chosen) * prod(new):
                return _with_sizes(operator, {place: sizes[numbers[place]] for place in chosen})
    return operator


def _sizes(old: tuple[int, ...], new: tuple[int, ...]) -> dict[int, int]:
    """Return the sizes of axes, alone and multiplied, with what they are now."""
    found: dict[int, int] = {}
    if len(old) == len(new):
        for start in range(len(old)):
            for stop in range(start + 1, len(old) + 1):
                before, after = prod(old[start:stop]), prod(new[start:stop])
                if before != after:
                    found.setdefault(before, after)
    return found


def _parts(operator: Operator) -> list[Argument]:
    """Return all parts of an operator's arguments, in order."""
    found: list[Argument] = []

    def seen(part: Argument) -> Argument:
        found.append(part)
        return part

    _changed(operator, seen)
    return found


def _with_sizes(operator: Operator, sizes: Mapping[int, int]) -> Operator:
    """Return an operator with some of the whole numbers in its arguments changed, by place."""
    places = count()

    def changed(part: Argument) -> Argument:
        return sizes.get(next(places), part) if type(part) is int else part

    return _changed(operator, changed)


def _changed(operator: Operator, change: Callable[[Argument], Argument]) -> Operator:
    """Return an operator with each part of its arguments changed."""

    def changed(part: Argument) -> Argument:
        if isinstance(part, tuple):
            return tuple(map(changed, part))
        if isinstance(part, Slice):
            return Slice(changed(part.start), changed(part.stop), changed(part.step))
        return change(part)

    return replace(
        operator,
        positional=tuple(map(changed, operator.positional)),
        keywords={name: changed(part) for name, part in operator.keywords.items()},
    )
