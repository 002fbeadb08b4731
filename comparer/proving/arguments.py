"""Tell exchanges inside one operator as another argument of it, if one does the same.

What a framework computes in one operator the other may compute in several, or from a table of
numbers: then no argument of the one is one of the other. So the candidate's operator is lowered and
executed alone with other arguments, one at a time: flags turned, and the numbers and words that the
reference's operators there are given. The argument with which it computes what the repaired
candidate holds there is the cause in words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpFormatError, ProgramError
from padiff.program import Program, Slice, execute, lower

from .executed import LIMITS, is_near
from .parting import place_of
from .result import Change, Edit, EditKind
from .slices import elements_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.program import Argument, Leaf, Operator
    from padiff.program.primitives import Array

    from .numbering import Numbering
    from .repair import Made
    from .repaired import Repaired
    from .side import Side

__all__ = ["told_by_arguments"]

_VAGUE = frozenset({EditKind.OTHER, EditKind.CONSTANT})
_MOST_SLICES = 8
"""In which arguments are looked for."""
_MOST_OPERATORS = 6
"""Of one slice."""
_MOST_ARGUMENTS = 100
"""That are tried in one operator."""
_MOST_AXES = 4
"""Of a tuple whose orders are tried."""


def told_by_arguments(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    numbering: Numbering,
    repaired: Repaired,
    edits: Sequence[Edit],
) -> list[tuple[Edit, tuple[int, ...]]]:
    """Return the edits of a proof with their exchanges, those of one operator in one if they can.

    Args:
        sides: The reference and the candidate.
        given: What their leaves hold.
        numbering: Of their terms.
        repaired: The candidate with all exchanges.
        edits: One for each exchange.
    """
    plain = [(edit, (place,)) for place, edit in enumerate(edits)]
    inside: dict[tuple[int, ...], list[int]] = {}
    for place, edit in enumerate(edits):
        if edit.kind in _VAGUE:
            operators = _operators_of(repaired.made[place], numbering)
            inside.setdefault(operators, []).append(place)
    found = []
    for operators, group in islice(inside.items(), _MOST_SLICES):
        if not 0 < len(operators) <= _MOST_OPERATORS:
            continue
        try:
            told = _Trial(sides, given, repaired, operators).edit(edits[group[0]])
        except (ProgramError, DumpFormatError):
            continue  # it cannot be executed within the limits: the exchanges stand
        if told is not None:
            found.append((told, tuple(group)))
    explained = {place for _, group in found for place in group}
    return sorted(
        [*found, *(one for one in plain if explained.isdisjoint(one[1]))], key=lambda one: one[1]
    )


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
        self,
        sides: tuple[Side, Side],
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        repaired: Repaired,
        ids: tuple[int, ...],
    ) -> None:
        self.sides, self.ids = sides, ids
        self.operators = [sides[1].program.operators[id_] for id_ in ids]
        inner = {value for one in self.operators for value in one.outputs}
        taken = {value for one in self.operators for value in one.taken} - inner
        wanted = set(self.operators[-1].outputs) - taken
        terms = {
            value: one.exchange.reference
            for one in repaired.made
            for value in taken | wanted
            if one.lowered.terms.get(value) == one.exchange.candidate
            and (value in wanted or self._reads(one))
        }
        """The reference's terms that these values became."""
        lowered, leaves = repaired.program()
        own = execute(lowered, leaves, (taken | wanted) - terms.keys(), limits=LIMITS)
        known = elements_of(sides[0].lowered, given[0], set(terms.values()))
        elements = {**own, **{value: known[term] for value, term in terms.items()}}
        self.taken: dict[int, Array] = {value: elements[value] for value in taken}
        self.wanted: dict[int, Array] = {value: elements[value] for value in wanted}

    def _reads(self, made: Made) -> bool:
        nodes = made.lowered.nodes
        return any(nodes[place].operator in self.ids for place, _ in made.exchange.readers)

    def edit(self, before: Edit) -> Edit | None:
        """Return an edit of one argument with which the last operator makes what it should.

        Args:
            before: What it is told as without; its reference's operators say what may be meant.
        """
        if any(one.in_place for one in self.operators) or self._makes(self.operators):
            return None
        table = self.sides[1].table
        for place, one in enumerate(self.operators):
            named = dict(table.named(one.name, one.positional, one.keywords))
            pool = _Pool(self.sides, before)
            for name, value in named.items():
                for other in islice(pool.others(name, value), _MOST_ARGUMENTS):
                    changed = [*self.operators]
                    changed[place] = replace(one, positional=(), keywords={**named, name: other})
                    if self._makes(changed):
                        return Edit(
                            kind=EditKind.ARGUMENT,
                            reference=before.reference,
                            candidate=place_of(self.sides[1], one.id, 1),
                            changes=(Change(name, other, value),),
                        )
        return None

    def _makes(self, operators: Sequence[Operator]) -> bool:
        """Lower and execute operators alone, and return whether the last makes what it should."""
        side = self.sides[1]
        values = side.program.values
        program = Program(
            framework=side.program.framework,
            values=(
                *(replace(values[id_], producer=None) for id_ in sorted(self.taken)),
                *(values[id_] for one in operators for id_ in one.outputs),
            ),
            operators=tuple(operators),
        )
        lowered = lower(program, side.table, contents=side.recorded.elements)
        if lowered.opaque or lowered.random:
            return False
        try:
            found = execute(lowered, self.taken, self.wanted, limits=LIMITS)
        except ProgramError:
            return False
        return all(is_near(found[value], array) for value, array in self.wanted.items())


@dataclass
class _Pool:
    """What an argument may be meant to be."""

    sides: tuple[Side, Side]
    edit: Edit

    def others(self, name: str, value: Argument) -> Iterator[Argument]:
        """Yield what may stand in the place of an argument, the likeliest first."""
        if isinstance(value, bool):
            yield not value
            return
        seen = {repr(value)}
        for other in self._of(name, value):
            if repr(other) not in seen:
                seen.add(repr(other))
                yield other

    def _of(self, name: str, value: Argument) -> Iterator[Argument]:
        if isinstance(value, str):
            yield from self._words(name)
        elif isinstance(value, int | float):
            yield from self._numbers(type(value))
        elif isinstance(value, Slice):
            for number in self._numbers(int):
                yield replace(value, start=number)
                yield replace(value, stop=number)
        elif isinstance(value, tuple):
            if len(value) <= _MOST_AXES:
                yield from permutations(value)
            for place, part in enumerate(value):
                others = [not part] if isinstance(part, bool) else self._of(name, part)
                for other in others:
                    yield (*value[:place], other, *value[place + 1 :])

    def _words(self, name: str) -> Iterator[str]:
        """Yield the words that the reference's operators there are given, and the candidate's."""
        yield from (one for one in self._known if isinstance(one, str))
        side = self.sides[1]
        for one in side.program.operators:
            value = dict(side.table.named(one.name, one.positional, one.keywords)).get(name)
            if isinstance(value, str):
                yield value

    def _numbers(self, kind: type) -> list[Argument]:
        return [one for one in self._known if type(one) is kind]

    @property
    def _known(self) -> list[Argument]:
        """The arguments of the reference's operators there, their parts one by one."""
        place, side = self.edit.reference, self.sides[0]
        found: list[Argument] = []
        for id_ in () if place is None else place.slice:
            one = side.program.operators[id_]
            for _, value in side.table.named(one.name, one.positional, one.keywords):
                found += _parts(value)
        return found


def _parts(argument: Argument) -> Iterator[Argument]:
    if isinstance(argument, tuple):
        for part in argument:
            yield from _parts(part)
    elif isinstance(argument, Slice):
        yield from (argument.start, argument.stop)
    else:
        yield argument
