"""How closely results of two executed programs have to agree: as float64 does, or as records do."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from padiff.program import UNIT_ROUNDOFF

from .hidden import Errors, Rounded, largest_effect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .executed import Runs, Sink
    from .leaves import Leaves
    from .result import Effect
    from .side import Side

__all__ = ["Agreement"]


class Agreement:
    """Measures results of two programs, and of repairs of the second one."""

    def __init__(
        self, sides: tuple[Side, Side], leaves: Leaves, sinks: Sequence[Sink], runs: Runs
    ) -> None:
        """See which results rest on values that one side alone recorded.

        They are as coarse as what made these, whatever their own dtype.

        Args:
            sides: The reference and the candidate.
            leaves: Of both.
            sinks: The results.
            runs: Both programs, executed.
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
