"""Which differences rounding hides: how far float32's own errors move results that differ.

Both programs are executed again with random errors in every primitive, as large as those of the
dtype that each operator ran in, but never of a dtype coarser than float32: what float32 shows is
a fault in bfloat16, too. How far that moves an element of either side is the unit that differences
of that element are measured in.

``Agreement`` says how closely results have to agree: as float64 does, or as records do.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, ProgramError
from padiff.program import UNIT_ROUNDOFF, KnownErrors, Rounding

from .executed import ROUNDINGS, root_mean_square
from .result import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.program import Operator
    from padiff.program.primitives import Array

    from .executed import Runs, Sink
    from .leaves import Leaves
    from .side import Side


FINEST = UNIT_ROUNDOFF["float32"]
"""Coarser dtypes count as this one."""
_RUNS = (1, 3, 6)
"""Executions of both sides: one where half of the elements are clearly off, six where three leave
it open."""
_DOUBT = 8.0
"""Three executions leave open what is up to this many times more than rounding: of 100 000 elements
two get a unit that is as much too small from them, of six squares, and none from six, of twelve."""
_EXCESS = 3.0
"""They leave open, too, what is as little less than rounding: where one side makes all errors, one
element of 170 000 gets a unit that is as much too large, of three squares."""


def units_of(side: Side) -> dict[int, float]:
    """Return the unit roundoff of each operator of a side by its id: float32's or a finer one."""
    values = side.program.values

    def unit(operator: Operator) -> float:
        made = (UNIT_ROUNDOFF.get(values[one].dtype, 0.0) for one in operator.outputs)
        return min(max(made, default=0.0), FINEST)

    return {one.id: unit(one) for one in side.program.operators}


class Errors:
    """The errors that both sides make: random ones in each primitive."""

    def __init__(self, sides: tuple[Side, Side]) -> None:
        """Look which dtype each operator ran in."""
        self.sides = sides
        self.units = units_of(sides[0]), units_of(sides[1])
        self.known = KnownErrors(), KnownErrors()

    def rounding(self, which: int, seed: int) -> Rounding:
        """Return the errors of one execution of the reference (0) or the candidate (1).

        Those of the two sides are independent, so that each execution of both gives two squares.
        """
        return Rounding(self.units[which], seed=2 * seed + which, known=self.known[which])

    @property
    def growth(self) -> float:
        """By how much the smallest of them are larger than 2**-53."""
        units = (one for units in self.units for one in units.values() if one)
        return min(units, default=0.0) / UNIT_ROUNDOFF["float64"]

    def unit_of(self, sink: Sink, known: Array) -> Array:
        """Return what differences are relative to: the reference's elements."""
        del sink
        return np.abs(known)

    def written(self, sink: Sink) -> float:
        """Return what writing a result rounds, relative to it."""
        ends = zip(self.sides, (sink.reference, sink.candidate), strict=True)
        dtypes = [side.program.values[value].dtype for side, value in ends]
        return min(max(UNIT_ROUNDOFF.get(one, 0.0) for one in dtypes), FINEST)


class Rounded:
    """Executions of both programs with the errors of their dtypes, made when they are needed."""

    def __init__(self, runs: Runs, errors: Errors, sinks: Sequence[Sink]) -> None:
        """Begin with none."""
        self._runs, self._errors, self._sinks = runs, errors, sinks
        self._made = 0
        self._squares: dict[Sink, list[Array]] = {}
        """Of each result the sums of the squares of its moves, of the reference and the candidate;
        the results themselves are not kept: those of an update are as large as the model."""

    def first(self, sink: Sink) -> tuple[Array, float]:
        """Return how far the first errors moved each element, and how large they were.

        They are asked for only if they are larger than those of float64; a program that cannot be
        executed with them is moved without end.
        """
        growth = self._errors.growth
        try:
            if growth > 1 and not self._made:
                self._run()
        except (ProgramError, DumpFormatError):
            pass
        if not self._made:
            return np.full((), np.inf), 1.0
        return np.sqrt(np.fmax(*self._squares[sink]) / self._made), growth

    def effect(self, sink: Sink) -> Effect | None:
        """Measure a difference in units of what rounding does to each element.

        Returns:
            None where the shapes differ, or the programs cannot be executed with errors.
        """
        found = self._runs.differences(sink)
        if found is None:
            return None
        effect = None
        try:
            for runs in _RUNS:
                while self._made < runs:
                    self._run()
                effect, is_clear = self._effect(sink, *found)
                if is_clear:
                    break
        except (ProgramError, DumpFormatError):
            return None
        return effect

    def _run(self) -> None:
        """Execute both programs once more."""
        seed = self._made + 1
        known, found = (
            self._runs.execute(which, self._errors.rounding(which, seed), self._sinks)
            for which in (0, 1)
        )
        self._made = seed  # not where that failed: the next result would find no moves
        for sink in self._sinks:
            if self._runs.differences(sink) is None:
                continue
            pairs = zip(self._runs.pair(sink), self._runs.pair(sink, known, found), strict=True)
            with np.errstate(all="ignore"):
                moves = [np.abs(after - before) ** 2 for before, after in pairs]
            moves = [np.where(np.isfinite(one), one, 0.0) for one in moves]
            before = self._squares.get(sink)
            if before is not None:
                moves = [one + more for one, more in zip(before, moves, strict=True)]
            self._squares[sink] = moves

    def _effect(self, sink: Sink, off: Array, known: Array) -> tuple[Effect, bool]:
        """Return the effect, and whether more executions would not change the answer."""
        with np.errstate(all="ignore"):
            unit = self._errors.unit_of(sink, known)
            one, two = (np.sqrt(squares / self._made) for squares in self._squares[sink])
            rounding = np.maximum(one + two, self._errors.written(sink) * unit)
            ratio = np.where(off == 0, 0.0, off / rounding)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        size, most = root_mean_square(unit) or 1.0, int(np.argmax(off))
        effect = Effect(
            difference=float(off.flat[most]) / size,
            rounding=float(rounding.flat[most]) / size,
            share=float(np.max(ratio)),
        )
        if self._made == 1:
            return effect, bool(np.median(ratio) > _DOUBT)
        return effect, not 1 / _EXCESS <= effect.share <= _DOUBT


def largest_effect(effects: Iterable[Effect | None]) -> Effect | None:
    """Return the effect that rounding hides least; None if one could not be measured."""
    found: Effect | None = None
    for one in effects:
        if one is None:
            return None
        if found is None or one.share > found.share:
            found = one
    return found


class Agreement:
    """Measures results of two programs, and of repairs of the second one."""

    def __init__(
        self, sides: tuple[Side, Side], leaves: Leaves, sinks: Sequence[Sink], runs: Runs
    ) -> None:
        """See which results rest on values that one side alone recorded.

        They are as coarse as what made these, whatever their own dtype.
        """
        self._runs, self._sinks = runs, sinks
        rests = [
            (
                side,
                side.lowered.ahead(side.lowered.terms[value] for value in lone),
                side.coarsest_before(lone),
            )
            for side, lone in zip(sides, leaves.lone, strict=True)
        ]

        def unit(sink: Sink) -> float | None:
            ends = zip(rests, (sink.reference, sink.candidate), strict=True)
            units = [
                max(UNIT_ROUNDOFF.get(side.program.values[value].dtype, 0.0), coarsest)
                for (side, terms, coarsest), value in ends
                if side.lowered.terms[value] in terms
            ]
            return max(units, default=None)

        self._units = {sink: unit(sink) for sink in sinks}
        self.exact = [sink for sink in sinks if self._units[sink] is None]
        """Results that have to agree as float64 does."""
        self.largest = max(map(runs.error, sinks), default=None)
        """The largest error of all results."""
        self._rounded = Rounded(runs, Errors(sides), self.exact)
        self._size = cache(self._measured)

    def agree(self, runs: Runs, sink: Sink) -> bool:
        """Measure what repairs leave by what the candidate was measured by: that is quick."""
        unit = self._units[sink]
        return runs.agree(sink) if unit is None else runs.agree_within(sink, unit, self._size(sink))

    def rounding(self, sinks: Sequence[Sink]) -> float:
        """Return within how much of their size results agree: zero if one has to in float64."""
        units = [self._units[sink] or 0.0 for sink in sinks]
        return ROUNDINGS * min(units, default=0.0)

    def differing(self) -> list[Sink]:
        """Return the results that differ."""
        first, runs = self._rounded.first, self._runs
        return [
            sink
            for sink in self._sinks
            if not (
                self.agree(runs, sink)
                if self._units[sink] is not None
                else runs.agree(sink, partial(first, sink))
            )
        ]

    def effect(self, sinks: Sequence[Sink]) -> Effect | None:
        """Return the effect of what differs that rounding hides least."""
        is_exact = self.exact.__contains__
        return largest_effect(self._rounded.effect(one) if is_exact(one) else None for one in sinks)

    def _measured(self, sink: Sink) -> float | None:
        found = self._runs.differences(sink)
        return None if found is None else self._runs.scale(sink, *found)
