"""Tell exchanges inside some operators as another argument of one, if that does the same.

What a framework computes in one operator the other may compute in several, or from a table of
numbers: then no argument of the one is one of the other. So the candidate's operators are lowered
and executed alone with other arguments, one at a time: flags turned, operands in another order, and
the numbers and words that the reference's operators there are given. What one line of the source
runs several times changes alike. The argument with which they compute what the repaired candidate
holds there is the cause in words. So is a factor, where all is right but for one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations, islice, permutations
from math import isclose, prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from padiff.dumpfile import DumpFormatError, Phase, ProgramError
from padiff.program import LAYOUT, VOCABULARY, Node, Program, ValueRef, execute, lower

from .executed import LIMITS, is_near
from .parting import place_of
from .pool import MOST_AXES, Pool, is_value, parts_of, plain_word, settings_of
from .result import Change, Edit, EditKind, UsedOperator
from .slices import elements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.program import Argument, Lowered, Operator, Value
    from padiff.program.primitives import Array

    from .exchanged import Asked, Made
    from .numbering import Numbering
    from .repaired import Repaired
    from .result import Place
    from .side import Side

    _Exchanged: TypeAlias = tuple[Argument, Argument]
    """What an operator reads, and what it should."""

_VAGUE = frozenset({EditKind.OTHER, EditKind.CONSTANT})
_MOST_SLICES = 8
"""In which arguments are looked for."""
_MOST_OPERATORS = 200
"""Of one slice."""
_MOST_LOWERED = 30_000
"""Operators that are lowered in all trials of one slice: about two seconds."""
_MOST_ELEMENTS = 1 << 26
"""That are computed in all trials of one slice: a second or two."""
_MOST_ARGUMENTS = 100
"""That are tried in one operator."""


def told_by_arguments(
    asked: Asked, repaired: Repaired, edits: Sequence[Edit]
) -> list[tuple[Edit, tuple[int, ...]]]:
    """Return the edits of a proof with their exchanges, those of one operator in one if they can.

    Args:
        asked: What both programs are.
        repaired: The candidate with all exchanges.
        edits: One for each exchange.
    """
    plain = [(edit, (place,)) for place, edit in enumerate(edits)]
    together = _together(asked, repaired, edits)
    if together is not None:
        return [(together, (*range(len(edits)),))]
    ids = [_operators_of(made, asked.numbering) for made in repaired.made]
    first = _first_of(repaired.made)
    inside = {
        one: [place for place, other in enumerate(ids) if other and set(other) <= {*one}]
        for at, (one, edit) in enumerate(zip(ids, edits, strict=True))
        if edit.kind in _VAGUE and first[at] == at
    }
    found: list[tuple[Edit, tuple[int, ...]]] = []
    for operators, group in islice(inside.items(), _MOST_SLICES):
        is_told = any(place in told for _, told in found for place in group)
        if is_told or not 0 < len(operators) <= _MOST_OPERATORS:
            continue
        try:
            trial = _Trial(asked, repaired, operators)
            told = trial.edit([edits[place] for place in group])
        except (ProgramError, DumpFormatError):
            told = None  # it cannot be executed within the limits: the exchanges stand
        told = told or _whole([(edits[place], ids[place]) for place in group], operators)
        if told is not None:
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


def _together(asked: Asked, repaired: Repaired, edits: Sequence[Edit]) -> Edit | None:
    """Return one edit of all that lies ahead of the last exchange, if that does what all do.

    Two programs that write a step in two ways may share nothing on its way: then an exchange takes
    a form apart, another one puts the other form in its place, and one number is what is wrong.
    """
    forms = {repr((edit.kind, edit.changes, edit.operators)) for edit in edits}
    if len(forms) == 1 or all(edit.kind is EditKind.ARGUMENT for edit in edits):
        return None
    first, last = repaired.made[0], repaired.made[-1].exchange.candidate
    if last >= len(first.numbers):
        return None
    known = set(asked.numbering.reference)
    common = {term for term, number in enumerate(first.numbers) if number in known}
    lowered = asked.sides[1].lowered
    places = lowered.behind([last], known=common)
    ahead = {term for place in places for term in lowered.nodes[place].operands} | {last}
    ids = tuple(sorted({lowered.nodes[place].operator for place in places}))
    exchanges = [one.exchange for one in repaired.made[:-1]]
    readers = {place for one in exchanges for place, _ in one.readers}
    is_inside = readers <= {*places} and all(one.candidate in ahead for one in exchanges)
    if not is_inside or not 0 < len(ids) <= _MOST_OPERATORS:
        return None
    try:
        told = _Trial(asked, repaired, ids, is_all=True).edit(edits)
    except (ProgramError, DumpFormatError):
        return None
    return told and _as_given(told, Pool(asked.sides, edits), asked.sides[0])


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
    """Return the edit of all these operators if others are of nothing but their inside.

    Args:
        group: Edits, each with the candidate's operators that it is inside of.
        operators: All of these.
    """
    whole = next(edit for edit, ids in group if ids == operators and edit.kind in _VAGUE)
    slices = [set(one.reference.slice) if one.reference else set[int]() for one, _ in group]
    known = set(whole.reference.slice) if whole.reference else set[int]()
    return whole if len(group) > 1 and all(one <= known for one in slices) else None


def _operators_of(made: Made, numbering: Numbering) -> tuple[int, ...]:
    """Return the candidate's operators that an exchange is inside of, in their order."""
    known = set(numbering.reference)
    common = {term for term, number in enumerate(made.numbers) if number in known}
    lowered, term = made.lowered, made.exchange.candidate
    ids = {lowered.nodes[place].operator for place in lowered.behind([term], known=common)}
    if not ids:  # what both have is read, or a number: another one may be made there
        readers = {place for place, _ in made.exchange.readers}
        producer = lowered.producers.get(term)
        every = {place for place, node in enumerate(lowered.nodes) if term in node.operands}
        places = readers if producer is None or readers != every else {producer}
        ids = {lowered.nodes[place].operator for place in places}
    return tuple(sorted(ids))


class _Trial:
    """Some operators of the candidate, what they take, and what the last should make."""

    def __init__(
        self, asked: Asked, repaired: Repaired, ids: tuple[int, ...], *, is_all: bool = False
    ) -> None:
        """Look up what they take and what the last should make.

        Args:
            asked: What both programs are.
            repaired: The candidate with all exchanges.
            ids: The operators.
            is_all: Whether they take what the candidate has, whatever an exchange makes of it.
        """
        sides = asked.sides
        self.sides, self.ids = sides, _with_layouts(sides[1], ids, repaired)
        self.operators = [sides[1].program.operators[id_] for id_ in self.ids]
        self.numbers = asked.numbering.reference, repaired.made[0].numbers
        inner = {value for one in self.operators for value in one.outputs}
        taken = {value for one in self.operators for value in one.taken} - inner
        kept = taken.union(sides[1].lowered.leaves.values())  # what no rule makes is as recorded
        wanted = set(self.operators[-1].outputs) - kept
        terms = {
            value: one.exchange.reference
            for one in repaired.made
            for value in (wanted if is_all else taken | wanted)
            if one.lowered.computed(value) == one.exchange.candidate
            and (value in wanted or self._reads(one))
        }
        """The reference's terms that these values became."""
        lowered, leaves = repaired.program()
        own = execute(lowered, leaves, (taken | wanted) - terms.keys(), limits=LIMITS)
        known = elements_of(sides[0].lowered, asked.given[0], set(terms.values()))
        plain = sides[1].lowered
        laid = {value: _as_it_lies(plain, value, known[term]) for value, term in terms.items()}
        elements = {**own, **laid}
        self._plain: Mapping[int, Array] = {}
        """What the operators as they are make; empty until that is known."""
        self.taken: dict[int, Array] = {value: elements[value] for value in taken}
        self.wanted: dict[int, Array] = {value: elements[value] for value in wanted}

    def _reads(self, made: Made) -> bool:
        nodes = made.lowered.nodes
        return any(nodes[place].operator in self.ids for place, _ in made.exchange.readers)

    def edit(self, before: Sequence[Edit]) -> Edit | None:
        """Return an edit with which the last operator makes what it should.

        Args:
            before: What it is told as without; their reference's operators say what may be meant.
        """
        sizes = sum(prod(spec.shape) for spec in self._specs())
        if sizes > _MOST_ELEMENTS:
            return None
        self._plain = self._run(self.operators) or {}
        found = {value: self._plain[value] for value in self.wanted if value in self._plain}
        if len(found) < len(self.wanted) or self._is_wanted(found):
            return None
        if self.operators[-1].phase is Phase.UPDATE:  # one of what it leaves stands for all
            right = [value for value in self.wanted if is_near(found[value], self.wanted[value])]
            self.wanted = {value: self.wanted[value] for value in self.wanted if value not in right}
        most = min(_MOST_LOWERED // len(self.operators), _MOST_ELEMENTS // (1 + sizes))
        pool = Pool(self.sides, before)
        for changed, edit in islice(self._each(pool, before[0]), most):
            made = self._run(changed)
            if made is not None and self._is_wanted(made):
                return self._too_much(changed, edit, pool) or edit
        return self._factor(found, before[0])

    def _too_much(self, changed: Sequence[Operator], edit: Edit, pool: Pool) -> Edit | None:
        """Return that an operator is too much, if that does what another argument of it does.

        The reference has none of its name there: with that argument it hands on what it takes.
        """
        ones = [one for one, two in zip(self.operators, changed, strict=True) if one != two]
        if edit.kind is not EditKind.ARGUMENT or pool.has(ones[0]):
            return None
        without = self._without(ones)
        made = None if without is None else self._run(without)
        if made is None or not self._is_wanted(made):
            return None
        used = _used(self.sides[1], ones[0])
        return replace(edit, kind=EditKind.EXTRA, changes=(), operators=((), (used,)))

    def _without(self, ones: Sequence[Operator]) -> list[Operator] | None:
        """Return the operators where some hand on the first of their operands that fits."""
        values, lowered = self.sides[1].program.values, self.sides[1].lowered
        ids = {one.id for one in ones}
        nodes = [node for node in lowered.nodes if node.operator in ids]
        read = {term for node in nodes for term in node.operands}  # one like another reads nothing
        other = {
            one.outputs[0]: ValueRef(value)
            for one in ones
            for value in reversed(one.taken)
            if len(one.outputs) == 1
            and values[value].shape == values[one.outputs[0]].shape
            and lowered.terms[value] in read
        }
        is_open = len(other) < len(ones) or not self.wanted.keys().isdisjoint(other)
        return None if is_open else [_reading(one, other) for one in self.operators]

    def _replaced(self, pool: Pool, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators without those of one line, or with others in their place.

        An operator of the reference takes the place of one that takes as little.
        """
        sides = self.sides
        is_one = sides[0].file.framework == sides[1].file.framework
        others = [one for one in pool.operators() if is_one and len(one.taken) == 1]
        kinds = {(one.name, settings_of(one)): one for one in others}
        for places in self._lines():
            ones = [self.operators[place] for place in places]
            without = self._without(ones)
            if without is None:
                continue
            used = _used(sides[1], ones[0])
            edit = _edit(EditKind.EXTRA, (before.reference, place_of(sides[1], ones[0].id, 1)))
            yield without, replace(edit, operators=((), (used,)))
            for other in kinds.values() if len(ones[0].taken) == 1 else ():
                own = _used(sides[0], other), used
                ends = place_of(sides[0], other.id, 1), edit.candidate
                if own[0].name != own[1].name:
                    told = replace(_edit(EditKind.OTHER, ends), operators=((own[0],), (own[1],)))
                    yield self._as(other, places), told

    def _as(self, other: Operator, places: Sequence[int]) -> list[Operator]:
        """Return the operators, some of them as another one that takes as little."""
        changed = [*self.operators]
        for place in places:
            before = self.operators[place]
            one = replace(before, name=other.name, positional=other.positional)
            one = replace(one, keywords=other.keywords)
            changed[place] = _reading(one, {other.taken[0]: ValueRef(before.taken[0])})
        return changed

    def _specs(self) -> list[Value]:
        values = self.sides[1].program.values
        return [values[id_] for one in self.operators for id_ in one.outputs]

    def _each(self, pool: Pool, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with one change, and what it is told as."""
        table = self.sides[1].table
        for places in self._lines():
            one = self.operators[places[0]]
            end = before.reference, place_of(self.sides[1], one.id, 1)
            named = dict(table.named(one.name, one.positional, one.keywords))
            for name, value in named.items():
                for other in islice(pool.others(one, name, value), _MOST_ARGUMENTS):
                    edit = _edit(EditKind.ARGUMENT, end, (Change(name, other, value),))
                    yield self._changed(places, {name: (value, other)}), edit
            for exchanged in self._orders(named):
                yield self._changed(places, exchanged), _edit(EditKind.EXCHANGED, end)
        yield from self._replaced(pool, before)
        yield from self._exchanged(before)

    def _lines(self) -> list[list[int]]:
        """Return the places of the operators, those together that one line ran alike."""
        lines: dict[object, list[int]] = {}
        for place, one in enumerate(self.operators):
            key = place if one.site is None else (one.name, one.site, settings_of(one))
            lines.setdefault(key, []).append(place)
        return [*lines.values()]

    def _orders(self, named: Mapping[str, Argument]) -> Iterator[dict[str, _Exchanged]]:
        """Yield operands of an operator in another order, by name with those that it reads."""
        for name, value in named.items():
            parts = value if isinstance(value, tuple) else ()
            if len(parts) <= MOST_AXES and all(isinstance(one, ValueRef) for one in parts):
                for order in islice(permutations(parts), 1, None):
                    yield {name: (value, order)}
        values = self.sides[1].program.values
        for (one, first), (two, second) in combinations(named.items(), 2):
            ids = [part.id for part in (first, second) if isinstance(part, ValueRef)]
            if len(ids) > 1 and values[ids[0]].shape == values[ids[1]].shape:
                yield {one: (first, second), two: (second, first)}

    def _exchanged(self, before: Edit) -> Iterator[tuple[list[Operator], Edit]]:
        """Yield the operators with two of the values exchanged that they take."""
        side, values = self.sides[1], self.sides[1].program.values
        for one, two in combinations(sorted(self.taken), 2):
            if values[one].shape != values[two].shape or values[one].dtype != values[two].dtype:
                continue
            other = {one: ValueRef(two), two: ValueRef(one)}
            changed = [_reading(operator, other) for operator in self.operators]
            first = next(each for each in self.operators if one in each.taken)
            changes = Change("", self._partner(two), side.called(one))
            end = before.reference, place_of(side, first.id, 1)
            yield changed, _edit(EditKind.OPERAND, end, (changes,))

    def _partner(self, value: int) -> str:
        """Return what the reference calls the value that one of the candidate's is."""
        known, own = (side.lowered for side in self.sides)
        number = self.numbers[1][own.computed(value)]
        same = (one for one in known.terms if self.numbers[0][known.computed(one)] == number)
        return next(map(self.sides[0].called, same), self.sides[1].called(value))

    def _changed(
        self, places: Sequence[int], arguments: Mapping[str, _Exchanged]
    ) -> list[Operator]:
        """Return the operators, those of one line with other arguments where they have these.

        Values are other ones each time that a line runs: those of the first say which are meant.
        """
        changed = [*self.operators]
        table = self.sides[1].table
        first: dict[str, Argument] = {}
        for place in places:
            one = self.operators[place]
            named = dict(table.named(one.name, one.positional, one.keywords))
            first = first or named
            for name, (before, after) in arguments.items():
                if repr(named.get(name)) == repr(before):
                    named[name] = after
                elif is_value(before) and named.keys() == first.keys():
                    named[name] = _moved(first, named, after)
            changed[place] = replace(one, positional=(), keywords=named)
        return changed

    def _factor(self, found: Mapping[int, Array], before: Edit) -> Edit | None:
        """Return an edit of a factor that the reference has and the candidate lacks.

        It is one if all that should be made is that many times what is made.
        """
        factors = [_ratio(array, found[value]) for value, array in self.wanted.items()]
        place, side = before.reference, self.sides[0]
        if None in factors or len(set(factors)) != 1 or place is None:
            return None
        (factor,) = {one for one in factors if one is not None}
        for id_ in place.slice:
            one = side.program.operators[id_]
            numbers = [
                value
                for _, value in side.table.named(one.name, one.positional, one.keywords)
                if isinstance(value, int | float) and value
            ]
            if any(isclose(factor, way, rel_tol=1e-7) for x in numbers for way in (x, 1 / x)):
                used = UsedOperator(one.name, tuple(numbers), side.recorded.module_of(one)[0])
                end = place_of(side, id_, 1), before.candidate
                return replace(_edit(EditKind.MISSING, end), operators=((used,), ()))
        return None

    def _is_wanted(self, found: Mapping[int, Array]) -> bool:
        return all(is_near(found[value], array) for value, array in self.wanted.items())

    def _run(self, operators: Sequence[Operator]) -> Mapping[int, Array] | None:
        """Lower and execute those of the operators alone that make something else than before.

        Returns:
            What the last makes; of the operators as they are what each makes.
        """
        side, values = self.sides[1], self.sides[1].program.values
        run: list[Operator] = []
        made: set[int] = set()
        for one, before in zip(operators, self.operators, strict=True):
            if not self._plain or one != before or not made.isdisjoint(one.taken):
                run.append(one)
                made.update(one.outputs)
        held = {**self.taken, **self._plain}
        known = {value: held[value] for one in run for value in one.taken if value not in made}
        program = Program(
            framework=side.program.framework,
            values=(
                *(replace(values[id_], producer=None) for id_ in sorted(known)),
                *(values[id_] for one in run for id_ in one.outputs),
            ),
            operators=tuple(run),
        )
        lowered = lower(program, side.table, contents=side.recorded.elements)
        if lowered.opaque or lowered.random:
            return None
        inner = () if self._plain else (value for one in run for value in one.taken)
        wanted = made & {*self.wanted, *inner}
        try:
            return {**self._plain, **execute(lowered, known, wanted, limits=LIMITS)}
        except ProgramError:
            return None


def _as_it_lies(lowered: Lowered, value: int, array: Array) -> Array:
    """Return the elements of a value, given those of the term that it was computed as."""
    base, moves = lowered.computed(value), list[Node]()
    term = lowered.terms[value]
    while term != base:
        moves.append(lowered.nodes[lowered.producers[term]])
        term = moves[-1].operands[0]
    for node in reversed(moves):
        array = VOCABULARY[node.primitive].run(array, **dict(node.attributes))
    return array


def _with_layouts(side: Side, ids: Iterable[int], repaired: Repaired) -> list[int]:
    """Return operators, and those ahead of them that lay something out which they take."""
    primitives: dict[int, set[str]] = defaultdict(set)
    for node in side.lowered.nodes:
        primitives[node.operator].add(node.primitive)
    exchanged = {one.exchange.candidate for one in repaired.made}
    found = {*ids}
    open_ = [*found]
    while open_:
        for value in side.program.operators[open_.pop()].taken:
            maker = side.program.values[value].producer
            if maker is None or maker in found or side.lowered.computed(value) in exchanged:
                continue
            if primitives[maker] and primitives[maker] <= LAYOUT:
                found.add(maker)
                open_.append(maker)
    return sorted(found)


def _edit(
    kind: EditKind, ends: tuple[Place | None, Place | None], changes: tuple[Change, ...] = ()
) -> Edit:
    return Edit(kind=kind, reference=ends[0], candidate=ends[1], changes=changes)


def _used(side: Side, one: Operator) -> UsedOperator:
    """Return an operator with its arguments that are no values."""
    named = side.table.distinct(one.name, one.positional, one.keywords)
    settings = tuple(value for _, value in named if not any(map(is_value, parts_of(value))))
    return UsedOperator(one.name, settings, side.recorded.module_of(one)[0])


def _reading(operator: Operator, other: Mapping[int, ValueRef]) -> Operator:
    """Return an operator that reads other values."""

    def read(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(map(read, argument))
        return other.get(argument.id, argument) if isinstance(argument, ValueRef) else argument

    keywords = {name: read(value) for name, value in operator.keywords.items()}
    return replace(operator, positional=tuple(map(read, operator.positional)), keywords=keywords)


def _moved(
    first: Mapping[str, Argument], named: Mapping[str, Argument], after: Argument
) -> Argument:
    """Return what a line reads in the place of something when it runs again.

    Args:
        first: What it reads the first time, by name.
        named: What it reads that time.
        after: What it should read the first time.
    """
    if isinstance(after, tuple):
        return tuple(_moved(first, named, one) for one in after)
    for before, now in zip(_values(first), _values(named), strict=False):
        if repr(before) == repr(after):
            return now
    return after


def _ratio(known: Array, found: Array) -> float | None:
    """Return the factor from what is made to what should be; None if it is not one for all."""
    place = int(np.argmax(np.abs(found))) if found.size else 0
    if known.shape != found.shape or not found.size or not found.flat[place]:
        return None
    with np.errstate(all="ignore"):  # elements of a mask may be infinite
        factor = float(np.real(known.flat[place] / found.flat[place]))
        return factor if is_near(found * factor, known) else None


def _values(named: Mapping[str, Argument]) -> list[Argument]:
    return [part for value in named.values() for part in parts_of(value)]
