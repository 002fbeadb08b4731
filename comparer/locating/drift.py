"""Excuse what differs by rounding that grew step by step, in models that amplify it.

The bound on rounding (decision 0004) assumes that a relative error stays about what it is from
layer to layer. A model that is badly conditioned lets it grow by a tenth here and there, which
comes to a hundred roundings after a hundred layers. A fault does not grow like that: it is a step,
where what comes out is many times as wrong as what went in. Both dumps hold what went in and what
came out of everything, so the two are told apart: docs/decisions/0009-drift.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.causes.contrast import unit_roundoff
from padiff.comparer.judgedpairs import remarkable, replaced
from padiff.comparer.judging.excused import DRIFT, DRIFTING
from padiff.comparer.judging.kinks import KINKS
from padiff.comparer.judging.rounding import CONTRACTIONS
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Phase, Role
from padiff.pairing import kind_of

from .dataflow import Flow, Made
from .sharing import relative_error
from .trace import sound_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.comparer.judging.judge import Judgement
    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import Index, RecordInfo

__all__ = ["drift_notes", "excuse_drift"]

GROWTH = 2.0
"""Times the worst that went in, what comes out may be off: measured, at most 1.3 (relative L2)."""
SLOPE = 1.5
"""The steepest that an activation is (Hardswish): so much may an *absolute* error grow in it."""


def excuse_drift(
    judgement: Judgement, index: Index, settings: CompareSettings, *, phase: Phase
) -> Judgement:
    """Let diverged records of a phase match that are rounding that grew step by step.

    What is behind a step is none. Not where the user gave an rtol, a rule for the record, a floor
    or a golden run: those say what is to be expected of a correct run. Not in dtypes coarser than
    float32, in which a fault looks the same.

    Args:
        judgement: All verdicts.
        index: The reference's.
        settings: When a difference counts.
        phase: ``forward``, or ``backward``, where nothing is excused if the forward phase diverges.
    """
    measured = settings.rtol, settings.floor, settings.golden
    if any(setting is not None for setting in measured):
        return judgement
    fatal = [(place, pair) for place, pair in remarkable(judgement.pairs) if pair.fatal]
    places = [place for place, pair in fatal if _may_drift(pair, settings, phase)]
    is_clean = not any(_phase(pair) is Phase.FORWARD for _, pair in fatal)
    if not places or (phase is Phase.BACKWARD and not is_clean):
        return judgement
    errors = _Errors(judgement, index)
    excused: dict[int, JudgedPair] = {}
    for place in filter(errors.has_drifted, places):
        pair = judgement.pairs[place]
        error = relative_error(pair)
        reason = f"{DRIFT}: a relative error of {error:.2g}, nowhere much more than went in"
        excused[place] = replace(pair, verdict=Verdict.MATCH, fatal=False, reason=reason)
    return replace(judgement, pairs=replaced(judgement.pairs, excused))


def drift_notes(pairs: Sequence[JudgedPair]) -> tuple[str, ...]:
    """Say of a step how many records were excused, if any."""
    told = remarkable(pairs)
    found = [pair for _, pair in told if pair.reason.startswith(DRIFT) and pair.reference]
    if not found:
        return ()
    first = min((pair.reference for pair in found if pair.reference), key=lambda end: end.order)
    worst = max(map(relative_error, found))
    many = f"{len(found)} records go" if len(found) > 1 else "1 record goes"
    how = "beyond the tolerance by rounding that grew step by step, nowhere as by a fault"
    where = f"first at {first.address}, a relative error of at most {worst:.2g}"
    return (f"{many} {how}: {where} (`padiff dump --repeat` measures what is to be expected)",)


def _phase(pair: JudgedPair) -> Phase | None:
    end = pair.reference or pair.candidate
    return None if end is None else end.address.phase


def _may_drift(pair: JudgedPair, settings: CompareSettings, phase: Phase) -> bool:
    """Tell whether it diverged by its elements, and by few enough digits to be rounding."""
    if pair.verdict is not Verdict.DIVERGED or pair.reference is None or pair.candidate is None:
        return False
    if pair.metrics is None or pair.is_partial or pair.errors is not None:
        return False
    addresses = pair.reference.address, pair.candidate.address
    if addresses[0].role not in DRIFTING[phase] or addresses[0].phase is not phase:
        return False
    if any(rule.applies_to(*addresses) for rule in settings.rules):
        return False
    unit = max(unit_roundoff(end.dtype) for end in (pair.reference, pair.candidate))
    is_fine = 0 < unit <= unit_roundoff("float32")
    is_loss = addresses[0].role is Role.LOSS
    return is_fine and (is_loss or relative_error(pair) <= math.sqrt(unit))


class _Errors:
    """Relative errors of the records of a step, and where each came from."""

    def __init__(self, judgement: Judgement, index: Index) -> None:
        """Collect the errors.

        Args:
            judgement: All verdicts.
            index: The reference's.
        """
        self._judgement = judgement
        self._index = index
        self._flow = Flow(index)
        self._of_record: dict[int, float] = {}
        self._of_value: dict[int, float] = defaultdict(float)
        self._at_kinks: set[int] = set()
        self._sound: set[int] = set()
        self._gradients: dict[tuple[int, Role], list[RecordInfo]] = defaultdict(list)
        self._calls: dict[int, list[int]] = defaultdict(list)
        for call in index.calls:
            self._calls[call.module].append(call.id)
        for record in index.records:
            if record.call is not None and record.role in DRIFTING[Phase.BACKWARD]:
                self._gradients[record.call, record.role].append(record)
        for pair, (known, _) in zip(judgement.pairs, judgement.records, strict=True):
            if pair.verdict in {Verdict.MATCH, Verdict.DIVERGED} and len(known) == 1:
                self._add(pair, index.records[known[0]])

    def _add(self, pair: JudgedPair, record: RecordInfo) -> None:
        error = relative_error(pair)
        if record.role is Role.WEIGHT_GRAD and pair.basis is not None:
            error = min(error, self._of_sum(record, error, pair.basis.sums.size))
        self._of_record[record.id] = error
        if record.value is not None:
            self._of_value[record.value] = max(self._of_value[record.value], error)
        if pair.reason.startswith(KINKS):
            self._at_kinks.add(record.id)

    def has_drifted(self, place: int) -> bool:
        """Tell whether there is no step on the way to a diverged record."""
        pair, known = self._judgement.pairs[place], self._judgement.records[place][0]
        if len(known) != 1:
            return False
        record = self._index.records[known[0]]
        return self._is_drifted_loss(pair) if record.role is Role.LOSS else self._is_sound(record)

    def _is_drifted_loss(self, pair: JudgedPair) -> bool:
        """Tell whether a loss is off by what the root's outputs are, each times its gradient."""
        roots = [call.id for call in self._index.calls if call.parent is None]
        outputs = [one for call in roots for one in self._forward(call, Role.OUTPUT)]
        worth = [one for call in roots for one in self._gradients.get((call, Role.GRAD_OUTPUT), ())]
        off = math.hypot(*(self._error(one) * self._l2(one) for one in outputs))
        allowed = GROWTH * off * math.hypot(*map(self._l2, worth))  # Cauchy and Schwarz
        is_small = pair.metrics is not None and (pair.metrics.max_abs or 0.0) <= allowed
        return is_small and all(map(self._is_sound, outputs))

    def _is_sound(self, record: RecordInfo) -> bool:
        """Follow an error to where it began, by the worst that went in each time."""
        seen: set[int] = set()
        current: RecordInfo | None = record
        while current is not None and current.id not in seen | self._sound | self._at_kinks:
            error = self._error(current)
            if error <= sound_error(self._dtype(current)):
                break
            given = list(self._given(current))
            worst = self._worst(given)
            if error > GROWTH * self._error(worst) and not self._passes_on(current, error):
                return False
            seen.add(current.id)
            current = worst
        self._sound |= seen
        return True

    def _given(self, record: RecordInfo) -> Iterable[RecordInfo]:
        """Give what a tensor was made of."""
        if record.role is Role.WEIGHT_GRAD:
            return [one for call in self._calls[record.module] for one in self._around(call)]
        assert record.call is not None
        if record.role in DRIFTING[Phase.BACKWARD]:
            return self._behind(record, record.call)
        if record.role is Role.OUTPUT and record.call not in self._flow.inside:
            return self._flow.records(record.call, Role.INPUT)
        feed = self._flow.feed(record)
        if feed.made in {Made.CALL, Made.PASSED} and feed.source is not None:
            return [self._index.records[feed.source]]
        if feed.around is None:
            return []
        given = self._flow.ingredients(feed.around, record.order)
        return [one for one in given if one.id != record.id]

    def _behind(self, record: RecordInfo, call: int) -> Iterator[RecordInfo]:
        """Give the gradients and forward values that a gradient was made of, at most."""
        if record.role is Role.GRAD_INPUT and call not in self._flow.inside:
            yield from self._around(call)
            return
        around = call if record.role is Role.GRAD_INPUT else self._index.calls[call].parent
        for one in (around, *self._flow.inside.get(around, ())):
            if one is None:
                continue
            yield from self._forward(one, Role.INPUT, Role.OUTPUT)
            entry = Role.GRAD_OUTPUT if one == around else Role.GRAD_INPUT
            for gradient in self._gradients.get((one, entry), ()):
                if gradient.id != record.id and gradient.order <= record.order:
                    yield gradient

    def _around(self, call: int) -> Iterator[RecordInfo]:
        """Give what a layer's gradients are made of."""
        yield from self._gradients.get((call, Role.GRAD_OUTPUT), ())
        yield from self._forward(call, Role.INPUT, Role.OUTPUT)

    def _forward(self, call: int, *roles: Role) -> Iterator[RecordInfo]:
        for role in roles:
            yield from self._flow.records(call, role)

    def _passes_on(self, record: RecordInfo, error: float) -> bool:
        """Tell whether an activation explains it: an absolute error passes where the value shrinks.

        Its gradient is off by about how far its input is, in the unit of its bend, which is 1.
        """
        kind = kind_of(self._index.modules[record.module])
        if kind is None or not kind.startswith(CONTRACTIONS) or record.call is None:
            return False
        before = self._worst(self._flow.records(record.call, Role.INPUT))
        if before is None or record.call in self._flow.inside:
            return False
        if record.role is Role.GRAD_INPUT:
            return error <= self._error(before) * self._l2(before) / math.sqrt(_size(before))
        given = self._error(before) * self._l2(before)
        return record.role is Role.OUTPUT and error * self._l2(record) <= SLOPE * given

    def _of_sum(self, record: RecordInfo, error: float, size: float) -> float:
        """Give the error relative to what was added up, in the root mean square."""
        return error * self._l2(record) / math.sqrt(_size(record)) / size if size else math.inf

    def _worst(self, records: Iterable[RecordInfo]) -> RecordInfo | None:
        return max(records, key=self._error, default=None)

    def _error(self, record: RecordInfo | None) -> float:
        """Give a record's error, that of its value where it was judged elsewhere."""
        if record is None or record.value is None:
            return 0.0
        by_value = self._of_value.get(record.value, 0.0)
        return self._of_record.get(record.id, by_value)

    def _dtype(self, record: RecordInfo) -> str:
        return self._index.values[record.value or 0].dtype

    def _l2(self, record: RecordInfo) -> float:
        return self._index.values[record.value or 0].statistics.l2 or 0.0


def _size(record: RecordInfo) -> int:
    return max(math.prod(record.shape), 1)
