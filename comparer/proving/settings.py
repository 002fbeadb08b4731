"""Settings of optimizers: those that they hold as tensors of few bits, and other rates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Content, Phase, Role, ValueRef
from padiff.program import TABLES, UNIT_ROUNDOFF

from .parting import place_of
from .result import RATE, Change, Edit, EditKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.pairing import Pairing
    from padiff.program import Leaf, Operator

    from .executed import Sink
    from .side import Side

_POWERS = {"beta1_pow": "beta1", "beta2_pow": "beta2"}
"""Arguments that hold the power of another one, which counts the updates."""
_RATE = "learning_rate"
_CLOSE = 1e-9
"""Rates, and what optimizers compute from them in float64."""
_ROUNDINGS = 4
"""Of a power, for each update: it was multiplied once and rounded once."""


def exact_settings(side: Side) -> dict[int, float]:
    """Return the settings that operators of an update take as tensors, before they were rounded.

    Paddle's optimizers hold the learning rate and the powers of their betas in float32. The rate is
    recorded in float64 as well; a power is that of a number which the operator takes beside it.

    Returns:
        By the value's id, of those that are the rounding of the number.
    """
    rates = list(_rates(side).values())
    found: dict[int, float] = {}
    for operator in side.program.operators:
        if operator.phase is Phase.UPDATE:
            named = _named(side, operator)
            for name, argument in named.items():
                if isinstance(argument, ValueRef) and (name == _RATE or name in _POWERS):
                    exact = _exact(side, argument.id, name, named, rates)
                    if exact is not None:
                        found[argument.id] = exact
    return found


def _named(side: Side, operator: Operator) -> dict[str, object]:
    """Return an operator's arguments by the names of its row; without one, only keywords."""
    table = TABLES[side.program.framework]
    row = table.names.get(operator.name)
    names = (
        [] if row is None else [one.partition("=")[0].strip() for one in row.signature.split(",")]
    )
    return {**dict(zip(names, operator.positional, strict=False)), **operator.keywords}


def _rates(side: Side) -> dict[int, float]:
    """Return the learning rates that were recorded, by record."""
    index, found = side.file.index, {}
    for place, record in enumerate(index.records):
        info = None if record.value is None else index.values[record.value]
        if record.role is Role.LR and info is not None and info.content is Content.FULL:
            found[place] = float(side.file.value_array(info).reshape(()))
    return found


def _exact(
    side: Side, value: int, name: str, named: dict[str, object], rates: list[float]
) -> float | None:
    if value not in side.lowered.leaves.values() or not side.recorded.has_elements(value):
        return None
    elements = side.recorded_leaf(value)()
    if not elements.size or np.any(elements != elements.flat[0]):  # NAdam has one for each element
        return None
    rounded = float(elements.flat[0])
    unit = UNIT_ROUNDOFF.get(side.program.values[value].dtype, 0.0)
    if name == _RATE:
        near = [rate for rate in rates if abs(rate - rounded) <= 2 * unit * abs(rate)]
        return near[0] if near else None
    beta = named.get(_POWERS[name])
    if not isinstance(beta, float) or not 0 < beta < 1 or not 0 < rounded < 1:
        return None
    count = round(math.log(rounded) / math.log(beta))
    exact = beta**count
    return exact if abs(exact - rounded) <= _ROUNDINGS * max(count, 1) * unit * exact else None


@dataclass(frozen=True, slots=True)
class Rates:
    """The learning rates of one step in which both sides differ: a proof may rest on them."""

    sides: tuple[Side, Side]
    pairs: tuple[tuple[float, float], ...]
    """Of the reference and the candidate, by group of weights."""

    @classmethod
    def read(cls, pairing: Pairing, sides: tuple[Side, Side]) -> Rates:
        """Read what both sides recorded."""
        known, found = map(_rates, sides)
        pairs = (
            (known[pair.reference[0]], found[pair.candidate])
            for pair in pairing.records
            if pair.candidate in found and pair.reference[0] in known
        )
        return cls(sides, tuple(pair for pair in pairs if not _is_close(*pair)))

    def repaired(
        self, given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]], sinks: Sequence[Sink]
    ) -> tuple[tuple[Mapping[int, Leaf], Mapping[int, Leaf]], Edit] | None:
        """Return the leaves of both programs with one rate on both sides, and that as an edit.

        None where no side holds its rate in a leaf.
        """
        for which, side in enumerate(self.sides):
            rates = {pair[which]: pair[1 - which] for pair in self.pairs}
            own = exact_settings(side)
            taken = {
                value: np.full(side.program.values[value].shape, rates[own[value]])
                for value in _rate_leaves(side) & own.keys()
                if own[value] in rates
            }
            if taken:
                other = {**given[which], **taken}
                changed = (other, given[1]) if which == 0 else (given[0], other)
                rate = next(own[value] for value in taken)
                pair = next(pair for pair in self.pairs if pair[which] == rate)
                return changed, self._edit(pair, sinks[0])
        return None

    def _edit(self, pair: tuple[float, float], sink: Sink) -> Edit:
        """Return an edit of a rate at what made a result of the update."""
        places = [
            None if maker is None else place_of(side, maker, 1)
            for side, maker in (
                (side, side.program.values[value].producer)
                for side, value in zip(self.sides, (sink.reference, sink.candidate), strict=True)
            )
        ]
        changes = (Change(RATE, *pair),)
        return Edit(
            kind=EditKind.ARGUMENT, reference=places[0], candidate=places[1], changes=changes
        )

    def named(self, edit: Edit) -> Edit:
        """Return an edit of a number that follows from the rate as one of the rate."""
        numbers = [(one.known, one.found) for one in edit.changes]
        for pair in self.pairs if len(numbers) == 1 else ():
            known, found = numbers[0]
            if isinstance(known, float) and isinstance(found, float):
                ways = (known, found), (1 - known, 1 - found)
                if any(_is_close(one * pair[1], two * pair[0]) for one, two in ways):
                    changes = (Change(RATE, *pair),)
                    return replace(edit, kind=EditKind.ARGUMENT, changes=changes)
        return edit


def is_of_rate(edit: Edit) -> bool:
    """Return whether an edit is of a learning rate."""
    return any(one.name == RATE for one in edit.changes)


def _rate_leaves(side: Side) -> set[int]:
    """Return the values that operators of an update take as their rate."""
    named = (_named(side, one) for one in side.program.operators if one.phase is Phase.UPDATE)
    rates = (one.get(_RATE) for one in named)
    return {one.id for one in rates if isinstance(one, ValueRef)}


def _is_close(one: float, two: float) -> bool:
    return math.isclose(one, two, rel_tol=_CLOSE)
