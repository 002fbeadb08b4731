"""What an argument of an operator may be meant to be."""

from __future__ import annotations

from collections.abc import Mapping, ValuesView
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations
from typing import TYPE_CHECKING

from padiff.program import Slice, ValueRef

from .result import UsedOperator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.program import Argument, Operator

    from .result import Edit
    from .side import Side

MOST_AXES = 4
"""Of a tuple whose orders are all tried; of longer ones two parts are exchanged."""


@dataclass
class Pool:
    """What may stand in the place of an argument, from the reference's operators there."""

    sides: tuple[Side, Side]
    edits: Sequence[Edit]

    def others(self, operator: Operator, name: str, value: Argument) -> Iterator[Argument]:
        """Yield what may stand in the place of an argument, the likeliest first."""
        if isinstance(value, bool):
            yield not value
        if isinstance(value, bool) or is_value(value) or name in _OF_STORAGE:
            return
        seen = {repr(value)}
        for other in self._of(operator, name, value):
            if repr(other) not in seen:
                seen.add(repr(other))
                yield other

    def _of(self, operator: Operator, name: str, value: Argument) -> Iterator[Argument]:
        if isinstance(value, str):
            yield from self._words(operator, name)
        elif value is None:
            yield from (one for one in self._known(operator, name) if one is not None)
        elif isinstance(value, int | float):
            yield from self._numbers(operator, name, value)
        elif isinstance(value, Slice):
            for number in self._numbers(operator, name, 0):
                yield replace(value, start=number)
                yield replace(value, stop=number)
        elif isinstance(value, tuple):
            yield from permutations(value) if len(value) <= MOST_AXES else _swapped(value)
            for place, part in enumerate(value):
                others = [not part] if isinstance(part, bool) else self._of(operator, name, part)
                for other in others:
                    yield (*value[:place], other, *value[place + 1 :])

    def _words(self, operator: Operator, name: str) -> Iterator[str]:
        """Yield the words that the reference's operators there are given, and the candidate's."""
        yield from (one for one in self._known(operator, name) if isinstance(one, str))
        side = self.sides[1]
        for one in side.program.operators:
            value = dict(side.table.named(one.name, one.positional, one.keywords)).get(name)
            if isinstance(value, str):
                yield value

    def _numbers(self, operator: Operator, name: str, value: float) -> Iterator[float]:
        """Yield the numbers that the reference's operators there are given, as they are first.

        One may divide by what the other multiplies by, and a share may be what is left of one.
        """
        given = [*self._known(operator, name), *self._inside]
        known = [one for one in given if isinstance(one, int | float) and type(one) is not bool]
        yield from (one for one in known if type(one) is type(value))
        if type(value) is float or name in _FACTORS:
            yield from (one for one in known if type(one) is not type(value))
            yield from (1 / one for one in known if one)
            yield from (1 - one for one in known)

    @cached_property
    def _inside(self) -> list[float]:
        """The numbers that the reference's operators there compute with, as the scale of one."""
        lowered, ids = self.sides[0].lowered, {one.id for one in self.operators()}
        places = (
            lowered.producers.get(term)
            for node in lowered.nodes
            if node.operator in ids
            for term in node.operands
        )
        makers = (lowered.nodes[place] for place in places if place is not None)
        values = (dict(one.attributes)["value"] for one in makers if one.primitive == "full")
        return [*dict.fromkeys(one for one in values if type(one) is float)]

    def has(self, operator: Operator) -> bool:
        """Return whether the reference has an operator of the name of one there."""
        return any(plain_word(one.name) == plain_word(operator.name) for one in self.operators())

    def operators(self) -> list[Operator]:
        """Return the reference's operators there."""
        ids = {id_ for one in self.edits if one.reference for id_ in one.reference.slice}
        return [self.sides[0].program.operators[id_] for id_ in sorted(ids)]

    def _known(self, operator: Operator, name: str) -> list[Argument]:
        """Return the arguments of the reference's operators there, their parts one by one.

        Those of an operator of that name come first, and arguments of that name before others.
        """
        side = self.sides[0]
        found: list[tuple[bool, bool, Argument]] = []
        for one in self.operators():
            is_other = plain_word(one.name) != plain_word(operator.name)
            for given, value in side.table.named(one.name, one.positional, one.keywords):
                is_renamed = plain_argument(given) != plain_argument(name)
                found += [(is_other, is_renamed, part) for part in parts_of(value)]
        return [part for _, _, part in sorted(found, key=lambda one: one[:2])]


_ALIKE = {
    "axes": "dim", "axis": "dim", "dilations": "dilation", "epsilon": "eps",
    "paddings": "padding", "strides": "stride",
}  # fmt: skip
"""Names of arguments that are one."""
_OF_STORAGE = frozenset({"device", "dtype", "layout", "memory_format", "place"})
"""Arguments that say how elements are kept, whatever they are."""
_FACTORS = frozenset({"y", "other"})
"""Of what a number is added, multiplied or divided by: whole ones may be any."""


def _swapped(value: tuple[Argument, ...]) -> Iterator[Argument]:
    """Yield a tuple with two of its parts exchanged."""
    for one, two in combinations(range(len(value)), 2):
        parts = [*value]
        parts[one], parts[two] = parts[two], parts[one]
        yield tuple(parts)


def plain_argument(name: str) -> str:
    """Return the name of an argument that other frameworks may call otherwise."""
    return _ALIKE.get(name, name)


def plain_word(name: str) -> str:
    """Return the last word of an operator's name."""
    return name.rpartition(".")[2].strip("_")


def parts_of(argument: Argument) -> Iterator[Argument]:
    """Yield the parts of an argument that are not made of others."""
    if isinstance(argument, tuple):
        for part in argument:
            yield from parts_of(part)
    elif isinstance(argument, Mapping):
        for part in argument.values():
            yield from parts_of(part)
    elif isinstance(argument, Slice):
        yield from (argument.start, argument.stop)
    else:
        yield argument


def is_value(argument: Argument) -> bool:
    """Return whether an argument is a value of the program, or holds one."""
    inner = argument.values() if isinstance(argument, Mapping) else argument
    return isinstance(argument, ValueRef) or (
        isinstance(inner, tuple | ValuesView) and any(map(is_value, inner))
    )


def used_of(side: Side, operator: Operator) -> UsedOperator:
    """Return an operator with its arguments that are no values."""
    named = side.table.distinct(operator.name, operator.positional, operator.keywords)
    settings = tuple(value for _, value in named if not any(map(is_value, parts_of(value))))
    return UsedOperator(operator.name, settings, side.recorded.module_of(operator)[0])


def settings_of(operator: Operator) -> str:
    """Return all that an operator was called with beside values, as text to compare."""
    given = (*operator.positional, *operator.keywords.items())
    return repr([one for one in given if not is_value(one)])
