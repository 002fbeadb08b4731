"""Turn a pairing into verdicts: decide what no element decides, measure the rest, decide that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.comparer.result import Endpoint, JudgedPair, Verdict
from padiff.comparer.selection import matches
from padiff.comparer.settings import CompareSettings, Mode
from padiff.dumpfile import CompareError, Content, Index, Phase, RecordInfo, Role
from padiff.pairing import Absence, Pairing, RecordPair, Rule, Side, SideName, UnmatchedRecord

from .absent import PARTLY_ABSENT, is_partly_absent, judge_absent
from .basis import Bases
from .decision import Counted, agrees, by_errors
from .measured import Measurements, Request
from .partly import Partial, is_reordered, judge_partly
from .tolerance import EXACT, STATE_ROLES, TolerancePolicy, default_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.comparer.result import GoldenErrors, Metrics, Tolerance

    from .noise import Noise
    from .threeway import ThreeWay

__all__ = ["Judgement", "judge"]

FATAL_ROLES = frozenset({Role.WEIGHT, Role.WEIGHT_GRAD, Role.LOSS})
"""Without counterpart, these always make the comparison diverge; so do the root's outputs."""
NO_ELEMENTS = "not all elements were recorded of a gradient that must be summed to compare it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All verdicts of one step and rank."""

    pairs: tuple[JudgedPair, ...]
    """Pairs in the reference's order, then the unmatched ones of the reference and candidate."""
    records: tuple[tuple[tuple[int, ...], int | None], ...]
    """Record ids (reference's, candidate's) of each pair, in the same order."""
    used_rules: frozenset[int]
    """Positions of the user's tolerance rules that named a pair."""
    used_allowances: frozenset[str]
    """Patterns of ``allow_missing`` that excused something."""


def judge(
    reference: Side,
    candidate: Side,
    pairing: Pairing,
    settings: CompareSettings,
    *,
    scales: tuple[Noise | None, ThreeWay | None] = (None, None),
    release: Callable[[], None] = lambda: None,
) -> Judgement:
    """Judge every pair and every unmatched record of a pairing.

    Args:
        reference: The side held to be right.
        candidate: The side to judge.
        pairing: What of the one is what of the other.
        settings: When a difference counts.
        scales: Measured noise floors, and errors against a golden run; None if not to be used.
        release: Gives memory back that reading has filled; called every 64 MiB.

    Raises:
        DumpFormatError: Elements cannot be read.
    """
    if scales[0] is not None:
        scales[0].check(reference.index, candidate.index)
    judger = _Judger(
        reference,
        candidate,
        settings,
        same_structure=pairing.same_structure,
        scales=scales,
    )
    drafts = [judger.pair(pair) for pair in pairing.records]
    open_ones = [draft for draft in drafts if isinstance(draft, _Open)]
    measurements = Measurements(
        reference, candidate, mean=settings.mode is Mode.MEAN, release=release
    ).of([draft.request for draft in open_ones], jobs=settings.jobs)
    measured = iter(measurements)
    pairs = [
        judger.close(draft, next(measured)) if isinstance(draft, _Open) else draft
        for draft in drafts
    ]
    records: list[tuple[tuple[int, ...], int | None]] = [
        (pair.reference, pair.candidate) for pair in pairing.records
    ]
    for alone in pairing.unmatched:
        pairs.append(judger.unmatched(alone))
        is_reference = alone.side is SideName.REFERENCE
        records.append(((alone.record,), None) if is_reference else ((), alone.record))
    return Judgement(
        pairs=tuple(pairs),
        records=tuple(records),
        used_rules=frozenset(judger.used_rules),
        used_allowances=frozenset(judger.used_allowances),
    )


def endpoint(index: Index, record: RecordInfo) -> Endpoint:
    """Describe a record as one side of a pair."""
    value = None if record.value is None else index.values[record.value]
    call = None if record.call is None else index.calls[record.call]
    return Endpoint(
        address=index.address(record),
        order=record.order,
        dtype="none" if value is None else value.dtype,
        shape=record.shape,
        statistics=None if value is None else value.statistics,
        module_source=index.modules[record.module].source,
        call_site=None if call is None else call.site,
        call=record.call,
        module=record.module,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A pair that only its elements decide."""

    judged: JudgedPair
    """All but the verdict."""
    request: Request


class _Judger:
    """The verdicts of one step and rank."""

    def __init__(
        self,
        reference: Side,
        candidate: Side,
        settings: CompareSettings,
        *,
        same_structure: bool,
        scales: tuple[Noise | None, ThreeWay | None],
    ) -> None:
        self._reference = reference
        self._candidate = candidate
        self._settings = settings
        self._same_structure = same_structure
        self._policy = TolerancePolicy(atol=settings.atol, rtol=settings.rtol, rules=settings.rules)
        noise, self._threeway = scales
        self._bases = Bases(reference.index, candidate.index, noise)
        self.used_rules: set[int] = set()
        self.used_allowances: set[str] = set()

    def pair(self, pair: RecordPair) -> JudgedPair | _Open:
        """Judge a pair as far as its elements are not needed."""
        references = tuple(self._reference.index.records[place] for place in pair.reference)
        record = self._candidate.index.records[pair.candidate]
        judged = JudgedPair(
            reference=endpoint(self._reference.index, references[0]),
            candidate=endpoint(self._candidate.index, record),
            verdict=Verdict.MATCH,
            paired_by=pair.paired_by,
            layout="" if pair.rule.is_identity else str(pair.rule),
            candidate_layout="" if pair.candidate_rule.is_identity else str(pair.candidate_rule),
        )
        if record.value is None or any(known.value is None for known in references):
            sides = self._reference, self._candidate
            if is_partly_absent(references, record):
                known = tuple(one for one in references if one.value is not None)
                judged = replace(judged, reason=PARTLY_ABSENT)
                judged = self._with_tolerance(judged, known, record)
                return _open(judged, references, record, pair)
            return judge_absent(judged, references, record, pair.rule, sides)
        if self._is_bit_equal(references, record, pair.rule):
            return replace(judged, equal_digest=True)
        lacks_elements = self._lacks_elements(references, record)
        refusal = self._refusal(references, record, pair, is_strict=not lacks_elements)
        if refusal:
            return replace(judged, verdict=Verdict.INCOMPARABLE, reason=refusal, fatal=True)
        if lacks_elements:
            return self._judge_partly(judged, references, record, pair)
        errors = self._errors(judged)
        judged = self._with_tolerance(judged, references, record, errors=errors)
        return _open(judged, references, record, pair)

    def close(self, draft: _Open, metrics: Metrics) -> JudgedPair:
        """Judge a pair by what was measured."""
        tolerance = draft.request.tolerance
        is_match, reason = self._is_match(metrics, tolerance), draft.judged.reason
        if draft.judged.errors is not None:
            is_match, reason = by_errors(
                draft.judged.errors,
                tolerance.atol,
                factor=self._settings.floor_factor,
                is_finite=not metrics.nonfinite_mismatched,
            )
        return replace(
            draft.judged,
            verdict=Verdict.MATCH if is_match else Verdict.DIVERGED,
            metrics=metrics,
            fatal=not is_match,
            reason=reason,
        )

    def unmatched(self, alone: UnmatchedRecord) -> JudgedPair:
        """Give the verdict on a record without partner."""
        is_reference = alone.side is SideName.REFERENCE
        index = self._reference.index if is_reference else self._candidate.index
        record = index.records[alone.record]
        found = endpoint(index, record)
        verdict, reason = Verdict.SKIPPED, alone.reason
        if alone.absence is Absence.MISSING:
            allowance = self._allowance(found)
            if allowance is None:
                verdict = Verdict.MISSING
            else:
                reason = f"allowed to be missing by {allowance!r}"
        is_root_output = (
            record.role is Role.OUTPUT
            and record.call is not None
            and index.calls[record.call].parent is None
        )
        return JudgedPair(
            reference=found if is_reference else None,
            candidate=None if is_reference else found,
            verdict=verdict,
            fatal=verdict is Verdict.MISSING
            and (self._same_structure or record.role in FATAL_ROLES or is_root_output),
            reason=reason,
            covered=alone.absence is Absence.COVERED,
        )

    def _is_bit_equal(
        self, references: tuple[RecordInfo, ...], record: RecordInfo, rule: Rule
    ) -> bool:
        if not rule.is_identity or len(references) != 1 or references[0].shape != record.shape:
            return False
        known, found = references[0].value, record.value
        if known is None or found is None:
            return False
        expected = self._reference.index.values[known]
        value = self._candidate.index.values[found]
        return (expected.digest, expected.dtype) == (value.digest, value.dtype)

    def _refusal(
        self,
        references: tuple[RecordInfo, ...],
        record: RecordInfo,
        pair: RecordPair,
        *,
        is_strict: bool,
    ) -> str:
        shapes, rule = [known.shape for known in references], pair.rule
        is_other_order = not is_strict and is_reordered(shapes, record.shape, rule)
        target = pair.candidate_rule.shape_of([record.shape])
        if not rule.fits(shapes, target) and not is_other_order:
            layout = "" if rule.is_identity else f" through the layout rule {str(rule)!r}"
            expected = " and ".join(str(shape) for shape in shapes)
            return f"shape {expected} on the reference, {record.shape} on the candidate{layout}"
        values = self._candidate.index.values
        found = values[record.value or 0].dtype
        for known in references:
            expected = self._reference.index.values[known.value or 0].dtype
            if kind_of_name(expected) != kind_of_name(found):
                return f"dtype {expected} on the reference, {found} on the candidate"
        return ""

    def _lacks_elements(self, references: tuple[RecordInfo, ...], record: RecordInfo) -> bool:
        values = [self._reference.index.values[known.value or 0] for known in references]
        values.append(self._candidate.index.values[record.value or 0])
        return any(value.content is not Content.FULL for value in values)

    def _judge_partly(
        self,
        judged: JudgedPair,
        references: tuple[RecordInfo, ...],
        record: RecordInfo,
        pair: RecordPair,
    ) -> JudgedPair:
        """Judge by what was recorded instead of all elements."""
        if not pair.candidate_rule.is_identity:
            return replace(judged, verdict=Verdict.SKIPPED, reason=NO_ELEMENTS)
        partial = Partial((self._reference, self._candidate), references, record, pair.rule)
        judged = self._with_tolerance(judged, references, record)
        tolerance = judged.tolerance or EXACT
        return judge_partly(judged, partial, tolerance, self._settings.mode, self._is_match)

    def _is_match(self, metrics: Metrics, tolerance: Tolerance) -> bool:
        settings = self._settings
        return bool(agrees(Counted.of(metrics), tolerance, settings.mode, settings.allowed_share))

    def _errors(self, judged: JudgedPair) -> GoldenErrors | None:
        """Give the errors of both sides against the golden run.

        Of integers there are none. Weights that a run began with were not computed: what is off
        in them is their dtype, or another weight, and the rule of elements tells those apart.
        """
        if self._threeway is None or judged.reference is None or judged.candidate is None:
            return None
        address = judged.reference.address
        is_first = address.step == 0 and address.phase is not Phase.UPDATE
        if address.role in STATE_ROLES and is_first:
            return None
        dtypes = judged.reference.dtype, judged.candidate.dtype
        if not all(default_of(dtype).rtol for dtype in dtypes):
            return None
        return self._threeway.errors(judged.reference.address, judged.candidate.address)

    def _with_tolerance(
        self,
        judged: JudgedPair,
        references: tuple[RecordInfo, ...],
        record: RecordInfo,
        *,
        errors: GoldenErrors | None = None,
    ) -> JudgedPair:
        """Choose the tolerance of a pair, and note which rules did."""
        if judged.reference is None or judged.candidate is None:
            raise CompareError("cannot judge a pair that lacks a side")
        basis = self._bases.of(references, record, is_exact=errors is not None)
        chosen = self._policy.choose(judged.reference.address, judged.candidate.address, basis)
        self.used_rules.update(chosen.rules)
        return replace(judged, tolerance=chosen.tolerance, basis=basis, errors=errors)

    def _allowance(self, found: Endpoint) -> str | None:
        address = found.address
        for pattern in self._settings.allow_missing:
            if matches(pattern, address.module, address.class_name, address.slot):
                self.used_allowances.add(pattern)
                return pattern
        return None


def _open(
    judged: JudgedPair, references: tuple[RecordInfo, ...], record: RecordInfo, pair: RecordPair
) -> _Open:
    request = Request(
        references=references,
        record=record,
        rule=pair.rule,
        candidate_rule=pair.candidate_rule,
        tolerance=judged.tolerance or EXACT,
    )
    return _Open(judged=judged, request=request)


def kind_of_name(dtype: str) -> str:
    """Name the kind of a dtype that a dump states; ``metrics.kind_of_dtype`` for names."""
    for prefix in ("bool", "complex"):
        if dtype.startswith(prefix):
            return prefix
    return "integer" if dtype.startswith(("int", "uint")) else "float"
