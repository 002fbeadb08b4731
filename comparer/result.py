"""What a comparison finds: judged pairs, divergences, coverage; rendered elsewhere."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase

from .codec import UNWRITTEN, derived
from .stored import StoredPairs, earliest_of, origins_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import JSON, Address, Manifest, SourceLine, Statistics
    from padiff.pairing import PairedBy, SideName

    from .detail import Details
    from .judging.basis import Basis
    from .proving.result import Execution, Fault


class Verdict(StrEnum):
    """The judgement on a pair, or on the whole."""

    MATCH = "match"
    DIVERGED = "diverged"
    INCOMPARABLE = "incomparable"
    """Shape or dtype kind differ."""
    MISSING = "missing"
    """Only one side has it."""
    SKIPPED = "skipped"
    """Not judged, for a stated reason."""
    INCONCLUSIVE = "inconclusive"
    """Of the whole: nothing diverged, and nothing of the model's result was judged."""


DECIDED = frozenset({Verdict.MATCH, Verdict.DIVERGED})
"""Verdicts on what could be compared."""
SEVERITY = (
    Verdict.SKIPPED,
    Verdict.MATCH,
    Verdict.MISSING,
    Verdict.INCOMPARABLE,
    Verdict.DIVERGED,
)
"""Verdicts from harmless to bad; the worst one stands for a module."""


class Kind(StrEnum):
    """Whose fault a diverged pair is."""

    ORIGIN = "origin"
    """What went into it agrees."""
    INHERITED = "inherited"
    """Something that went into it, or that runs inside it, had diverged already."""


class Evidence(StrEnum):
    """What a verdict rests on."""

    ELEMENTS = "elements"
    """Every element of both sides."""
    SAMPLE = "sample"
    """Some elements at fixed positions, and statistics of all."""
    STATISTICS = "statistics"
    """Statistics of all elements: a divergence is certain, a match is not."""
    DIGEST = "digest"
    """Digests: all bits are equal, or not."""
    EXECUTION = "execution"
    """Both programs, executed in float64."""
    DESCRIPTION = "description"
    """Shape, dtype and presence."""


class Looked(StrEnum):
    """What a comparison looked at."""

    RESULT = "result"
    """What the model gives, or the loss, and what stood beside it."""
    SELECTED = "selected"
    """What the options selected, which is not the model's result."""
    RECORDED = "recorded"
    """What was selected when the dumps were recorded, which is not the model's result."""
    WEIGHTS = "weights"
    """Weights and buffers: no call was recorded."""
    ARRAYS = "arrays"
    """Arrays with names."""
    NOTHING = "nothing"
    """Nothing of the model's result, though nobody left it out."""


_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Elements agree iff ``|candidate - reference| <= atol + rtol * |reference|``."""

    atol: float
    """In the unit of the tensor, >= 0."""
    rtol: float
    """Dimensionless, >= 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """How far a candidate is from its reference.

    All over the positions at which both are finite, except the counts of nan and inf. Complex
    values by magnitude of the difference. None where there is no such position.
    """

    size: int
    """Number of elements compared."""
    mismatched: int
    """Elements that do not agree, those with nan or inf included."""
    max_abs: float | None
    """Largest absolute difference."""
    max_abs_index: tuple[int, ...] | None
    """Index of it in the candidate, the first one in C order."""
    max_rel: float | None
    """Largest ``|c - r| / |r|``; inf where only r is 0."""
    max_rel_index: tuple[int, ...] | None
    mean_abs: float | None
    """Mean absolute difference."""
    relative_l2: float | None
    """``||c - r|| / ||r||``."""
    cosine: float | None
    """``<c, r> / (||c|| ||r||)``, in [-1, 1]; None where either norm is 0."""
    needed_atol: float | None
    """Smallest atol that would pass at the rtol in force; None if none would."""
    needed_rtol: float | None
    """Smallest rtol that would pass at the atol in force; None if none would."""
    reference_mean_abs: float | None = None
    """Mean of ``|r|``, which mean mode takes rtol of; None unless asked for."""
    nan_reference: int = 0
    nan_candidate: int = 0
    inf_reference: int = 0
    inf_candidate: int = 0
    nonfinite_mismatched: int = 0
    """Positions at which nan or inf stands on one side only, or inf with the other sign."""
    hull: tuple[tuple[float, float], ...] = ()
    """Vertices (``|r|``, ``|c - r|``) of the upper convex hull: they decide at any tolerance."""

    @property
    @derived
    def mismatched_share(self) -> float:
        """The mismatched elements as a share of all, in [0, 1]; 0 for an empty tensor."""
        return self.mismatched / self.size if self.size else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenErrors:
    """The largest absolute errors of both sides of a pair against a golden run."""

    reference: float
    candidate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One side of a judged pair."""

    address: Address
    order: int
    """Execution order on its own side."""
    dtype: str
    """``none`` where the framework had None."""
    shape: tuple[int, ...]
    statistics: Statistics | None
    module_source: SourceLine | None
    """Where the module's class is defined."""
    call_site: SourceLine | None
    """The line of the user's model code that made the call."""
    call: int | None
    """Call id in its side's index."""
    module: int
    """Module id in its side's index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """One record of the candidate against what the reference says it should be."""

    reference: Endpoint | None
    """None where only the candidate has it."""
    candidate: Endpoint | None
    """None where only the reference has it."""
    verdict: Verdict
    kind: Kind | None = None
    """Set iff the verdict is diverged, incomparable or a fatal missing one."""
    metrics: Metrics | None = None
    """None if the digests are equal (``equal_digest``) or nothing could be measured."""
    tolerance: Tolerance | None = None
    basis: Basis | None = None
    """What the tolerance was chosen by; None where none was needed."""
    errors: GoldenErrors | None = None
    """Against the golden run; None without one, or where it lacks the record."""
    paired_by: PairedBy | None = None
    layout: str = ""
    """The rule from reference to candidate, as text; empty for identity."""
    candidate_layout: str = ""
    """What is done to the candidate before: a gradient of what it repeats is summed."""
    equal_digest: bool = False
    """Bit-equal: known from the digests, without reading."""
    fatal: bool = False
    """Whether it makes the whole comparison diverge."""
    reason: str = ""
    """Why it is missing, skipped or incomparable."""
    by_statistics: bool = False
    """Judged by statistics, as elements are not recorded: a divergence is certain, a match not."""
    by_digest: bool = False
    """Diverged by digests: nothing else was recorded, and they differ."""
    by_execution: bool = False
    """Whether executing both programs decided it, and no tolerance."""
    sampled_of: int | None = None
    """Elements of the whole tensor, where only ``metrics.size`` of them could be compared."""
    covered: bool = False
    """Skipped because its value is judged at another address: nothing is left unjudged."""

    @property
    @derived
    def rests_on(self) -> Evidence:
        """The kind of evidence that the verdict rests on."""
        if self.by_execution:
            return Evidence.EXECUTION
        if self.equal_digest or self.by_digest:
            return Evidence.DIGEST
        if self.by_statistics:
            return Evidence.STATISTICS
        if self.metrics is None:
            return Evidence.DESCRIPTION
        return Evidence.ELEMENTS if self.sampled_of is None else Evidence.SAMPLE

    @property
    def end(self) -> Endpoint:
        """The reference's side, or the candidate's where there is no other."""
        found = self.reference or self.candidate
        if found is None:
            raise ValueError("a pair has at least one side")
        return found

    @property
    def ends(self) -> list[Endpoint]:
        """Both sides, or the one that there is."""
        return [end for end in (self.reference, self.candidate) if end is not None]

    @property
    def is_partial(self) -> bool:
        """Return whether it was judged without all elements at hand."""
        is_part = self.by_statistics or self.by_digest or self.sampled_of is not None
        return is_part and not self.by_execution


class Entering(StrEnum):
    """What else is known of what goes into a call, besides whether its tensors agree."""

    ARGUMENT = "argument"
    """An argument that is no tensor differs."""
    CUT = "cut"
    """The flow of gradients ends in the call on one side, which therefore gets none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A diverged call, with the pair that shows it first."""

    pair: JudgedPair
    """The ends that the call and its partner have; its numbers may be those of ``judged_at``."""
    phase: Phase
    kind: Kind
    inputs_agree: bool | None
    """Whether all tensors that went into the call agree; None if nothing recorded went in."""
    entering: Entering | None = None
    evidence: tuple[str, ...] = ()
    """One line each: ``weight '.eps' differs``, ``3 of 3 inputs agree``, ``attribute eps: …``."""
    suspects: tuple[str, ...] = ()
    """Reference module paths that the evidence cannot tell apart, empty where there is one."""
    amplification: float | None = None
    """Relative error of the outputs over that of the inputs; inf if the inputs are equal."""
    judged_at: JudgedPair | None = None
    """The pair that was judged for ``pair``, where its values are judged at another address."""
    faults: tuple[Fault, ...] = ()
    """What executing both programs found here; empty where the numbers alone speak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Distinct values that got a verdict, of one side."""

    judged: int
    total: int

    @property
    @derived
    def fraction(self) -> float:
        """The share in [0, 1]; 1 where there is nothing to judge."""
        return self.judged / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One row of the paired module tree, parents before children in execution-friendly order."""

    id: int
    """Position in ``StepComparison.tree``."""
    parent: int | None
    reference: str | None
    """Module path, None where only the candidate has it."""
    candidate: str | None
    reference_class: str | None
    candidate_class: str | None
    paired_by: PairedBy | None
    worst: Mapping[Phase, Verdict]
    """The worst verdict of its own records per phase, a phase without record absent."""
    origin: bool
    """Whether one of the origins is here."""
    inherited: bool
    """Whether everything that diverged here is inherited."""
    covered: frozenset[Phase] = frozenset()
    """Phases in which every own record is covered: its value is judged at another address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedModules:
    """Two modules that were compared with each other, and how sure that is."""

    reference: str
    """Module path."""
    candidate: str
    paired_by: PairedBy
    confidence: float
    """In (0, 1], as in ``padiff.pairing.ModulePair``."""
    alternatives: tuple[str, ...] = ()
    """Paths of the candidate's modules that it could have been instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """One call of a module within a step."""

    module: str
    """Module path."""
    call: int
    """How many calls of the module came before."""

    def __str__(self) -> str:
        """Return the call as reports name it: ``encoder.0#1``, the first one without number."""
        return (self.module or "(root)") + (f"#{self.call}" if self.call else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCalls:
    """Two calls that were compared with each other, and how sure that is."""

    reference: CallPlace
    candidate: CallPlace
    paired_by: PairedBy
    confidence: float
    """In (0, 1], as in ``padiff.pairing.CallPair``."""
    alternatives: tuple[CallPlace, ...] = ()
    """The candidate's calls that it could have been instead."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepComparison:
    """One step and rank of both dumps, compared.

    The long sequences are equal to tuples of their items, but where nothing diverged made only
    when somebody looks into them.
    """

    step: int
    rank: int
    pairs: Sequence[JudgedPair]
    """All that was judged or is missing, in the reference's execution order."""
    divergences: tuple[Divergence, ...]
    """One for each diverged call or module-level record, in execution order, forward first."""
    tree: Sequence[NodeRow]
    coverage_reference: Coverage
    coverage_candidate: Coverage
    same_structure: bool
    notes: tuple[str, ...] = ()
    pairing: Sequence[PairedModules] = ()
    """The pairs of modules, in the reference's definition order."""
    calls: Sequence[PairedCalls] = ()
    """The pairs of calls, in the reference's execution order."""
    records: Sequence[tuple[tuple[int, ...], int | None]] = field(default=(), metadata=UNWRITTEN)
    """Record ids (reference's, candidate's) of each of ``pairs``, in the same order."""
    executed: Execution | None = None
    """What executing both programs says; None where that was not asked, or neither side has one."""

    def __repr__(self) -> str:
        """Return one line: which step, and what diverged in it."""
        origins = len(origins_of(self.divergences))
        text = f"step {self.step} rank {self.rank}: {len(self.pairs)} records"
        return f"<StepComparison: {text}, {len(self.divergences)} divergences, {origins} origins>"


class ReasonKind(StrEnum):
    """What keeps a comparison from being a match."""

    ONE_SIDED = "one_sided"
    """A step, a rank or a batch is on one side only."""
    DIVERGED = "diverged"
    """Records diverged."""
    INCOMPARABLE = "incomparable"
    """Records differ in shape or in the kind of dtype."""
    MISSING = "missing"
    """Records lack a counterpart."""
    COVERAGE = "coverage"
    """Too few values of a side were judged."""
    UNJUDGED = "unjudged"
    """Nothing of the model's result was judged."""


@dataclass(frozen=True, slots=True)
class VerdictReason:
    """Why a comparison is no match."""

    kind: ReasonKind
    text: str
    """One line for a reader."""
    step: int | None = None
    """The step that it is said of, and the rank; None of the whole."""
    rank: int | None = None
    detail: str = ""
    """The line without step and rank."""

    def __str__(self) -> str:
        """Return the line for a reader."""
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSide:
    """A side of which all ranks were taken together."""

    side: SideName
    ranks: tuple[int, ...]
    meshes: tuple[str, ...]
    """The grids over which its records lie, the largest first: ``dp 2 x tp 2``."""
    layouts: Mapping[str, int]
    """Records by how it is known how they lie, in one step: the largest count of all steps."""
    unknown: Mapping[str, int]
    """Records of which nothing was judged, by the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a comparison looked at, for its headline."""

    looked_at: Looked
    selected: tuple[str, ...] = ()
    """The options that narrowed it, as the command line has them."""
    unjudged: tuple[str, ...] = ()
    """Why parts of the model's result were not judged."""
    by_statistics: bool = False
    """Whether parts of the result were judged by statistics alone, which prove no match."""
    is_sampled: bool = False
    """Whether parts of the result were judged by a sample of their elements."""
    outputs: int = 0
    """Tensors of the model's result that were judged, in one step."""
    losses: int = 0
    weights: int = 0
    buffers: int = 0
    gradients: int = 0
    """Of weights."""
    records: int = 0
    """All that got a verdict, of all steps."""
    steps: int = 1
    """Steps and ranks that were compared."""
    proven: int = 0
    """Those of which execution answered all three questions with yes."""
    tolerated: int = 0
    """Results in them that were judged by tolerance, since recorded values lie before them."""
    not_run: tuple[str, ...] = ()
    """The sides that no framework ran: their values were computed from their programs."""
    recomputed: int = 0
    """Those of which the reference keeps no elements, so that they were computed again."""
    hidden: int = 0
    """Those of which the programs differ by less than rounding does to their inputs."""
    loosened: int = 0
    """Those in which execution found a difference that lies within the tolerances given."""
    logical: tuple[LogicalSide, ...] = ()
    """The sides of which ranks were taken together: they are judged by tolerance alone."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """The whole result of comparing two dumps."""

    verdict: Verdict
    """``match``, ``diverged`` or ``inconclusive``."""
    reasons: tuple[VerdictReason, ...]
    """Why it diverged or is inconclusive; empty on a match."""
    scope: Scope = Scope(looked_at=Looked.RESULT)
    """What was looked at."""
    reference: Manifest
    candidate: Manifest
    settings: Mapping[str, JSON]
    """The options that decided the verdicts."""
    notes: tuple[str, ...] = ()
    """On the whole; each step has its own."""
    details: Details | None = None
    """What was looked up besides, for a page that shows it."""
    steps: Sequence[StepComparison]

    def __bool__(self) -> bool:
        """Return whether the dumps match, so that ``assert compare(...)`` fails if they do not."""
        return self.verdict is Verdict.MATCH

    def __repr__(self) -> str:
        """Return one line: the verdict, and where it diverged first or why."""
        names = f"{self.reference.name!r} against {self.candidate.name!r}"
        return f"<Comparison: {self.verdict}, {names}{self._first_words()}>"

    def _first_words(self) -> str:
        """Return where it diverged first, else the first reason; empty on a match."""
        first = self.first
        if first is None:
            return f": {self.reasons[0]}" if self.reasons else ""
        count = len(self.origins)
        many = f" and {count - 1} more" if count > 1 else ""
        return f": first at {first.pair.end.address}{many}"

    @property
    def pairs(self) -> Iterator[JudgedPair]:
        """Iterate over the pairs of all steps, in order."""
        return (pair for step in self.steps for pair in step.pairs)

    @property
    @derived
    def counts(self) -> Mapping[str, int]:
        """Records by verdict; those whose value is judged at another address are ``covered``."""
        found: Counter[str] = Counter()
        for step in self.steps:
            if isinstance(step.pairs, StoredPairs):
                for said, times in step.pairs.said:
                    found["covered" if said.is_covered else str(said.verdict)] += times
            else:
                found.update("covered" if one.covered else str(one.verdict) for one in step.pairs)
        words = [str(one) for one in Verdict if one is not Verdict.INCONCLUSIVE]
        return {word: found[word] for word in (*words, "covered")}

    @property
    @derived
    def coverage_reference(self) -> Coverage:
        """Of all steps."""
        return _sum(step.coverage_reference for step in self.steps)

    @property
    @derived
    def coverage_candidate(self) -> Coverage:
        """Of all steps."""
        return _sum(step.coverage_candidate for step in self.steps)

    @property
    def coverage(self) -> Coverage:
        """Of the side that is covered less."""
        return min(self.coverage_reference, self.coverage_candidate, key=lambda one: one.fraction)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """On the whole and on each step."""
        return (*self.notes, *(note for step in self.steps for note in step.notes))

    @property
    def divergences(self) -> tuple[Divergence, ...]:
        """Return the divergences of all steps, earliest step first, and in it the earliest phase.

        The ranks of a step ran side by side, and share what they reduce: what diverged in the
        forward pass of one comes before the gradients of another.
        """
        return _earliest_first(
            [(step.step, found) for step in self.steps for found in step.divergences]
        )

    @property
    @derived
    def origins(self) -> tuple[Divergence, ...]:
        """The divergences that are no other's consequence."""
        found = [(step.step, one) for step in self.steps for one in origins_of(step.divergences)]
        return _earliest_first(found)

    @property
    def first(self) -> Divergence | None:
        """Return the first origin; the earliest divergence where there is none, None on a match."""
        return next(iter(self.origins), self.first_divergence)

    @property
    @derived
    def first_divergence(self) -> Divergence | None:
        """The earliest divergence, None on agreement."""
        found = ((step.step, earliest_of(step.divergences)) for step in self.steps)
        return next(iter(_earliest_first([(at, one) for at, one in found if one])), None)

    def count_inherited(self) -> int:
        """Count the divergences that are another's consequence."""
        return sum(len(step.divergences) for step in self.steps) - len(self.origins)


def _earliest_first(found: list[tuple[int, Divergence]]) -> tuple[Divergence, ...]:
    """Return divergences with their steps in the order of ``Comparison.divergences``."""
    found.sort(key=lambda one: (one[0], _PHASES.index(one[1].phase)))
    return tuple(divergence for _, divergence in found)


def _sum(parts: Iterable[Coverage]) -> Coverage:
    found = list(parts)
    return Coverage(judged=sum(one.judged for one in found), total=sum(one.total for one in found))
