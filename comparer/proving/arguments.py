"""Tell exchanges as another argument of one operator, or as another way to read, where one does.

What a framework computes in one operator the other may compute in several, or from a table of
numbers: then no argument of the one is one of the other. So operators of the candidate are tried
with other arguments (``trial.py``): those that an exchange is inside of, those in front of what all
exchanges of a layer make right, and those that read on where the reference's operators only make up
for them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpFormatError, Phase, ProgramError

from .parting import place_of
from .pool import Pool, plain_word
from .result import Edit, EditKind
from .trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .exchanged import Asked, Made
    from .numbering import Numbering
    from .repaired import Repaired
    from .side import Side


_VAGUE = frozenset({EditKind.OTHER, EditKind.CONSTANT})
_READ_OTHERWISE = frozenset({EditKind.ARGUMENT, EditKind.OPERAND, EditKind.OTHER})
_MOST_SLICES = 8
"""In which arguments are looked for."""
_MOST_OPERATORS = 1000
"""Of one slice."""


def told_by_arguments(
    asked: Asked, repaired: Repaired, edits: Sequence[Edit]
) -> list[tuple[Edit, tuple[int, ...]]]:
    """Return the edits of a proof with their exchanges, one for all of an operator if possible."""
    plain = [(edit, (place,)) for place, edit in enumerate(edits)]
    rounds = _rounds(edits)
    tried = [_together(asked, repaired, edits, those) for those in rounds[:_MOST_SLICES]]
    whole = [one for one in tried if one is not None]
    if len(whole) == len(rounds):
        return [(edit, (*those,)) for edit, those in zip(whole, rounds, strict=True)]
    ids = [
        _operators_of(made, asked.numbering, edit)
        for made, edit in zip(repaired.made, edits, strict=True)
    ]
    first = _first_of(repaired.made)
    inside = {
        one: [place for place, other in enumerate(ids) if other and set(other) <= {*one}]
        for at, (one, edit) in enumerate(zip(ids, edits, strict=True))
        if first[at] == at and (edit.kind in _VAGUE or len(edit.changes) > 1)
    }
    found = [*_hidden(asked, repaired, edits)]
    for operators, group in islice(inside.items(), _MOST_SLICES):
        is_told = any(place in told for _, told in found for place in group)
        if is_told or not operators:
            continue
        those = [edits[place] for place in group]
        told = _tried(asked, repaired, operators, those)
        if told is None and len(group) == 1 and those[0].kind in _VAGUE:
            made = repaired.made[group[0]]
            told = _tried(asked, repaired, _with_reader(operators, made), those, made)
            told = told if told is not None and told.kind in _READ_OTHERWISE else None
        told = told or _whole([(edits[place], ids[place]) for place in group], operators)
        if told is not None:
            told = _sliced(told, those[0])
            again = [
                at
                for at, one in enumerate(first)
                if one in group and at not in group and edits[at] == edits[one]
            ]
            told = replace(told, times=told.times + len(again))
            found.append((told, tuple(sorted([*group, *again]))))
    explained = {place for _, group in found for place in group}
    return sorted(
        [*found, *(one for one in plain if explained.isdisjoint(one[1]))], key=lambda one: one[1]
    )


def _tried(
    asked: Asked,
    repaired: Repaired,
    operators: tuple[int, ...],
    edits: Sequence[Edit],
    begun: Made | None = None,
) -> Edit | None:
    """Return what operators should be called with instead, as ``Trial`` takes them, if that does.

    Args:
        asked: What both programs are.
        repaired: The candidate with all exchanges.
        operators: Their ids; none are tried where there are too many.
        edits: What it is told as without.
        begun: The first exchange of those that they are tried in the place of, or None.
    """
    if not 0 < len(operators) <= _MOST_OPERATORS:
        return None
    try:
        return Trial(asked, repaired, operators, begun).edit(edits)
    except (ProgramError, DumpFormatError):
        return None  # it cannot be executed within the limits: the exchanges stand


def _sliced(told: Edit, before: Edit) -> Edit:
    """Return an edit whose places show the slices of the one that it is told in the place of."""
    known, found = (
        one if one is None or two is None or one.slice else replace(one, slice=two.slice)
        for one, two in ((told.reference, before.reference), (told.candidate, before.candidate))
    )
    return replace(told, reference=known, candidate=found)


def _with_reader(operators: tuple[int, ...], made: Made) -> tuple[int, ...]:
    """Return operators with the one that alone reads what they make; none where several do.

    A product of two values does not tell in which order the axis lies that it sums up.
    """
    readers = {made.lowered.nodes[place].operator for place, _ in made.exchange.readers}
    one = next(iter(readers), None)
    is_alone = len(readers) == 1 and not made.exchange.results
    return (*operators, one) if is_alone and one is not None else ()


def _hidden(
    asked: Asked, repaired: Repaired, edits: Sequence[Edit]
) -> Iterator[tuple[Edit, tuple[int, ...]]]:
    """Yield arguments that do what operators do which seem to be missing, with their exchanges.

    Ahead of a mask of too few elements the reference's whole mask makes up for it.
    """
    for place, (made, edit) in enumerate(zip(repaired.made, edits, strict=True)):
        ids = _reading_otherwise(made, asked.numbering) if edit.kind is EditKind.MISSING else ()
        told = _tried(asked, repaired, ids, [edit], made)
        if told is not None and told.kind is EditKind.ARGUMENT:
            yield _as_given(told, Pool(asked.sides, [edit]), asked.sides[0]), (place,)


def _reading_otherwise(made: Made, numbering: Numbering) -> tuple[int, ...]:
    """Return the operators that an exchanged value goes into, and those that they alone take.

    There are none where what reads it is an expression of the reference then, or several read it:
    one alone would show what the others need.
    """
    known, lowered = set(numbering.reference), made.lowered
    number = numbering.reference[made.exchange.reference]
    common = {term for term, one in enumerate(made.numbers) if one in known}
    read = [lowered.nodes[place] for place, _ in made.exchange.readers]
    if made.exchange.results or len({node.operator for node in read}) != 1:
        return ()
    for node in read:
        operands = [
            number if term == made.exchange.candidate else made.numbers[term]
            for term in node.operands
        ]
        outputs = range(len(node.outputs))
        if any(numbering.find(lowered, node, operands, output) in known for output in outputs):
            return ()
    places = lowered.behind([term for node in read for term in node.outputs], known=common)
    return tuple(sorted({lowered.nodes[place].operator for place in places}))


def _rounds(edits: Sequence[Edit]) -> list[range]:
    """Return the places of edits that one layer after another has, for each layer; or of all."""
    lines = [
        tuple(place and (place.operator, place.site) for place in (edit.reference, edit.candidate))
        for edit in edits
    ]
    count = next((at for at, one in enumerate(lines) if at and one == lines[0]), len(lines))
    if lines != lines[:count] * (len(lines) // count):
        return [range(len(lines))]
    return [range(begin, begin + count) for begin in range(0, len(lines), count)]


def _together(asked: Asked, repaired: Repaired, every: Sequence[Edit], group: range) -> Edit | None:
    """Return one edit of all that lies ahead of the last exchange, if that does what all do.

    Two programs that write a step in two ways may share nothing on its way: then an exchange takes
    a form apart, another one puts the other form in its place, and one number is what is wrong.
    """
    edits, those = every[group.start : group.stop], repaired.made[group.start : group.stop]
    forms = {repr((edit.kind, edit.changes, edit.operators)) for edit in edits}
    if len(forms) == 1 or all(edit.kind is EditKind.ARGUMENT for edit in edits):
        return None
    first, last = those[0], those[-1].exchange.candidate
    if last >= len(first.numbers):
        return None
    known = set(asked.numbering.reference)
    lowered = asked.sides[1].lowered
    values = map(lowered.computed, lowered.terms)  # what operators do inside is changed as a whole
    common = {term for term in values if term >= 0 and first.numbers[term] in known}
    ends = _outcomes(asked.sides[1], last)
    places = lowered.behind(ends, known=common)
    ahead = {term for place in places for term in lowered.nodes[place].operands}.union(ends)
    ids = tuple(sorted({lowered.nodes[place].operator for place in places}))
    exchanges = [one.exchange for one in those]
    inside = exchanges if last not in ends else exchanges[:-1]
    readers = {place for one in inside for place, _ in one.readers}
    is_inside = readers <= {*places} and all(one.candidate in ahead for one in exchanges)
    told = _tried(asked, repaired, ids, edits, first) if is_inside else None
    return told and _as_given(told, Pool(asked.sides, edits), asked.sides[0])


def _outcomes(side: Side, term: int) -> list[int]:
    """Return the term, or what the operator gives that it is inside of, if it updates no weight.

    Of an update one of several outcomes says little: an optimizer with an epsilon elsewhere has
    none where it does not matter.
    """
    place = side.lowered.producers.get(term)
    if place is None:
        return [term]
    operator = side.program.operators[side.lowered.nodes[place].operator]
    made = [side.lowered.computed(value) for value in operator.outputs]
    return [term] if term in made or operator.phase is Phase.UPDATE else made


def _as_given(edit: Edit, pool: Pool, side: Side) -> Edit:
    """Return an edit of an argument at the operator of the reference that is given it, if any."""
    known = {repr(change.known) for change in edit.changes}
    word = None if edit.candidate is None else plain_word(edit.candidate.operator)
    given = (
        one.id
        for one in pool.operators()
        for _, value in side.table.named(one.name, one.positional, one.keywords)
        if plain_word(one.name) == word and repr(value) in known
    )
    place = next(given, None)
    return edit if place is None else replace(edit, reference=place_of(side, place, 1))


def _first_of(made: Iterable[Made]) -> list[int]:
    """Return the place of the exchange that each is in another run of its lines, or its own."""
    found: list[int] = []
    for place, one in enumerate(made):
        found.append(found[-1] if one.exchange.is_again and found else place)
    return found


def _whole(
    group: Sequence[tuple[Edit, tuple[int, ...]]], operators: tuple[int, ...]
) -> Edit | None:
    """Return the edit of all these operators if others are of nothing but their inside."""
    vague = (edit for edit, ids in group if ids == operators and edit.kind in _VAGUE)
    whole = next(vague, None)
    if whole is None:
        return None
    slices = [set(one.reference.slice) if one.reference else set[int]() for one, _ in group]
    known = set(whole.reference.slice) if whole.reference else set[int]()
    return whole if len(group) > 1 and all(one <= known for one in slices) else None


def _operators_of(made: Made, numbering: Numbering, edit: Edit) -> tuple[int, ...]:
    """Return the candidate's operators that an exchange is inside of, in their order."""
    known = set(numbering.reference)
    common = {term for term, number in enumerate(made.numbers) if number in known}
    lowered, term = made.lowered, made.exchange.candidate
    ids = {lowered.nodes[place].operator for place in lowered.behind([term], known=common)}
    is_first = edit.kind is EditKind.OTHER and not made.exchange.is_again
    if not ids and is_first and edit.candidate is not None:
        ids = {*edit.candidate.slice}
    if not ids:  # what both have is read, or a number: another one may be made there
        readers = {place for place, _ in made.exchange.readers}
        producer = lowered.producers.get(term)
        every = {place for place, node in enumerate(lowered.nodes) if term in node.operands}
        places = readers if producer is None or readers != every else {producer}
        ids = {lowered.nodes[place].operator for place in places}
    return tuple(sorted(ids))
