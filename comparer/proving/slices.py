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
from .executed import LIMITS, is_near

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from padiff.program import Leaf, Lowered
    from padiff.program.primitives import Array

    from .numbering import Numbering

__all__ = ["elements_of", "find_smaller"]

_LEAST = 3
"""Primitives of an exchange in which a smaller one is looked for."""
_MOST_TRIALS = 400
_MOST_ELEMENTS = 1 << 26
"""That are computed in all trials of one exchange: a second or two."""


def find_smaller(
    programs: tuple[Lowered, Lowered],
    leaves: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    numbering: Numbering,
    numbers: Sequence[int],
    exchange: Exchange,
    results: Collection[int],
) -> Exchange | None:
    """Return a smaller exchange after which the slice computes the same as with a given one.

    Args:
        programs: The reference's, and the candidate's as it is.
        leaves: What their leaves hold.
        numbering: Of both.
        numbers: Those of the candidate's terms.
        exchange: Its slice is looked into.
        results: The candidate's terms that are results.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    wanted, given = exchange.reference, exchange.candidate
    known = Region(programs[0], numbering.reference, set(numbers), [wanted])
    own = Region(programs[1], numbers, set(numbering.reference), [given])
    if exchange.size < _LEAST or not (known.sizes[wanted] and own.sizes[given]):
        return None
    if len(known.operators) == len(own.operators) == 1:
        return None  # one operator in the place of another is as small as words can tell
    places = _with_parts(own, results)
    part = _part(programs[1], places, given)
    found = chain(
        _of_parts(known, own, places, (numbering.reference, numbers)),
        Search(programs, numbering, numbers, [(wanted, given)]).each(exchange.size - 1),
    )
    cost = 1 + sum(part.specs[term].count for term in part.producers)
    trials = [
        one
        for one in islice(found, min(_MOST_TRIALS, _MOST_ELEMENTS // cost))
        if one.candidate != given
    ]
    if not trials:
        return None
    return _first_that_gives(part, leaves, programs, trials, wanted)


def _first_that_gives(
    part: Lowered,
    leaves: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    programs: tuple[Lowered, Lowered],
    trials: Sequence[Exchange],
    wanted: int,
) -> Exchange | None:
    """Return the first exchange with which a slice computes a term of the reference.

    Args:
        part: The slice of the candidate.
        leaves: What the leaves of both programs hold.
        programs: The reference's and the candidate's.
        trials: What to exchange.
        wanted: The reference's term.
    """
    terms = {wanted, *(one.reference for one in trials)}
    known = elements_of(programs[0], leaves[0], terms)
    around = elements_of(programs[1], leaves[1], part.leaves)
    for one in trials:
        read = {programs[1].nodes[place].outputs for place, _ in one.readers}
        readers = {place for place, node in enumerate(part.nodes) if node.outputs in read}
        if _gives(part, around, one, readers, (known[one.reference], known[wanted])):
            return one
    return None


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


def _part(lowered: Lowered, places: Sequence[int], wanted: int) -> Lowered:
    """Return some nodes of a program as a program whose values are its terms."""
    nodes = tuple(lowered.nodes[place] for place in places)
    made = {term: place for place, node in enumerate(nodes) for term in node.outputs}
    taken = {term for node in nodes for term in node.operands}.difference(made)
    return replace(
        lowered,
        nodes=nodes,
        producers=made,
        terms={term: term for term in (*taken, wanted)},
        leaves={term: term for term in taken},
    )


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
    elements: tuple[Array, Array],
) -> bool:
    """Execute a slice with an exchange, and return whether it computes what is wanted.

    Args:
        part: The slice.
        around: The elements that it takes.
        exchange: What is exchanged in it.
        readers: The positions of the nodes that read it.
        elements: What they read then, and what is wanted.
    """
    leaf = len(part.specs)
    nodes = tuple(
        replace(
            node,
            operands=tuple(leaf if term == exchange.candidate else term for term in node.operands),
        )
        if place in readers
        else node
        for place, node in enumerate(part.nodes)
    )
    other = replace(
        part,
        nodes=nodes,
        specs=(*part.specs, part.specs[exchange.candidate]),
        terms={**part.terms, leaf: leaf},
        leaves={**part.leaves, leaf: leaf},
    )
    (result,) = set(part.terms) - set(part.leaves)
    try:
        found = execute(other, {**around, leaf: elements[0]}, [result], limits=LIMITS)
    except ProgramError:
        return False  # an operator takes other elements, such as an index, than it can
    return is_near(found[result], elements[1])


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
    found = execute(named, leaves, ids, limits=LIMITS)
    return {ids[id_]: np.asarray(array) for id_, array in found.items()}
