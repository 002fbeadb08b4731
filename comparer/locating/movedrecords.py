"""Which diverged records inside the model hold the same elements in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.judging.basis import Basis
from padiff.comparer.judging.bystatistics import disagreement
from padiff.comparer.judging.metrics import kind_of_dtype
from padiff.comparer.judging.sums import Sums
from padiff.comparer.judging.tolerance import TolerancePolicy
from padiff.comparer.judging.unordered import hold_the_same
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Content, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.judging.judge import Judgement
    from padiff.comparer.result import Tolerance
    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.pairing import Side

__all__ = ["MOST_ELEMENTS", "MovedRecords"]

MOST_ELEMENTS = 1 << 23
"""Larger tensors are not sorted: copies of both sides take 64 MiB in float32."""
LEAST_MOVED = 1e-3
"""Relative error, in L2, below which elements are off and not at other places: one of a million
that is at another differs by about its own size."""
MOST_WORK = 1 << 26
"""Elements that are sorted for a whole step; what is left then stays as it is."""
_FORWARD = (Role.INPUT, Role.OUTPUT)
_BACKWARD = (Role.GRAD_OUTPUT, Role.GRAD_INPUT)
_BAD = frozenset({Verdict.DIVERGED, Verdict.INCOMPARABLE})


class MovedRecords:
    """Finds the diverged pairs inside the model that hold the same elements in another order."""

    def __init__(
        self, judgement: Judgement, sides: tuple[Side, Side], settings: CompareSettings
    ) -> None:
        """Look at nothing yet.

        Args:
            judgement: All verdicts.
            sides: Reference and candidate.
            settings: When a difference counts.
        """
        self._judgement = judgement
        self._sides = sides
        self._policy = TolerancePolicy(atol=settings.atol, rtol=settings.rtol, rules=settings.rules)
        self._known: dict[object, bool] = {}
        self._left = MOST_WORK

    def places(self, phase: Phase) -> frozenset[int]:
        """Give their places among the pairs."""
        return frozenset(
            place
            for place, pair in remarkable(self._judgement.pairs)
            if pair.verdict in _BAD and self._may_be(pair, phase) and self._is_moved(place, pair)
        )

    def _may_be(self, pair: JudgedPair, phase: Phase) -> bool:
        """Tell whether it is of a call inside the model, and judged by its elements or shape."""
        end, other = pair.reference, pair.candidate
        if end is None or other is None or end.call is None or pair.is_partial:
            return False
        roles = _FORWARD if phase is Phase.FORWARD else _BACKWARD
        if end.address.role not in roles or end.address.phase is not phase:
            return False
        if pair.metrics is not None and (pair.metrics.relative_l2 or 0.0) < LEAST_MOVED:
            return False
        return self._sides[0].index.calls[end.call].parent is not None

    def _is_moved(self, place: int, pair: JudgedPair) -> bool:
        known, found = self._judgement.records[place]
        if found is None:
            return False
        references = [self._sides[0].index.records[one] for one in known]
        record = self._sides[1].index.records[found]
        key = tuple(one.value for one in references), record.value
        if key not in self._known:
            self._known[key] = self._hold_the_same(pair, references, record)
        return self._known[key]

    def _hold_the_same(
        self, pair: JudgedPair, references: Sequence[RecordInfo], record: RecordInfo
    ) -> bool:
        values = [self._sides[0].index.values[one.value] for one in references
                  if one.value is not None]  # fmt: skip
        if record.value is None or len(values) < len(references):
            return False
        found = self._sides[1].index.values[record.value]
        if any(one.content is not Content.FULL for one in (*values, found)):
            return False
        size = sum(one.size for one in values)
        if max(size, found.size) > min(MOST_ELEMENTS, self._left):
            return False
        tolerance = pair.tolerance or self._default(pair, found)
        is_one = len(values) == 1 and values[0].size == found.size
        if is_one and disagreement(values[0].statistics, found.statistics, tolerance, size=size):
            return False
        self._left -= size + found.size
        arrays = [self._sides[0].array(one) for one in references]
        other = self._sides[1].array(record)
        kinds = {kind_of_dtype(one.dtype) for one in (*arrays, other)}
        return len(kinds) == 1 and hold_the_same(arrays, other, tolerance)

    def _default(self, pair: JudgedPair, found: ValueInfo) -> Tolerance:
        """Give the tolerance of a pair that was not measured, as the shapes differ."""
        assert pair.reference is not None
        assert pair.candidate is not None
        known = found.statistics
        largest = max(abs(known.minimum or 0.0), abs(known.maximum or 0.0))
        is_gradient = pair.reference.address.role in _BACKWARD
        basis = Basis(
            dtypes=(pair.reference.dtype, pair.candidate.dtype),
            sums=Sums(size=largest),
            largest_gradient=largest if is_gradient else 0.0,
        )
        ends = pair.reference.address, pair.candidate.address
        return self._policy.choose(*ends, basis).tolerance
