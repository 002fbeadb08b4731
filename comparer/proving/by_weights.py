"""Arguments of operators that read the same weights: whether these alone are what is wrong.

Where a stride is wrong in each stage of a network, on its way and beside it, no exchange of one
value makes anything right: what is added has other shapes. So all operators that read a weight of
the reference are given the reference's arguments at once, and the candidate is lowered again. So is
it with one argument that was told among others.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from padiff.dumpfile import LeafKind, Phase, ProgramError

from .exchanged import Exchanged, Start
from .parting import place_of
from .pool import is_value, plain_argument, plain_word
from .reshaped import lowered_again
from .result import Change, Edit, EditKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from padiff.program import Argument, Leaf, Lowered, Operator

    from .exchanged import Asked
    from .executed import Runs, Sink
    from .side import Side

_MOST_CHANGES = 8
"""Different ones, each of which is left out once to see whether it is needed."""
_WEIGHTS = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER})
_Made: TypeAlias = tuple[Change, tuple[tuple[int, int], ...]]
"""A change with the operators that have it, of the reference and the candidate."""


@dataclass(frozen=True, slots=True)
class Regiven:
    """The candidate with the arguments of the reference: that has no other fault."""

    asked: Asked
    made: tuple[_Made, ...]

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Return each change as an edit, at the first operator that has it."""
        known, own = self.asked.sides
        return tuple(
            Edit(
                kind=EditKind.ARGUMENT,
                reference=replace(place_of(known, pairs[0][0], 1), slice=pairs[0][:1]),
                candidate=replace(place_of(own, pairs[0][1], 1), slice=pairs[0][1:]),
                changes=(change,),
                times=len(pairs),
            )
            for change, pairs in self.made
        )

    def program(self, faulty: Collection[int] = ()) -> tuple[Lowered, dict[int, Leaf]]:
        """Return the candidate's program and what its leaves hold.

        Args:
            faulty: Which changes are not made, as places among them.

        Raises:
            ProgramError: The operators cannot be lowered with the other changes alone.
        """
        made = [one for place, one in enumerate(self.made) if place not in faulty]
        lowered = _lowered(self.asked.sides[1], made)
        if lowered is None:
            raise ProgramError("cannot leave one of several arguments open: it changes shapes")
        return lowered, dict(self.asked.given[1])

    def operators(self, group: Collection[int]) -> set[int]:
        """Return the candidate's operators that have some changes."""
        return {own for place in group for _, own in self.made[place][1]}


def find_arguments(asked: Asked, agree: Callable[[Runs, Sink], bool]) -> Regiven | None:
    """Return the candidate with the reference's arguments, if all results agree then.

    Args:
        asked: Two programs whose results differ.
        agree: Whether a result of two executed programs agrees.
    """
    found: dict[str, tuple[Change, list[tuple[int, int]]]] = {}
    for change, pair in _differing(asked):
        found.setdefault(repr(change), (change, []))[1].append(pair)
    every = [(change, tuple(pairs)) for change, pairs in found.values()]
    if not 0 < len(every) <= _MOST_CHANGES:
        return None
    tries = [every, *_but_one(every)]  # what two frameworks mean by a momentum is not the same
    made = next((some for some in tries if _are_all(asked, some, agree)), None)
    smaller = made
    while smaller:
        made = smaller
        smaller = next((some for some in _but_one(made) if _are_all(asked, some, agree)), None)
    return None if made is None else Regiven(asked, tuple(made))


def find_alone(
    asked: Asked, edits: Sequence[Edit], agree: Callable[[Runs, Sink], bool]
) -> Regiven | None:
    """Return the candidate with one of several edits, an argument, if all results agree then.

    Where both sides write what reads a value in two forms, exchanges may put right what reads it in
    one of them alone.
    """
    own = asked.sides[1]
    for edit in edits:
        place = edit.candidate
        if edit.kind is not EditKind.ARGUMENT or len(edit.changes) > 1 or place is None:
            continue
        (change,) = edit.changes
        pairs = [
            (edit.reference.slice[0] if edit.reference and edit.reference.slice else 0, one.id)
            for one in own.program.operators
            if (one.name, one.site) == (place.operator, place.site)
            and repr(_named(own, one).get(change.name)) == repr(change.found)
        ]
        if pairs and _are_all(asked, [(change, tuple(pairs))], agree):
            return Regiven(asked, ((change, tuple(pairs)),))
    return None


def _but_one(made: Sequence[_Made]) -> list[list[_Made]]:
    """Return all changes but one, for each."""
    return [[other for other in made if other is not one] for one in made]


def _are_all(asked: Asked, made: Sequence[_Made], agree: Callable[[Runs, Sink], bool]) -> bool:
    """Return whether all results agree with some changes."""
    lowered = _lowered(asked.sides[1], made) if made else None
    if lowered is None:
        return False
    other = Exchanged(asked, Start(lowered))
    try:
        return not other.differing(lowered, other.numbers()) or other.agrees(agree)
    except ProgramError:
        return False


def _lowered(candidate: Side, made: Sequence[_Made]) -> Lowered | None:
    """Lower the candidate with other arguments; None where its operators cannot be given them."""
    program = candidate.program
    operators = [*program.operators]
    for change, pairs in made:
        for _, own in pairs:
            named = _named(candidate, operators[own])
            keywords = {**named, change.name: change.known}
            operators[own] = replace(operators[own], positional=(), keywords=keywords)
    changed = [own for _, pairs in made for _, own in pairs]
    shapes = {
        value: program.values[value].shape for own in changed for value in operators[own].taken
    }
    return lowered_again(candidate, replace(program, operators=tuple(operators)), shapes)


def _differing(asked: Asked) -> Iterator[tuple[Change, tuple[int, int]]]:
    """Yield arguments of operators that read the same weights, where they differ."""
    sides, numbers = asked.sides, asked.numbering.both
    known, found = (_by_weights(side, own) for side, own in zip(sides, numbers, strict=True))
    pairs = {
        (one.id, two.id): (one, two)
        for key, those in found.items()
        if len(known.get(key, ())) == len(those)
        for one, two in zip(known[key], those, strict=True)
    }
    for ids, both in pairs.items():
        named = [_named(side, each) for side, each in zip(sides, both, strict=True)]
        given = {plain_argument(name): value for name, value in named[0].items()}
        for name, other in named[1].items():
            value = given.get(plain_argument(name), other)
            is_alike = type(value) is type(other) and not is_value(value)
            if is_alike and repr(other) != repr(value):
                yield Change(name, value, other), ids


def _by_weights(side: Side, numbers: Sequence[int]) -> dict[object, list[Operator]]:
    """Return operators by their name and the number of each weight that they read."""
    found: dict[object, list[Operator]] = defaultdict(list)
    lowered, values = side.lowered, side.program.values
    for one in side.program.operators:
        weights = {
            numbers[lowered.terms[value]] for value in one.taken if values[value].kind in _WEIGHTS
        }
        for weight in weights if one.phase is not Phase.UPDATE else ():
            found[plain_word(one.name), weight].append(one)
    return found


def _named(side: Side, operator: Operator) -> dict[str, Argument]:
    return dict(side.table.named(operator.name, operator.positional, operator.keywords))
