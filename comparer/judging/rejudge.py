"""Decide a finished report again at other tolerances, from the hulls in it, without the dumps."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.comparer.decided import may_diverge
from padiff.comparer.result import (
    DECIDED,
    Evidence,
    Looked,
    Metrics,
    ReasonKind,
    Tolerance,
    Verdict,
)
from padiff.comparer.settings import CompareSettings, Mode
from padiff.dumpfile import ConfigError, Phase, Role

from .decision import Counted, agrees, by_errors
from .hull import needed_atol, needed_rtol, passes
from .noise import DEFAULT_FACTOR
from .partly import disagreement
from .tolerance import EXACT, TolerancePolicy, ToleranceRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.comparer.result import Comparison, Endpoint, JudgedPair
    from padiff.dumpfile import JSON


JUDGED = frozenset({Evidence.ELEMENTS, Evidence.SAMPLE, Evidence.STATISTICS, Evidence.EXECUTION})
"""What a tolerance decides about."""
BY_MOVE = frozenset({Role.WEIGHT, Role.OPTIMIZER_STATE, Role.LR, Role.NAMED})
"""What an update leaves that is judged by tolerances of its own: see ``updates``."""
NOTHING = "nothing of what the model gives was judged"
EXECUTED = "decided by executing both programs"
UNASKED = "rounding may explain it, as both programs compute the same: only the dumps show that"
TOO_LITTLE = "the report holds too little of its elements"
_MOST_TOLD = 60
"""Characters of what is wrong in a report."""
NOTHING_MEASURED = Metrics(
    size=0,
    mismatched=0,
    max_abs=None,
    max_abs_index=None,
    max_rel=None,
    max_rel_index=None,
    mean_abs=None,
    relative_l2=None,
    cosine=None,
    needed_atol=None,
    needed_rtol=None,
)


class Outcome(StrEnum):
    """What another decision on a pair came to."""

    MATCH = "match"
    DIVERGED = "diverged"
    KEPT = "kept"
    """Its verdict does not come from its own tolerance alone, and stays as the report says."""
    UNDECIDED = "undecided"
    """The report holds too little of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudged:
    """One pair at the new tolerance."""

    name: str
    """Address on the reference, as text."""
    before: Verdict
    """In the report."""
    outcome: Outcome
    needed_atol: float | None = None
    """Smallest atol that passes at this rtol; None if none does, or it was not measured."""
    needed_rtol: float | None = None
    why: str = ""
    """Why it is kept or undecided."""

    @property
    def agrees(self) -> bool:
        """Return whether it does not diverge."""
        is_kept = self.outcome is Outcome.KEPT and self.before is not Verdict.DIVERGED
        return is_kept or self.outcome is Outcome.MATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudgement:
    """A report at the new tolerance."""

    pairs: tuple[Rejudged, ...]
    """Those that were measured, or judged by statistics."""
    reasons: tuple[str, ...]
    """Why it diverges; empty on a match."""
    open: tuple[str, ...] = ()
    """Why no tolerance makes it a match: nothing of the model's result was judged."""

    @property
    def diverged(self) -> tuple[Rejudged, ...]:
        """Return the pairs that do not agree."""
        return tuple(pair for pair in self.pairs if pair.outcome is Outcome.DIVERGED)

    @property
    def undecided(self) -> tuple[Rejudged, ...]:
        """Return the pairs of which the report holds too little."""
        return tuple(pair for pair in self.pairs if pair.outcome is Outcome.UNDECIDED)


def rejudge(comparison: Comparison, *, atol: float | None, rtol: float | None) -> Rejudgement:
    """Decide every pair of a comparison as comparing with these tolerances would.

    All else is as in the comparison's own settings: rules, mode, floor and golden run. What is no
    question of tolerance stays as it was: nan and inf, shapes, absent records, coverage. So do
    verdicts that rest on other records too (updates of weights), and, unless both tolerances hold,
    those that executing both programs gave.

    Raises:
        ConfigError: Its settings make no sense.
    """
    scope, is_open = comparison.scope, comparison.verdict is Verdict.INCONCLUSIVE
    rejudger = _Rejudger(comparison.settings, atol, rtol, is_proven=0 < scope.proven == scope.steps)
    rows = [pair for pair in comparison.pairs if None not in (pair.reference, pair.candidate)]
    pairs = tuple(rejudger.pair(row) for row in rows if row.rests_on in JUDGED)
    kept_reasons = [str(one) for one in comparison.reasons if one.kind is not ReasonKind.DIVERGED]
    absent = sum(row.verdict is Verdict.DIVERGED and row.rests_on not in JUDGED for row in rows)
    if absent:
        how = "None on one side, or by digests alone"
        kept_reasons.append(f"{absent} records diverged otherwise: {how}")
    lacking = kept_reasons if is_open else [NOTHING]
    reasons = [] if is_open else kept_reasons
    bad = sum(pair.outcome is Outcome.DIVERGED for pair in pairs)
    kept = sum(pair.outcome is Outcome.KEPT and not pair.agrees for pair in pairs)
    if kept:
        reasons.insert(0, f"{kept} records diverged, whose verdicts rest on other records too")
    if bad:
        reasons.insert(0, f"{bad} of {len(pairs)} judged records diverged")
    return Rejudgement(
        pairs=pairs,
        reasons=tuple(reasons),
        open=tuple(lacking) if scope.looked_at is Looked.NOTHING else (),
    )


class _Rejudger:
    """Decides pairs at other tolerances under a report's settings."""

    def __init__(
        self,
        settings: Mapping[str, JSON],
        atol: float | None,
        rtol: float | None,
        *,
        is_proven: bool,
    ) -> None:
        """Read the settings.

        Args:
            settings: The report's.
            atol: None takes the report's.
            rtol: None takes the report's.
            is_proven: Whether all steps match because both programs compute the same.

        Raises:
            ConfigError: They are none.
        """
        self._given = atol, rtol
        self._before = _number(settings, "atol"), _number(settings, "rtol")
        self._policy = TolerancePolicy(
            atol=self._before[0] if atol is None else atol,
            rtol=self._before[1] if rtol is None else rtol,
            rules=tuple(map(ToleranceRule.parse, _texts(settings, "rules"))),
        )
        try:
            self._mode = Mode(str(settings.get("mode", Mode.STRICT)))
        except ValueError as error:
            raise ConfigError(f"cannot judge again: {error} in the report") from None
        quantile, factor = _number(settings, "quantile"), _number(settings, "floor_factor")
        allowed = _number(settings, "max_mismatched") or 0.0
        self._share = max(allowed, 0.0 if quantile is None else 1 - quantile)
        self._factor = DEFAULT_FACTOR if factor is None else factor
        asked = CompareSettings(atol=self._policy.atol, rtol=self._policy.rtol)
        self._is_literal = asked.is_literal
        self._is_exact = may_diverge(asked)
        self._is_proven = is_proven and not asked.is_literal

    def pair(self, pair: JudgedPair) -> Rejudged:
        """Decide one pair of two sides."""
        name = str(pair.end.address)
        is_plain = pair.verdict in DECIDED
        why = self._why_kept(pair)
        if why and not (is_plain and self._given == (None, None)):
            return Rejudged(name=name, before=pair.verdict, outcome=Outcome.KEPT, why=why)
        if self._given == (None, None):
            tolerance = pair.tolerance or EXACT
            answer: bool | None = pair.verdict is Verdict.MATCH
        elif self._is_by_move(pair, self._policy.rtol):
            tolerance, answer = self._loosened(pair)
        else:
            tolerance = self._choose(pair)
            answer = self._decide(pair, tolerance)
        why = "" if answer is not None else TOO_LITTLE
        if answer is False and self._is_proven and pair.verdict is Verdict.MATCH:
            answer, why = None, UNASKED
        outcome = {True: Outcome.MATCH, False: Outcome.DIVERGED, None: Outcome.UNDECIDED}[answer]
        metrics = _metrics(pair)
        is_open = pair.rests_on is not Evidence.STATISTICS and not metrics.nonfinite_mismatched
        return Rejudged(
            name=name,
            before=pair.verdict,
            outcome=outcome,
            needed_atol=needed_atol(metrics.hull, tolerance.rtol) if is_open else None,
            needed_rtol=needed_rtol(metrics.hull, tolerance.atol) if is_open else None,
            why=why,
        )

    def _why_kept(self, pair: JudgedPair) -> str:
        """Return why a pair's own tolerance does not decide it; empty if it does."""
        if self._is_by_move(pair, self._before[1]):
            is_by_move = self._is_by_move(pair, self._policy.rtol)
            is_weight = pair.end.address.role is Role.WEIGHT
            return "judged by how the update moved it" if is_weight and not is_by_move else ""
        if pair.by_execution:
            is_fault = pair.verdict is Verdict.DIVERGED
            return EXECUTED if (self._is_exact if is_fault else not self._is_literal) else ""
        if pair.verdict not in DECIDED:
            return "decided by other records"
        if pair.tolerance is None:
            return ""
        own = self._decide(pair, pair.tolerance, mismatched=_metrics(pair).mismatched)
        is_other = own is not None and own is not (pair.verdict is Verdict.MATCH)
        return "decided by other records" if is_other else ""

    def _is_by_move(self, pair: JudgedPair, rtol: float | None) -> bool:
        """Return whether an update's own tolerance decides a pair, which an atol only loosens."""
        reference, candidate = _ends(pair)
        at, other = reference.address, candidate.address
        return (
            rtol is None
            and at.phase is Phase.UPDATE
            and at.role in BY_MOVE
            and pair.rests_on is Evidence.ELEMENTS
            and not any(rule.applies_to(at, other) for rule in self._policy.rules)
        )

    def _loosened(self, pair: JudgedPair) -> tuple[Tolerance, bool | None]:
        """Decide a pair of an update at another atol, of which nothing but the atol changes."""
        own, metrics = pair.tolerance or EXACT, _metrics(pair)
        atol, before = self._policy.atol or 0.0, self._before[0] or 0.0
        was_match = pair.verdict is Verdict.MATCH
        if atol < before < own.atol:
            return own, was_match
        tolerance = Tolerance(atol=atol if atol < before else max(atol, own.atol), rtol=own.rtol)
        if not metrics.nonfinite_mismatched and passes(metrics.hull, tolerance):
            return tolerance, True
        if was_match is (atol >= before):
            return tolerance, was_match
        # Which gradients are noise only the dumps show.
        is_weight = pair.end.address.role is Role.WEIGHT
        return tolerance, None if was_match or is_weight else False

    def _choose(self, pair: JudgedPair) -> Tolerance:
        if pair.basis is None:
            return pair.tolerance or EXACT
        reference, candidate = _ends(pair)
        return self._policy.choose(reference.address, candidate.address, pair.basis)

    def _decide(
        self, pair: JudgedPair, tolerance: Tolerance, *, mismatched: int | None = None
    ) -> bool | None:
        if pair.rests_on is Evidence.STATISTICS:
            return _by_statistics(pair, tolerance)
        by_elements = self._by_elements(pair, tolerance, mismatched)
        if pair.rests_on is Evidence.SAMPLE and by_elements and self._mode is Mode.STRICT:
            return _by_statistics(pair, tolerance)
        return by_elements

    def _by_elements(
        self, pair: JudgedPair, tolerance: Tolerance, mismatched: int | None
    ) -> bool | None:
        metrics = _metrics(pair)
        if pair.errors is not None:
            is_finite = not metrics.nonfinite_mismatched
            found = by_errors(pair.errors, tolerance.atol, factor=self._factor, is_finite=is_finite)
            return found[0]
        counted = Counted.of(metrics)
        if mismatched is None:
            least, most = _count(metrics, pair.tolerance, tolerance)
            counted = replace(counted, least=least, most=most)
        return agrees(counted, tolerance, self._mode, self._share)


def _ends(pair: JudgedPair) -> tuple[Endpoint, Endpoint]:
    """Return both sides of a pair that has both."""
    if pair.reference is None or pair.candidate is None:
        raise TypeError("only pairs of two sides are judged again")
    return pair.reference, pair.candidate


def _metrics(pair: JudgedPair) -> Metrics:
    """Return what was measured; nothing where the verdict rests on no elements."""
    if pair.metrics is not None:
        return pair.metrics
    return replace(NOTHING_MEASURED, size=math.prod(_ends(pair)[1].shape))


def _by_statistics(pair: JudgedPair, tolerance: Tolerance) -> bool | None:
    reference, candidate = _ends(pair)
    known, found = reference.statistics, candidate.statistics
    size = math.prod(candidate.shape)
    if known is None or found is None or size != math.prod(reference.shape):
        return None
    return not disagreement(known, found, tolerance, size=size)


def _count(metrics: Metrics, own: Tolerance | None, tolerance: Tolerance) -> tuple[int, int]:
    """Bound how many elements disagree: by the hull, and by the count at the pair's own."""
    if passes(metrics.hull, tolerance):
        return metrics.nonfinite_mismatched, metrics.nonfinite_mismatched
    least, most = metrics.nonfinite_mismatched + 1, metrics.size
    if own is not None and tolerance.atol >= own.atol and tolerance.rtol >= own.rtol:
        most = min(most, metrics.mismatched)
    if own is not None and tolerance.atol <= own.atol and tolerance.rtol <= own.rtol:
        least = max(least, metrics.mismatched)
    return least, most


def _number(settings: Mapping[str, JSON], name: str) -> float | None:
    found = settings.get(name)
    if found is None or isinstance(found, float):
        return found
    if type(found) is int and abs(found) <= sys.float_info.max:
        return float(found)
    raise ConfigError(
        f"cannot judge again: expected a number for {name!r}, found {repr(found)[:_MOST_TOLD]}"
    )


def _texts(settings: Mapping[str, JSON], name: str) -> list[str]:
    found = settings.get(name, [])
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return list(map(str, found))
    raise ConfigError(f"cannot judge again: expected texts for {name!r}, found {found!r}")
