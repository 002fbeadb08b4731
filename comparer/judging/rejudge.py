"""Decide a finished report again at other tolerances, from the hulls in it, without the dumps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.comparer.decided import may_diverge
from padiff.comparer.result import Evidence, Looked, Tolerance, Verdict
from padiff.comparer.settings import CompareSettings, Mode
from padiff.dumpfile import ConfigError, Phase, Role

from .bystatistics import disagreement
from .decision import Counted, agrees, by_errors
from .hull import passes
from .noise import DEFAULT_FACTOR
from .storedpair import StoredPair, as_list, as_mapping, as_number, optional_number, read_pair
from .tolerance import TolerancePolicy, ToleranceRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.dumpfile import JSON

__all__ = ["Outcome", "Rejudged", "Rejudgement", "rejudge"]

DIVERGED = "diverged"
JUDGED = frozenset({Evidence.ELEMENTS, Evidence.SAMPLE, Evidence.STATISTICS, Evidence.EXECUTION})
"""What a tolerance decides about."""
BY_MOVE = frozenset({Role.WEIGHT, Role.OPTIMIZER_STATE, Role.LR, Role.NAMED})
"""What an update leaves that is judged by tolerances of its own: see ``updates``."""
NOTHING = "nothing of what the model gives was judged"
EXECUTED = "decided by executing both programs"
UNASKED = "rounding may explain it, as both programs compute the same: only the dumps show that"
TOO_LITTLE = "the report holds too little of its elements"


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
    before: str
    """Its verdict in the report."""
    outcome: Outcome
    needed_atol: float | None = None
    """Smallest atol that passes at this rtol; None if none does, or it was not measured."""
    needed_rtol: float | None = None
    why: str = ""
    """Why it is kept or undecided."""

    @property
    def agrees(self) -> bool:
        """Tell whether it does not diverge."""
        return self.outcome is Outcome.MATCH or (
            self.outcome is Outcome.KEPT and self.before != DIVERGED
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejudgement:
    """A report at the new tolerance."""

    pairs: tuple[Rejudged, ...]
    """Those that were measured, or judged by statistics."""
    reasons: tuple[str, ...]
    """Why it diverges; empty on a match."""
    open: tuple[str, ...] = ()
    """Why no tolerance makes it a match: nothing of the model's result was judged."""
    notes: tuple[str, ...] = ()

    @property
    def diverged(self) -> tuple[Rejudged, ...]:
        """Give the pairs that do not agree."""
        return tuple(pair for pair in self.pairs if pair.outcome is Outcome.DIVERGED)

    @property
    def undecided(self) -> tuple[Rejudged, ...]:
        """Give the pairs of which the report holds too little."""
        return tuple(pair for pair in self.pairs if pair.outcome is Outcome.UNDECIDED)


def rejudge(report: JSON, *, atol: float | None, rtol: float | None) -> Rejudgement:
    """Decide every pair of a JSON report as comparing with these tolerances would.

    All else is as in the report's own settings: rules, mode, floor and golden run. What is no
    question of tolerance stays as it was: nan and inf, shapes, absent records, coverage. So do
    verdicts that rest on other records too (updates of weights), and, unless both tolerances hold,
    those that executing both programs gave.

    Args:
        report: The parsed JSON.
        atol: None takes the report's.
        rtol: None takes the report's.

    Raises:
        ConfigError: It is no report, or one without hulls.
    """
    top = as_mapping(report)
    schema = top.get("schema")
    if not isinstance(schema, str) or not schema.startswith("padiff-report/"):
        raise ConfigError(f"cannot judge again: expected a padiff report, found schema {schema!r}")
    rows = [read_pair(row) for row in as_list(top.get("pairs"))]
    scope = as_mapping(top.get("scope", {}))
    is_proven = 0 < as_number(scope.get("proven", 0)) == as_number(scope.get("steps", 0))
    settings = as_mapping(top.get("settings", {}))
    rejudger = _Rejudger(settings, atol, rtol, is_proven=is_proven)
    judged = [row for row in rows if row.rests_on in JUDGED]
    pairs = tuple(map(rejudger.pair, judged))
    reasons = [
        str(reason) for reason in as_list(top.get("reasons")) if not str(reason).endswith(DIVERGED)
    ]
    absent = sum(row.verdict == DIVERGED and row.rests_on not in JUDGED for row in rows)
    if absent:
        how = "None on one side, or by digests alone"
        reasons.append(f"{absent} records diverged otherwise: {how}")
    is_open = scope.get("looked_at") == Looked.NOTHING
    lacking = reasons if top.get("verdict") == Verdict.INCONCLUSIVE else [NOTHING]
    reasons = [] if top.get("verdict") == Verdict.INCONCLUSIVE else reasons
    bad = sum(pair.outcome is Outcome.DIVERGED for pair in pairs)
    kept = sum(pair.outcome is Outcome.KEPT and not pair.agrees for pair in pairs)
    if kept:
        reasons.insert(0, f"{kept} records diverged, whose verdicts rest on other records too")
    if bad:
        reasons.insert(0, f"{bad} of {len(pairs)} judged records diverged")
    return Rejudgement(
        pairs=pairs,
        reasons=tuple(reasons),
        open=tuple(lacking) if is_open else (),
        notes=tuple(_notes(judged)),
    )


def _notes(rows: list[StoredPair]) -> list[str]:
    if all(row.basis is not None for row in rows):
        return []
    text = "the report is of an older version: what its tolerances were chosen by is not known"
    return [f"{text}, and a tolerance given here replaces it"]


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
        given = optional_number(settings.get("atol")), optional_number(settings.get("rtol"))
        self._given = atol, rtol
        self._before = given
        self._policy = TolerancePolicy(
            atol=given[0] if atol is None else atol,
            rtol=given[1] if rtol is None else rtol,
            rules=tuple(
                ToleranceRule.parse(str(rule)) for rule in as_list(settings.get("rules", []))
            ),
        )
        try:
            self._mode = Mode(str(settings.get("mode", Mode.STRICT)))
        except ValueError as error:
            raise ConfigError(f"cannot judge again: {error} in the report") from None
        quantile = optional_number(settings.get("quantile"))
        allowed = optional_number(settings.get("max_mismatched")) or 0.0
        self._share = max(allowed, 0.0 if quantile is None else 1 - quantile)
        factor = optional_number(settings.get("floor_factor"))
        self._factor = DEFAULT_FACTOR if factor is None else factor
        asked = CompareSettings(atol=self._policy.atol, rtol=self._policy.rtol)
        self._is_literal = asked.is_literal
        self._is_exact = may_diverge(asked)
        self._is_proven = is_proven and not asked.is_literal

    def pair(self, pair: StoredPair) -> Rejudged:
        """Decide one pair."""
        name = str(pair.reference)
        is_plain = pair.verdict in {Outcome.MATCH, Outcome.DIVERGED}
        why = self._why_kept(pair)
        if why and not (is_plain and self._given == (None, None)):
            return Rejudged(name=name, before=pair.verdict, outcome=Outcome.KEPT, why=why)
        if self._given == (None, None):
            tolerance = pair.tolerance or Tolerance(atol=0.0, rtol=0.0)
            answer: bool | None = pair.verdict == Outcome.MATCH
        elif self._is_by_move(pair, self._policy.rtol):
            tolerance, answer = self._loosened(pair)
        else:
            tolerance = self._choose(pair)
            answer = self._decide(pair, tolerance)
        why = "" if answer is not None else TOO_LITTLE
        if answer is False and self._is_proven and pair.verdict == Outcome.MATCH:
            answer, why = None, UNASKED
        outcome = {True: Outcome.MATCH, False: Outcome.DIVERGED, None: Outcome.UNDECIDED}[answer]
        is_open = pair.rests_on != Evidence.STATISTICS and not pair.nonfinite
        return Rejudged(
            name=name,
            before=pair.verdict,
            outcome=outcome,
            needed_atol=_needed_atol(pair.hull, tolerance.rtol) if is_open else None,
            needed_rtol=_needed_rtol(pair.hull, tolerance.atol) if is_open else None,
            why=why,
        )

    def _why_kept(self, pair: StoredPair) -> str:
        """Return why a pair's own tolerance does not decide it; empty if it does."""
        if self._is_by_move(pair, self._before[1]):
            is_by_move = self._is_by_move(pair, self._policy.rtol)
            is_weight = pair.reference.role is Role.WEIGHT
            return "judged by how the update moved it" if is_weight and not is_by_move else ""
        if pair.by_execution:
            is_fault = pair.verdict == Outcome.DIVERGED
            return EXECUTED if (self._is_exact if is_fault else not self._is_literal) else ""
        if pair.verdict not in {Outcome.MATCH, Outcome.DIVERGED}:
            return "decided by other records"
        if pair.tolerance is None:
            return ""
        own = self._decide(pair, pair.tolerance, mismatched=pair.mismatched)
        is_other = own is not None and own is not (pair.verdict == Outcome.MATCH)
        return "decided by other records" if is_other else ""

    def _is_by_move(self, pair: StoredPair, rtol: float | None) -> bool:
        """Return whether an update's own tolerance decides a pair, which an atol only loosens."""
        at = pair.reference
        return (
            rtol is None
            and at.phase is Phase.UPDATE
            and at.role in BY_MOVE
            and pair.rests_on == Evidence.ELEMENTS
            and not any(rule.applies_to(at, pair.candidate) for rule in self._policy.rules)
        )

    def _loosened(self, pair: StoredPair) -> tuple[Tolerance, bool | None]:
        """Decide a pair of an update at another atol, of which nothing but the atol changes."""
        own = pair.tolerance or Tolerance(atol=0.0, rtol=0.0)
        atol, before = self._policy.atol or 0.0, self._before[0] or 0.0
        was_match = pair.verdict == Outcome.MATCH
        if atol < before < own.atol:
            return own, was_match
        tolerance = Tolerance(atol=atol if atol < before else max(atol, own.atol), rtol=own.rtol)
        if not pair.nonfinite and passes(pair.hull, tolerance):
            return tolerance, True
        if was_match is (atol >= before):
            return tolerance, was_match
        # Which gradients are noise only the dumps show.
        is_weight = pair.reference.role is Role.WEIGHT
        return tolerance, None if was_match or is_weight else False

    def _choose(self, pair: StoredPair) -> Tolerance:
        if pair.basis is not None:
            return self._policy.choose(pair.reference, pair.candidate, pair.basis).tolerance
        own = pair.tolerance or Tolerance(atol=0.0, rtol=0.0)
        atol, rtol = (None, None) if pair.is_exact else self._given
        return Tolerance(
            atol=own.atol if atol is None else atol, rtol=own.rtol if rtol is None else rtol
        )

    def _decide(
        self, pair: StoredPair, tolerance: Tolerance, *, mismatched: int | None = None
    ) -> bool | None:
        if pair.rests_on == Evidence.STATISTICS:
            return self._by_statistics(pair, tolerance)
        by_elements = self._by_elements(pair, tolerance, mismatched)
        if pair.rests_on == Evidence.SAMPLE and by_elements and self._mode is Mode.STRICT:
            return self._by_statistics(pair, tolerance)
        return by_elements

    @staticmethod
    def _by_statistics(pair: StoredPair, tolerance: Tolerance) -> bool | None:
        if pair.statistics is None or not pair.is_whole:
            return None
        return not disagreement(*pair.statistics, tolerance, size=pair.shape_size)

    def _by_elements(
        self, pair: StoredPair, tolerance: Tolerance, mismatched: int | None
    ) -> bool | None:
        if pair.errors is not None:
            is_finite = not pair.nonfinite
            found = by_errors(pair.errors, tolerance.atol, factor=self._factor, is_finite=is_finite)
            return found[0]
        least, most = _count(pair, tolerance)
        if mismatched is not None:
            least = most = mismatched
        counted = Counted(
            size=pair.size,
            least=least,
            most=most,
            nonfinite=pair.nonfinite,
            mean_abs=pair.mean_abs,
            reference_mean_abs=pair.reference_mean_abs,
        )
        return agrees(counted, tolerance, self._mode, self._share)


def _count(pair: StoredPair, tolerance: Tolerance) -> tuple[int, int]:
    """Bound how many elements disagree: by the hull, and by the count at the report's tolerance."""
    if passes(pair.hull, tolerance):
        return pair.nonfinite, pair.nonfinite
    least, most, own = pair.nonfinite + 1, pair.size, pair.tolerance
    if own is not None and tolerance.atol >= own.atol and tolerance.rtol >= own.rtol:
        most = min(most, pair.mismatched)
    if own is not None and tolerance.atol <= own.atol and tolerance.rtol <= own.rtol:
        least = max(least, pair.mismatched)
    return least, most


def _needed_atol(hull: tuple[tuple[float, float], ...], rtol: float) -> float:
    return max([0.0, *(d - rtol * x for x, d in hull)])


def _needed_rtol(hull: tuple[tuple[float, float], ...], atol: float) -> float | None:
    over = [(x, d) for x, d in hull if d > atol]
    if any(x == 0 for x, _ in over):
        return None
    return max([0.0, *((d - atol) / x for x, d in over)])
