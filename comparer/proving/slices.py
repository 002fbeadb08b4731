"""Look for a smaller exchange inside a slice, on the elements around it.

Exchanges are found by expressions. Where both programs write a slice in different forms, the
smallest one is the whole slice, though one operand in it may be all that is wrong. So the slice
alone is executed again with one smaller exchange at a time. What gives the reference's elements
then stands for the whole.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ProgramError
from padiff.program import EXACT, execute

from .exchanges import Exchange, Region, Search
from .executed import COUNTING, is_near

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Leaf, Lowered, Node
    from padiff.program.primitives import Array


_LEAST = 3
"""Primitives of an exchange in which a smaller one is looked for."""
_MOST_BEHIND = 8
"""Primitives behind an exchange that are executed with its slice."""
_MOST_TRIALS = 400
_MOST_ELEMENTS = 1 << 26
"""That are computed in all trials of one exchange: a second or two."""


def find_smaller(
    search: Search,
    leaves: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    exchange: Exchange,
    results: Collection[int],
    told: tuple[int, int] | None = None,
) -> Exchange | None:
    """Return a smaller exchange after which the slice computes the same as with a given one.

    What counts is what is computed from the slice: numbers of masks that a softmax turns into zero
    are others there without an effect.

    Args:
        search: In which the exchange was found.
        leaves: What the leaves of both programs hold.
        exchange: Its slice is looked into.
        results: The candidate's terms that are results.
        told: The numbers of both ends of the smaller one; None to try all.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    programs = search.reference.lowered, search.candidate.lowered
    numbers = search.numbers
    wanted, given = exchange.reference, exchange.candidate
    known = Region(programs[0], numbers[0], set(numbers[1]), [wanted])
    own = Region(programs[1], numbers[1], set(numbers[0]), [given])
    places = _with_parts(own, results)
    behind, ends = search.behind(exchange, _MOST_BEHIND)
    part = _part(programs[1], sorted({*places, *behind}), ends)
    cost = 1 + sum(part.specs[term].count for term in part.producers)
    most = min(_MOST_TRIALS, _MOST_ELEMENTS // cost)
    if told is not None:
        found = _as_told(own, search.numbers, told)
    elif exchange.size < _LEAST or not (known.sizes[wanted] and own.sizes[given]):
        return None
    elif len(known.operators) == len(own.operators) == 1:
        return None  # one operator in the place of another is as small as words can tell
    else:
        inside = Search(programs, search.numbering, numbers[1], [(wanted, given)])
        parts = _of_parts(known, own, places, numbers)
        found = chain(parts, inside.each(exchange.size - 1))
    trials = [one for one in islice(found, most) if one.candidate != given]
    if not trials:
        return None
    return _first_that_gives(part, leaves, programs, trials, ends)


def _first_that_gives(
    part: Lowered,
    leaves: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    programs: tuple[Lowered, Lowered],
    trials: Sequence[Exchange],
    ends: Mapping[int, int],
) -> Exchange | None:
    """Return the first exchange with which a slice computes terms of the reference."""
    terms = {*ends.values(), *(one.reference for one in trials)}
    known = elements_of(programs[0], leaves[0], terms)
    around = elements_of(programs[1], leaves[1], {*part.leaves, *part.producers})
    wanted = {own: known[one] for own, one in ends.items()}
    for one in trials:
        read = {programs[1].nodes[place].outputs for place, _ in one.readers}
        readers = {place for place, node in enumerate(part.nodes) if node.outputs in read}
        if _gives(part, {**around, len(part.specs): known[one.reference]}, one, readers, wanted):
            return one
    return None


def _as_told(
    own: Region, numbers: tuple[Sequence[int], Sequence[int]], told: tuple[int, int]
) -> Iterator[Exchange]:
    """Yield exchanges in a slice of what was exchanged in another one."""
    known = numbers[0].index(told[0])
    for term, size in own.sizes.items():
        if numbers[1][term] == told[1]:
            readers = tuple((place, None) for place in own.readers[term])
            yield Exchange(reference=known, candidate=term, readers=readers, results=(), size=size)


def _with_parts(own: Region, results: Collection[int]) -> list[int]:
    """Return the nodes of a slice, and those that take parts of values for the slice alone."""
    lowered = own.lowered
    readers: dict[int, set[int]] = defaultdict(set)
    for place, node in enumerate(lowered.nodes):
        for term in node.operands:
            readers[term].add(place)
    found = set(own.nodes)
    open_ = [term for term in own.readers if term in own.common]
    while open_:
        maker = lowered.producers.get(open_.pop())
        if maker is None or lowered.nodes[maker].primitive not in EXACT:
            continue
        made = lowered.nodes[maker].outputs
        if all(readers[term] <= found and term not in results for term in made):
            found.add(maker)
            open_ += lowered.nodes[maker].operands
    return sorted(found)


def _part(lowered: Lowered, places: Sequence[int], wanted: Iterable[int]) -> Lowered:
    """Return some nodes of a program as a program whose values are its terms."""
    nodes = tuple(lowered.nodes[place] for place in places)
    made = {term: place for place, node in enumerate(nodes) for term in node.outputs}
    taken = {term for node in nodes for term in node.operands}.difference(made)
    return replace(
        lowered,
        nodes=nodes,
        producers=made,
        terms={term: term for term in (*taken, *wanted)},
        leaves={term: term for term in taken},
    ).like(lowered)


def _of_parts(
    known: Region, own: Region, places: Sequence[int], numbers: tuple[Sequence[int], Sequence[int]]
) -> Iterator[Exchange]:
    """Yield exchanges of what the candidate's slice takes for what the reference's takes parts of.

    One side may take a value whole and the other slices of it: where that is the wrong value, the
    right one is none that its own slice takes.
    """
    reference = known.lowered
    whole = dict.fromkeys(term for term in known.readers if term in known.common)
    open_ = [*whole]
    while open_ and len(whole) < _MOST_TRIALS:
        place = reference.producers.get(open_.pop())
        if place is not None and reference.nodes[place].primitive in EXACT:
            new = [term for term in reference.nodes[place].operands if term not in whole]
            whole |= dict.fromkeys(new)
            open_ += new
    readers: dict[int, list[int]] = defaultdict(list)
    for place in places:
        for term in set(own.lowered.nodes[place].operands) & own.common:
            readers[term].append(place)
    for term, those in readers.items():
        for one in whole:
            is_alike = reference.specs[one] == own.lowered.specs[term]
            if is_alike and numbers[0][one] != numbers[1][term]:
                partner = next(iter(known.readers.get(one, ())), None)
                read = tuple((place, partner) for place in those)
                yield Exchange(reference=one, candidate=term, readers=read, results=(), size=0)


def _gives(
    part: Lowered,
    around: Mapping[int, Array],
    exchange: Exchange,
    readers: Collection[int],
    wanted: Mapping[int, Array],
) -> bool:
    """Execute what reads an exchange in a slice; return whether the slice makes what is wanted."""
    leaf = len(part.specs)
    changed: set[int] = set()
    nodes: list[Node] = []
    for place, node in enumerate(part.nodes):
        if place in readers:
            taken = (leaf if term == exchange.candidate else term for term in node.operands)
            nodes.append(replace(node, operands=tuple(taken)))
        elif not changed.isdisjoint(node.operands):
            nodes.append(node)
        else:
            continue
        changed.update(node.outputs)
    if not all(is_near(around[term], wanted[term]) for term in wanted.keys() - changed):
        return False  # what differs there is not computed from the exchange
    known = {term: array for term, array in around.items() if term not in changed}
    other = replace(
        part,
        nodes=tuple(nodes),
        specs=(*part.specs, part.specs[exchange.candidate]),
        terms={term: term for term in (*around, *wanted)},
        producers={term: place for place, node in enumerate(nodes) for term in node.outputs},
    ).like(part)
    ends = [*wanted]
    for some in (ends[:1], ends[1:]):  # most exchanges are seen to fail by the first
        try:
            found = execute(other, known, some, limits=COUNTING)
        except ProgramError:
            return False  # an operator takes other elements, such as an index, than it can
        if not all(is_near(found[term], wanted[term]) for term in some):
            return False
    return True


def elements_of(
    lowered: Lowered, leaves: Mapping[int, Leaf], terms: Collection[int]
) -> dict[int, Array]:
    """Execute what is behind some terms of a program, and return what these hold, by term.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    first = max(lowered.terms, default=0) + 1
    ids = dict(enumerate(sorted(terms), start=first))
    named = replace(lowered, terms={**lowered.terms, **ids})
    found = execute(named, leaves, ids, limits=COUNTING)
    return {ids[id_]: np.asarray(array) for id_, array in found.items()}
