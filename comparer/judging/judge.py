"""Turn a pairing into verdicts: decide what no element decides, measure the rest, decide that.

Pairs that need no look of their own come first: equal ones, and small ones in batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.executors import default_jobs
from padiff.comparer.judgedpairs import JudgedPairs
from padiff.comparer.result import Endpoint, JudgedPair, Tolerance, Verdict
from padiff.comparer.selection import matches
from padiff.comparer.settings import CompareSettings, Mode
from padiff.dumpfile import Content, Phase, RecordInfo, Role, numpy_dtype
from padiff.dumpfile.bulk import build_all
from padiff.pairing import Absence, Pairing, RecordPair, Side, SideName, UnmatchedRecord

from .basis import Bases
from .blocks import is_floating
from .building import AgreeingPairs, Builder, Measured, endpoints
from .decision import Counted, agrees, by_errors
from .measured import Listed, Measurements, Request, plan_reading
from .partly import Partial, judge_partly
from .smallpairs import SMALL, SmallPairs
from .tolerance import STATE_ROLES, TolerancePolicy, default_of
from .unmeasured import PARTLY_ABSENT, Contents, Forms, is_partly_absent, judge_absent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.comparer.result import GoldenErrors, Metrics
    from padiff.dumpfile import Index, ValueInfo
    from padiff.pairing import Rule

    from .basis import BasisColumns
    from .blocks import Array
    from .building import Numbers
    from .decision import ThreeWay
    from .noise import Noise


FATAL_ROLES = frozenset({Role.WEIGHT, Role.WEIGHT_GRAD, Role.LOSS})
"""Without counterpart, these always make the comparison diverge; so do the root's outputs."""
NO_ELEMENTS = "not all elements were recorded of a gradient that must be summed to compare it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """All verdicts of one step and rank."""

    pairs: Sequence[JudgedPair]
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
        release=release,
    )
    pairs = judger.pairs(pairing.records, pairing.unmatched)
    records: list[tuple[tuple[int, ...], int | None]] = [
        (pair.reference, pair.candidate) for pair in pairing.records
    ]
    for alone in pairing.unmatched:
        is_reference = alone.side is SideName.REFERENCE
        records.append(((alone.record,), None) if is_reference else ((), alone.record))
    return Judgement(
        pairs=pairs,
        records=tuple(records),
        used_rules=frozenset(judger.used_rules),
        used_allowances=frozenset(judger.used_allowances),
    )


class _Judger:
    """The verdicts of one step and rank.

    Pairs are looked at one by one, but what simply agrees becomes judged pairs only if somebody
    looks at them: most pairs of most dumps are like that, and nothing about them is special.
    """

    def __init__(
        self,
        reference: Side,
        candidate: Side,
        settings: CompareSettings,
        *,
        same_structure: bool,
        scales: tuple[Noise | None, ThreeWay | None],
        release: Callable[[], None],
    ) -> None:
        self._reference = reference
        self._candidate = candidate
        self._builder = Builder(reference.index, candidate.index)
        self._contents = Contents(reference.index, candidate.index)
        self._settings = settings
        self._same_structure = same_structure
        self._policy = TolerancePolicy(atol=settings.atol, rtol=settings.rtol, rules=settings.rules)
        noise, self._threeway = scales
        self._bases = Bases(reference.index, candidate.index, noise)
        self._measurements = Measurements(
            reference, candidate, mean=settings.mode is Mode.MEAN, release=release
        )
        self._forms = Forms(reference, candidate)
        self.used_rules: set[int] = set()
        self.used_allowances: set[str] = set()

    def pairs(
        self, pairs: Sequence[RecordPair], unmatched: Sequence[UnmatchedRecord]
    ) -> JudgedPairs:
        """Judge all: what no element decides at once, the others when all are measured."""
        alike = find_alike(self._builder.reference, self._builder.candidate, pairs)
        groups: list[tuple[list[int], Measured]] = []
        if alike.small.size:
            groups.append((alike.small.tolist(), self._small(pairs, alike)))
        done = {*alike.equal, *alike.small.tolist()}
        drafts = {at: self._draft(pair) for at, pair in enumerate(pairs) if at not in done}
        told = {at: draft for at, draft in drafts.items() if isinstance(draft, JudgedPair)}
        requests = {at: draft for at, draft in drafts.items() if isinstance(draft, Request)}
        if requests:
            open_ones = [pairs[at] for at in requests]
            groups.append((list(requests), self._requested(open_ones, list(requests.values()))))
        for places, group in groups:
            bad = group.not_plain()
            told |= zip([places[row] for row in bad], group.built(bad), strict=True)
        told |= enumerate(self._unmatched(unmatched), start=len(pairs))
        plain = AgreeingPairs(builder=self._builder, pairs=pairs, groups=groups)
        return JudgedPairs(len(pairs) + len(unmatched), told, plain)

    def _small(self, pairs: Sequence[RecordPair], alike: Alike) -> Measured:
        """Judge small pairs by their elements, many at once."""
        taken = [pairs[place] for place in alike.small.tolist()]
        known = [self._reference.index.records[pair.reference[0]] for pair in taken]
        found = [self._candidate.index.records[pair.candidate] for pair in taken]
        plan_reading(self._reference, known)
        plan_reading(self._candidate, found)
        small = SmallPairs(
            (self._reference, self._candidate),
            (known, found),
            alike.layouts,
            alike.orders,
            mean=self._settings.mode is Mode.MEAN,
        )
        return self._measured(taken, [(one,) for one in known], found, small.measured)

    def _requested(self, pairs: list[RecordPair], requests: list[Request]) -> Measured:
        """Judge pairs by their elements, one by one."""
        settings = self._settings
        known = [request.known for request in requests]

        def measured(atol: Array, rtol: Array) -> Listed:
            for request, *limits in zip(requests, atol.tolist(), rtol.tolist(), strict=True):
                request.tolerance = Tolerance(atol=limits[0], rtol=limits[1])
            metrics = self._measurements.of(
                requests, jobs=settings.jobs or default_jobs(), scheduler=settings.scheduler
            )
            return Listed(each=metrics, atol=atol)

        absent = {
            row: PARTLY_ABSENT
            for row, request in enumerate(requests)
            if known[row] is not request.references
        }
        return self._measured(
            pairs, known, [request.record for request in requests], measured, absent
        )

    def _measured(
        self,
        pairs: Sequence[RecordPair],
        references: Sequence[tuple[RecordInfo, ...]],
        records: Sequence[RecordInfo],
        measure: Callable[[Array, Array], Numbers],
        reasons: Mapping[int, str] = MappingProxyType({}),
    ) -> Measured:
        """Choose the tolerances of pairs, measure them, and judge them.

        Args:
            pairs: What pairing says of each.
            references: The reference's records of each that hold a value.
            records: The candidate's.
            measure: Measures them at their tolerances.
            reasons: What is to be said of a pair in any case, by row.
        """
        bases = self._bases.columns(references, records)
        firsts = [known[0] for known in references]
        atol, rtol = self._tolerances(pairs, firsts, bases)
        numbers = measure(atol, rtol)
        agree, said = numbers.mismatched() == 0, dict(reasons)
        errors = [] if self._threeway is None else self._errors(pairs, self._threeway)
        golden = [row for row, one in enumerate(errors) if one is not None]
        told = np.union1d(np.flatnonzero(~agree), np.array(golden, np.int64))
        for row, metrics in zip(told.tolist(), numbers.metrics(told), strict=True):
            tolerance = Tolerance(atol=float(atol[row]), rtol=float(rtol[row]))
            agree[row], words = self._decide(metrics, tolerance, errors[row] if errors else None)
            said |= {row: words} if words else {}
        return Measured(
            builder=self._builder,
            pairs=pairs,
            numbers=numbers,
            atol=atol,
            rtol=rtol,
            bases=bases,
            agree=agree,
            errors=errors,
            reasons=said,
        )

    def _draft(self, pair: RecordPair) -> JudgedPair | Request:
        """Judge a pair as far as its elements are not needed."""
        records = self._reference.index.records
        references = tuple([records[place] for place in pair.reference])
        record = self._candidate.index.records[pair.candidate]
        is_absent = record.value is None or any(one.value is None for one in references)
        if is_absent and not is_partly_absent(references, record):
            sides = self._reference, self._candidate
            return judge_absent(self._blank(pair), references, record, pair.rule, sides)
        if not is_absent:
            refused = self._refused(references, record, pair)
            if refused is not None:
                return refused
            if self._contents.lack_elements(references, record):
                return self._judge_partly(pair, references, record)
        return Request(references, record, pair.rule, pair.candidate_rule)

    def _blank(self, pair: RecordPair) -> JudgedPair:
        """Return a pair with the verdict match, and nothing but what pairing says."""
        return self._builder.built([pair], same={"verdict": Verdict.MATCH})[0]

    def _decide(
        self, metrics: Metrics, tolerance: Tolerance, errors: GoldenErrors | None
    ) -> tuple[bool, str]:
        """Return whether a measured pair matches, and the words for a report if there are any."""
        if errors is None:
            return self._is_match(metrics, tolerance), ""
        return by_errors(
            errors,
            tolerance.atol,
            factor=self._settings.floor_factor,
            is_finite=not metrics.nonfinite_mismatched,
        )

    def _unmatched(self, unmatched: Sequence[UnmatchedRecord]) -> list[JudgedPair]:
        """Return the verdicts on records without partner."""
        of_reference = [alone.side is SideName.REFERENCE for alone in unmatched]
        both = list(zip(unmatched, of_reference, strict=True))
        indexes = (True, self._builder.reference), (False, self._builder.candidate)
        ends = {
            side: iter(endpoints(index, [one.record for one, is_known in both if is_known is side]))
            for side, index in indexes
        }
        found = [next(ends[side]) for side in of_reference]
        told = [self._absence(*each) for each in zip(unmatched, found, strict=True)]
        return build_all(
            JudgedPair,
            len(told),
            reference=[e if side else None for e, side in zip(found, of_reference, strict=True)],
            candidate=[None if side else e for e, side in zip(found, of_reference, strict=True)],
            verdict=[verdict for verdict, _ in told],
            fatal=[
                verdict is Verdict.MISSING and self._is_fatal(alone)
                for (verdict, _), alone in zip(told, unmatched, strict=True)
            ],
            reason=[reason for _, reason in told],
            covered=[alone.absence is Absence.COVERED for alone in unmatched],
        )

    def _absence(self, alone: UnmatchedRecord, found: Endpoint) -> tuple[Verdict, str]:
        """Return the verdict on a record without partner, and the reason."""
        if alone.absence is not Absence.MISSING:
            return Verdict.SKIPPED, alone.reason
        allowance = self._allowance(found)
        if found.address.role is Role.RESULT:
            return Verdict.SKIPPED, f"only the {alone.side} gives it, and it is no tensor"
        if allowance is None:
            return Verdict.MISSING, alone.reason
        return Verdict.SKIPPED, f"allowed to be missing by {allowance!r}"

    def _is_fatal(self, alone: UnmatchedRecord) -> bool:
        """Return whether the whole comparison diverges where a record has no partner."""
        is_reference = alone.side is SideName.REFERENCE
        index = self._builder.reference if is_reference else self._builder.candidate
        record = index.records[alone.record]
        is_root_output = record.role is Role.OUTPUT and index.is_root(record)
        is_left = record.role is Role.BUFFER and record.phase is Phase.UPDATE
        is_fatal = record.role in FATAL_ROLES or is_root_output or is_left
        return self._same_structure or is_fatal

    def _refused(
        self, references: tuple[RecordInfo, ...], record: RecordInfo, pair: RecordPair
    ) -> JudgedPair | None:
        """Judge a pair whose elements cannot be compared one by one; None if they can."""
        refusal = self._contents.other_shape(references, record, pair)
        reason = refusal or self._contents.other_kind(references, record)
        if not reason:
            return None
        is_plain = not refusal and pair.rule.is_identity and len(references) == 1
        same = self._forms.same(references[0], record) if is_plain else ""
        verdict = Verdict.MATCH if same else Verdict.INCOMPARABLE
        blank = self._blank(pair)
        return replace(blank, verdict=verdict, reason=same or reason, fatal=not same)

    def _judge_partly(
        self, pair: RecordPair, references: tuple[RecordInfo, ...], record: RecordInfo
    ) -> JudgedPair:
        """Judge by what was recorded instead of all elements."""
        blank = self._blank(pair)
        if not pair.candidate_rule.is_identity:
            return replace(blank, verdict=Verdict.SKIPPED, reason=NO_ELEMENTS)
        partial = Partial((self._reference, self._candidate), references, record, pair.rule)
        bases = self._bases.columns([references], [record])
        (atol,), (rtol,) = self._tolerances([pair], references[:1], bases)
        tolerance = Tolerance(atol=float(atol), rtol=float(rtol))
        judged = replace(blank, tolerance=tolerance, basis=bases.rows(np.zeros(1, np.int64))[0])
        return judge_partly(judged, partial, tolerance, self._settings.mode, self._is_match)

    def _is_match(self, metrics: Metrics, tolerance: Tolerance) -> bool:
        settings = self._settings
        return bool(agrees(Counted.of(metrics), tolerance, settings.mode, settings.allowed_share))

    def _errors(self, pairs: Sequence[RecordPair], threeway: ThreeWay) -> list[GoldenErrors | None]:
        """Return the errors of both sides of each pair against the golden run.

        Of integers there are none. Weights that a run began with were not computed: what is off
        in them is their dtype, or another weight, and the rule of elements tells those apart.
        """
        return [
            threeway.errors(known.address, found.address)
            if _is_computed(known) and default_of(known.dtype).rtol and default_of(found.dtype).rtol
            else None
            for known, found in zip(*self._ends_of(pairs), strict=True)
        ]

    def _ends_of(self, pairs: Sequence[RecordPair]) -> tuple[list[Endpoint], list[Endpoint]]:
        """Return both ends of pairs."""
        return (
            endpoints(self._builder.reference, [pair.reference[0] for pair in pairs]),
            endpoints(self._builder.candidate, [pair.candidate for pair in pairs]),
        )

    def _tolerances(
        self, pairs: Sequence[RecordPair], references: Sequence[RecordInfo], bases: BasisColumns
    ) -> tuple[Array, Array]:
        """Choose the atol and rtol of each pair, and note which rules did."""
        step = self._builder.reference.step
        atol, rtol = self._policy.choose_all(references, bases, step=step)
        if self._policy.rules:
            ends = ([end.address for end in side] for side in self._ends_of(pairs))
            self.used_rules |= self._policy.apply_rules(atol, rtol, *ends)
        return atol, rtol

    def _allowance(self, found: Endpoint) -> str | None:
        address = found.address
        for pattern in self._settings.allow_missing:
            if matches(pattern, address.module, address.class_name, address.slot):
                self.used_allowances.add(pattern)
                return pattern
        return None


def _is_computed(end: Endpoint) -> bool:
    """Return whether a run made it, and did not begin with it."""
    is_first = end.address.step == 0 and end.address.phase is not Phase.UPDATE
    return not (end.address.role in STATE_ROLES and is_first)


AS_IT_IS = 0
"""Number of the layout of pairs of one shape that take no rule."""
OTHERS = -1
"""Number of every pair that is no order of one record's elements."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Pairs of one record each whose elements are the same ones, in whatever order."""

    equal: list[int]
    """Places of those in one order whose digests say that all bits are the same."""
    small: Array
    """Places of the others that are small floating tensors, recorded as a whole; ascending."""
    layouts: Array
    """The number of the layout of each of these."""
    orders: Sequence[Array | None]
    """By that number, as ``Layouts`` gives them."""


def find_alike(reference: Index, candidate: Index, pairs: Sequence[RecordPair]) -> Alike:
    """Sort pairs; those that are neither equal nor small are left to be looked at one by one."""
    places = [
        place
        for place, pair in enumerate(pairs)
        if len(pair.reference) == 1 and not pair.candidate_rule.steps
    ]
    records = (
        [reference.records[pairs[place].reference[0]] for place in places],
        [candidate.records[pairs[place].candidate] for place in places],
    )
    values = [
        np.array([-1 if r.value is None else r.value for r in side], np.int64) for side in records
    ]
    kept = Layouts()
    layouts = kept.numbers([pairs[place] for place in places], *records)
    both = np.flatnonzero((values[0] >= 0) & (values[1] >= 0) & (layouts >= 0))
    known, found = (side[both] for side in values)
    forms: dict[tuple[str, int], int] = {}
    of_form = [_forms(side.values, forms) for side in (reference, candidate)]
    equal = (of_form[0][known] == of_form[1][found]) & (layouts[both] == AS_IT_IS)
    equal[equal] = _same_digests(reference.values, candidate.values, known[equal], found[equal])
    few = np.array([is_small(*form) for form in forms], np.bool_)
    small = ~equal
    for side, form, at in ((reference, of_form[0], known), (candidate, of_form[1], found)):
        is_whole = np.array([value.content is Content.FULL for value in side.values], np.bool_)
        small &= is_whole[at] & few[form[at]]
    every = np.array(places, np.int64)
    return Alike(
        equal=every[both[equal]].tolist(),
        small=every[both[small]],
        layouts=layouts[both[small]],
        orders=kept.orders,
    )


def is_small(dtype: str, size: int) -> bool:
    """Return whether a value can be measured in a batch: small, not empty, real floating point."""
    return 0 < size <= SMALL and is_floating(numpy_dtype(dtype))


def _forms(values: Sequence[ValueInfo], forms: dict[tuple[str, int], int]) -> Array:
    """Return the number of each value's dtype and size; new ones are added."""
    return np.array(
        [forms.setdefault((value.dtype, value.size), len(forms)) for value in values], np.int64
    )


def _same_digests(
    reference: Sequence[ValueInfo], candidate: Sequence[ValueInfo], known: Array, found: Array
) -> Array:
    """Return for each pair of values whether its digests are equal."""
    both = zip(known.tolist(), found.tolist(), strict=True)
    return np.array([reference[a].digest == candidate[b].digest for a, b in both], np.bool_)


@dataclass(slots=True)
class Layouts:
    """Numbers the layouts of pairs: a rule between two shapes, worked out once for all its pairs.

    A rule that only moves elements is an order of them: ``array.reshape(-1)[order]`` is what it
    makes of any array of that shape, so that many are laid out as rows of one matrix.
    """

    orders: list[Array | None] = field(default_factory=lambda: [None])
    """By number; None leaves the elements as they are."""
    _numbers: dict[tuple[Rule, Shape, Shape], int] = field(default_factory=dict)

    def numbers(
        self,
        pairs: Sequence[RecordPair],
        known: Sequence[RecordInfo],
        found: Sequence[RecordInfo],
    ) -> Array:
        """Return the number of each pair's layout.

        Returns:
            int64: ``AS_IT_IS``, a place in ``orders`` for small ones, or ``OTHERS``.
        """
        same = [one.shape == two.shape for one, two in zip(known, found, strict=True)]
        numbers = np.where(same, AS_IT_IS, OTHERS)
        rules = {id(pair.rule): pair.rule for pair in pairs}
        plain = {key for key, rule in rules.items() if rule.is_identity}
        if len(plain) == len(rules):
            return numbers
        # Hashing a rule takes longer than all else here, and most pairs share the object.
        seen: dict[tuple[int, Shape, Shape], int] = {}
        for place, pair in enumerate(pairs):
            if id(pair.rule) not in plain:
                key = id(pair.rule), known[place].shape, found[place].shape
                if key not in seen:
                    seen[key] = self._number(pair.rule, key[1], key[2])
                numbers[place] = seen[key]
        return numbers

    def _number(self, rule: Rule, known: Shape, found: Shape) -> int:
        key = rule, known, found
        if key not in self._numbers:
            is_order = rule.is_order and 0 < prod(known) <= SMALL
            if not (is_order and rule.fits([known], found)):
                return OTHERS
            self._numbers[key] = len(self.orders)
            places = np.arange(prod(known)).reshape(known)
            self.orders.append(rule.apply([places], found).reshape(-1))
        return self._numbers[key]
