"""Judge what an optimizer did: the phase ``update``, and what it leaves for the steps after it.

A weight after the update is not held to the tolerance of a weight that was loaded: an update is
often smaller than that. What counts is how far the weights moved on the reference. Adam and its
kin divide by the gradient's own size, so that where a gradient is nothing but rounding noise the
direction of the update is noise too.

To BatchNorm's running variance torch adds unbiased batch variances, Paddle biased ones.
With momentum m (the share that stays), n elements per channel and k updates since both sides held
``r0`` and ``c0``: ``c - m**k * c0 = (r - m**k * r0) * (n - 1) / n`` if the reference is torch's. So
the difference can be told from a fault at any later step, as long as n stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np

from padiff.comparer.judgedpairs import picked, remarkable, replaced
from padiff.comparer.result import DECIDED, JudgedPair, Tolerance, Verdict
from padiff.dumpfile import Content, Phase, RecordInfo, Role
from padiff.pairing import kind_of, split_slot

from .blocks import in_double
from .metrics import measure
from .tolerance import default_of, epsilon_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import Address, Index, ModuleInfo, StepReader
    from padiff.pairing import Pairing, RecordPair

    from .blocks import Array
    from .judge import Judgement


KNOWN = (
    "known difference: torch's running variance takes the unbiased batch variance, n / (n - 1), "
    "paddle's the biased one; it agrees when that is taken into account (docs/differences.md)"
)
SLOTS = {"torch": ".running_var", "paddle": "._variance"}
ATOL, RTOL = 1e-5, 1e-4
MOST_STEPS = 100_000


class Sides(Protocol):
    """One step of both sides."""

    reference: StepReader
    candidate: StepReader

    def expected(self, pair: RecordPair) -> Array:
        """Return what the candidate should hold."""

    def found(self, pair: RecordPair) -> Array:
        """Return what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """What both sides held at the first step compared."""

    step: int
    reference: Array
    candidate: Array


@dataclass(slots=True)
class RunningVariance:
    """Follows the running variances from the first compared step on."""

    _starts: dict[tuple[int, str], _Start] = field(default_factory=dict)

    def note(self, step: Sides, pair: RecordPair, judged: JudgedPair) -> None:
        """Keep a variance as both sides held it first."""
        record = step.candidate.index.records[pair.candidate]
        if record.phase is Phase.UPDATE or not _is_variance(step, pair):
            return
        key = self._key(step, record)
        if key not in self._starts and judged.verdict == "match":
            self._starts[key] = _Start(
                step=step.candidate.index.step,
                reference=step.expected(pair).astype(np.float64),
                candidate=step.found(pair).astype(np.float64),
            )

    def explain(self, step: Sides, pair: RecordPair, judged: JudgedPair) -> str | None:
        """Report that a diverged variance is what the known difference makes of it, if it is."""
        record = step.candidate.index.records[pair.candidate]
        start = self._starts.get(self._key(step, record))
        if start is None or not _is_variance(step, pair) or judged.reference is None:
            return None
        index = step.reference.index
        module = index.modules[index.records[pair.reference[0]].module]
        count, calls = _elements(index, module)
        steps = index.step - start.step + (record.phase is Phase.UPDATE)
        if count is None or count < 2 or not 0 <= steps <= MOST_STEPS:  # noqa: PLR2004
            return None
        share = _kept(module, step.reference.framework) ** (steps * calls)
        bias = (count - 1) / count
        factor = bias if step.reference.framework == "torch" else 1 / bias
        gained = step.expected(pair).astype(np.float64) - share * start.reference
        wanted = share * start.candidate + gained * factor
        metrics = measure(
            wanted, step.found(pair).astype(np.float64), Tolerance(atol=ATOL, rtol=RTOL)
        )
        return KNOWN if metrics.mismatched == 0 else None

    @staticmethod
    def _key(step: Sides, record: RecordInfo) -> tuple[int, str]:
        index = step.candidate.index
        return index.rank, index.modules[record.module].path + record.slot


def _is_variance(step: Sides, pair: RecordPair) -> bool:
    frameworks = step.reference.framework, step.candidate.framework
    if set(frameworks) != set(SLOTS) or len(pair.reference) != 1:
        return False
    index = step.reference.index
    record = index.records[pair.reference[0]]
    return (
        record.role is Role.BUFFER
        and record.slot == SLOTS[frameworks[0]]
        and kind_of(index.modules[record.module]) == "batch_norm"
    )


def _kept(module: ModuleInfo, framework: str) -> float:
    """Return the share of the running value that an update keeps."""
    momentum = module.attributes.get("momentum", module.attributes.get("_momentum"))
    if not isinstance(momentum, int | float):
        return 0.9
    return 1.0 - momentum if framework == "torch" else float(momentum)


def _elements(index: Index, module: ModuleInfo) -> tuple[int | None, int]:
    """Return the elements per channel of a module's training calls, and how many there are."""
    calls = {call.id for call in index.calls if call.module == module.id and call.training}
    sizes = {
        prod(record.shape) // record.shape[1]
        for record in index.records
        if record.call in calls and record.role is Role.INPUT and len(record.shape) > 1
        if record.shape[1]
    }
    return (sizes.pop(), len(calls)) if len(sizes) == 1 else (None, len(calls))


ULPS = 4.0
"""Rounding of a weight when the update is added to it, in spacings of the largest weight."""
LARGEST_SHARE = 0.1
"""What part of the largest update an element's update may be off, at most (half precision)."""
SHARE_OF_EPSILON = 1e4
"""The same in epsilons: 1.2e-3 in float32. A gradient of 1e-3 of the model's largest may be off
by as much by rounding (noise 1e-6 of the largest), and normalising optimizers pass that on."""
NOISE_SHARE = 1e-3
"""Gradients below this part of the model's largest (or ULPS of its dtype) may be off by more."""
SWING = 2.5
"""How far an element whose gradient is noise may be off, in largest updates; 2 is the opposite
direction."""
STATE_ATOL = 3e-5
"""Part of the largest element of that name, as for gradients (1e-5), for squares of them too; where
products are taken in half precision, ULPS of that, if that is more."""
SCALAR_RTOL = {Role.LR: 1e-6, Role.NAMED: 1e-4}
"""Learning rates come from equal formulas in double precision, norms from single ones."""

PASSED_ON = 2.0
"""How much more than what an update is made of the update itself may be off, relative to the larger
update of both sides: a moment over the root of the other, each off by as much, is off by 1.5. Where
a gradient is 0 but for rounding, Adam's epsilon may keep one side's update small and not the
other's."""

DRIFT_FACTOR = 8.0
"""How much more than its weights a module's outputs and gradients may be apart: an element's
distance is multiplied by the input. Of 1e8 normalised inputs the largest is sqrt(2 ln 1e8) = 6;
measured are 3.6 at width 384."""

DRIFTED = "within what rounding in earlier updates explains"
NOISE = "differs only where the gradient is rounding noise, which the optimizer scales up"
PASSED = "differs no more than the gradient and what the optimizer keeps, which agree, explain"
AS_BEFORE = "as after the update of an earlier step, where it was judged"


@dataclass(slots=True)
class _Left:
    """What the updates of one rank left to its later steps."""

    accepted: set[tuple[tuple[str, ...], str]] = field(default_factory=set)
    """Digests of pairs that matched after an update."""
    drift: float = 0.0
    """How far weights are apart by rounding alone, in default tolerances."""


@dataclass(slots=True)
class TrainingJudge:
    """Judges updates step by step; remembers what later steps begin with."""

    settings: CompareSettings
    _left: dict[int, _Left] = field(default_factory=dict)
    """By rank: what is explained on one says nothing of another."""
    _variances: RunningVariance = field(default_factory=RunningVariance)

    def settle(
        self, judgement: Judgement, pairing: Pairing, reference: StepReader, candidate: StepReader
    ) -> Judgement:
        """Return the judgement with updates judged by what they are."""
        open_ones = list(_open_ones(judgement, pairing, reference.index))
        if not open_ones:
            return judgement
        settled: dict[int, JudgedPair] = {}
        step = UpdateSides(reference, candidate, pairing)
        left = self._left.setdefault(reference.index.rank, _Left())
        drift = 0.0 if self.settings.is_literal else left.drift
        # Weights after the rest: they are judged by what they were made of, too.
        for place, pair, address in sorted(open_ones, key=lambda one: step.is_new_weight(one[1])):
            judged = judgement.pairs[place]
            if not step.has_elements(pair):
                continue
            if address.phase is Phase.UPDATE and judged.metrics is not None:
                judged = self._update(step, pair, judged)
            elif judged.verdict is Verdict.DIVERGED and step.digests(pair) in left.accepted:
                judged = _matching(judged, AS_BEFORE)
            self._variances.note(step, pair, judged)
            if judged.verdict is Verdict.DIVERGED and address.role is Role.BUFFER:
                reason = self._variances.explain(step, pair, judged)
                judged = judged if reason is None else _matching(judged, reason)
            judged = _within(judged, drift)
            if judged.verdict is Verdict.DIVERGED:
                step.diverged.add(pair.candidate)
            if address.phase is Phase.UPDATE and judged.verdict is Verdict.MATCH:
                left.accepted.add(step.digests(pair))
                if address.role is Role.WEIGHT:
                    left.drift = max(left.drift, step.excess(pair))
            settled[place] = judged
        return replace(judgement, pairs=replaced(judgement.pairs, settled))

    def _update(self, step: UpdateSides, pair: RecordPair, judged: JudgedPair) -> JudgedPair:
        if self._is_ruled(judged):
            return judged
        least = self.settings.atol or 0.0
        references = [step.known(place) for place in pair.reference]
        role = references[0].role
        if role is Role.WEIGHT:
            return _judge_weight(step, pair, judged, least)
        if role is Role.OPTIMIZER_STATE:
            share = max(STATE_ATOL, ULPS * _epsilon(judged, is_model=True))
            atol = share * step.states.get(split_slot(references[0].slot)[1], 0.0)
            rtol = 0.0 if judged.tolerance is None else judged.tolerance.rtol
            return step.judged(pair, judged, Tolerance(atol=max(atol, least), rtol=rtol))
        if role in SCALAR_RTOL:
            rtol = max(SCALAR_RTOL[role], ULPS * _epsilon(judged, is_model=role is not Role.LR))
            return step.judged(pair, judged, Tolerance(atol=least, rtol=rtol))
        return judged

    def _is_ruled(self, judged: JudgedPair) -> bool:
        """Return whether the user chose the tolerance; an atol alone only loosens it."""
        ends, settings = [end.address for end in judged.ends], self.settings
        return settings.rtol is not None or any(rule.applies_to(*ends) for rule in settings.rules)


def _open_ones(
    judgement: Judgement, pairing: Pairing, reference: Index
) -> Iterator[tuple[int, RecordPair, Address]]:
    """Yield (place, pair, address) of the pairs whose verdict may change, in order."""
    records = pairing.records
    places = {place for place, _ in remarkable(judgement.pairs) if place < len(records)}
    update, buffer = Phase.UPDATE, Role.BUFFER
    left = {
        record.id for record in reference.records if record.phase is update or record.role is buffer
    }
    if left:
        pairs = enumerate(records)
        places |= {place for place, pair in pairs if not left.isdisjoint(pair.reference)}
    ordered = sorted(places)
    for place, judged in zip(ordered, picked(judgement.pairs, ordered), strict=True):
        address = _open_address(judged)
        if address is not None:
            yield place, records[place], address


def _open_address(judged: JudgedPair) -> Address | None:
    """Return where a pair stands whose verdict may change; None for what was loaded and agrees."""
    if judged.reference is None or judged.verdict not in DECIDED:
        return None
    address = judged.reference.address
    is_left = address.phase is Phase.UPDATE or address.role is Role.BUFFER
    return address if is_left or judged.verdict is Verdict.DIVERGED else None


def _within(judged: JudgedPair, drift: float) -> JudgedPair:
    """Let pass what rounding in earlier updates explains; rates and updates it does not."""
    end, metrics, tolerance = judged.reference, judged.metrics, judged.tolerance
    if judged.verdict is not Verdict.DIVERGED or end is None or tolerance is None:
        return judged
    is_own = end.address.role in (Role.LR, Role.WEIGHT)
    if is_own or metrics is None or metrics.needed_atol is None:
        return judged
    if metrics.needed_atol > DRIFT_FACTOR * drift * tolerance.atol:
        return judged
    return _matching(judged, DRIFTED)


def _judge_weight(
    step: UpdateSides, pair: RecordPair, judged: JudgedPair, least: float
) -> JudgedPair:
    """Judge how an update moved a weight by how it moved the reference's.

    From where the candidate's weight was: what earlier updates left is not held against this one.
    """
    befores, started = step.befores(pair), step.found_before(pair)
    if befores is None or started is None or None in (judged.reference, judged.candidate):
        return judged
    before = in_double(step.expected(pair, befores))
    moved = in_double(step.expected(pair)) - before
    if not moved.size or not np.isfinite(moved).all():
        return judged
    expected = in_double(started) + moved
    largest_move = float(np.abs(moved).max())
    share = min(LARGEST_SHARE, SHARE_OF_EPSILON * _epsilon(judged, is_model=True))
    rounding = ULPS * _epsilon(judged) * float(np.abs(expected).max())
    atol = max(rounding, share * largest_move, least)
    judged = step.judged(pair, judged, Tolerance(atol=atol, rtol=0.0), expected=expected)
    if judged.verdict is not Verdict.DIVERGED:
        return judged
    noise = max(NOISE_SHARE, ULPS * _epsilon(judged, is_model=True))
    if _is_noise(step, pair, expected, atol, largest_move, noise):
        return _matching(judged, NOISE)
    found = in_double(step.found(pair))
    distance = np.abs(found - expected)
    larger = np.maximum(np.abs(moved), np.abs(found - in_double(started)))
    passed_on = PASSED_ON * step.differs_by(pair) * larger
    return _matching(judged, PASSED) if (distance <= atol + passed_on).all() else judged


def _epsilon(judged: JudgedPair, *, is_model: bool = False) -> float:
    """Return the rounding of a pair's coarser side, or of the coarser model if that is more."""
    dtypes = judged.basis.model_dtypes if is_model and judged.basis is not None else ()
    return max(map(epsilon_of, (*(end.dtype for end in judged.ends), *dtypes)))


def _is_noise(
    step: UpdateSides, pair: RecordPair, after: Array, atol: float, moved: float, noise: float
) -> bool:
    """Return whether only elements differ whose gradient is noise, and no more than it explains."""
    gradients = step.gradients(pair)
    if gradients is None:
        return False
    gradient = np.abs(in_double(step.expected(pair, gradients)))
    distance = np.abs(in_double(step.found(pair)) - after)
    bad = ~(distance <= atol)
    is_small = gradient <= noise * step.largest_gradient
    return bool((is_small[bad] & (distance[bad] <= SWING * moved + atol)).all())


def _matching(judged: JudgedPair, reason: str) -> JudgedPair:
    return replace(judged, verdict=Verdict.MATCH, fatal=False, reason=reason)


class UpdateSides:
    """Both sides of a step, with what updates are judged by."""

    def __init__(self, reference: StepReader, candidate: StepReader, pairing: Pairing) -> None:
        """Look up what weights were before, their gradients, and what the optimizer keeps."""
        self.reference = reference
        self.candidate = candidate
        self.pairing = pairing
        self._before: dict[tuple[int, str], RecordInfo] = {}
        self._found_before = {
            (record.module, record.slot): record
            for record in candidate.index.records
            if record.role is Role.WEIGHT and record.phase is not Phase.UPDATE
        }
        self._gradients: dict[tuple[int, str], RecordInfo] = {}
        self.largest_gradient = 0.0
        """The largest element of all gradients of weights of the reference."""
        self._made_of: dict[tuple[int, str], dict[str, RecordPair]] | None = None
        self.diverged: set[int] = set()
        """Records of the candidate."""
        self.states: dict[str, float] = {}
        for record in reference.index.records:
            place = record.module, record.slot
            if record.role is Role.WEIGHT and record.phase is not Phase.UPDATE:
                self._before[place] = record
            elif record.role is Role.WEIGHT_GRAD and record.value is not None:
                self._gradients[place] = record  # the later one is what the update took
                self.largest_gradient = max(self.largest_gradient, self._size(record))
            elif record.role is Role.OPTIMIZER_STATE:
                name = split_slot(record.slot)[1]
                self.states[name] = max(self.states.get(name, 0.0), self._size(record))

    def known(self, record: int) -> RecordInfo:
        """Return a record of the reference."""
        return self.reference.index.records[record]

    def is_new_weight(self, pair: RecordPair) -> bool:
        """Return whether a pair is of weights after the update."""
        record = self.candidate.index.records[pair.candidate]
        return record.role is Role.WEIGHT and record.phase is Phase.UPDATE

    def digests(self, pair: RecordPair) -> tuple[tuple[str, ...], str]:
        """Return what identifies the two contents of a pair."""
        sides = self.reference.index, self.candidate.index
        values = [sides[0].records[record].value for record in pair.reference]
        found = sides[1].records[pair.candidate].value
        return (
            tuple("" if value is None else sides[0].values[value].digest for value in values),
            "" if found is None else sides[1].values[found].digest,
        )

    def has_elements(self, pair: RecordPair) -> bool:
        """Return whether all elements of both sides were recorded."""
        sides = self.reference.index, self.candidate.index
        values = [sides[0].records[record].value for record in pair.reference]
        found = sides[1].records[pair.candidate].value
        contents = [sides[0].values[value].content for value in values if value is not None]
        if found is not None:
            contents.append(sides[1].values[found].content)
        return all(content is Content.FULL for content in contents)

    def expected(self, pair: RecordPair, arrays: Sequence[Array] | None = None) -> Array:
        """Return what the candidate should hold, of the pair's own or of other reference arrays."""
        shape = self.candidate.index.records[pair.candidate].shape
        if arrays is None:
            arrays = [self.reference.array(self.known(place)) for place in pair.reference]
        return pair.rule.apply(arrays, shape)

    def found(self, pair: RecordPair) -> Array:
        """Return what the candidate holds."""
        return self.candidate.array(self.candidate.index.records[pair.candidate])

    def excess(self, pair: RecordPair) -> float:
        """Return how far a weight is from the reference's, in default tolerances of its dtype."""
        wanted = in_double(self.expected(pair))
        distance = np.abs(in_double(self.found(pair)) - wanted)
        if not wanted.size:
            return 0.0
        name = self.candidate.index.values[
            self.candidate.index.records[pair.candidate].value or 0
        ].dtype
        tolerance = default_of(name)
        allowed = tolerance.atol + tolerance.rtol * np.abs(wanted)
        return float((distance / allowed).max()) if tolerance.atol else 0.0

    def befores(self, pair: RecordPair) -> list[Array] | None:
        """Return the reference's weights before the update, None if one is not known."""
        return self._arrays(self._before, pair)

    def found_before(self, pair: RecordPair) -> Array | None:
        """Return the candidate's weight before the update, None if it is not known."""
        record = self.candidate.index.records[pair.candidate]
        before = self._found_before.get((record.module, record.slot))
        return None if before is None else self.candidate.array(before)

    def gradients(self, pair: RecordPair) -> list[Array] | None:
        """Return the gradients that the reference's update took, None if one is not known."""
        return self._arrays(self._gradients, pair)

    def differs_by(self, pair: RecordPair) -> Array:
        """Return how far the gradient and the optimizer's tensors of a weight are apart.

        Returns:
            Shaped as the candidate's weight: the largest relative difference, in [0, 2]; 0 if one
            of them diverged.
        """
        record = self.candidate.index.records[pair.candidate]
        found = np.zeros(record.shape)
        made_of = self._ingredients().get((record.module, record.slot), {}).values()
        if any(other.candidate in self.diverged for other in made_of):
            return found
        for other in made_of:
            known, had = self.expected(other), self.found(other)
            if had.shape == record.shape and self.has_elements(other):
                size = np.maximum(np.abs(known), np.abs(had)).astype(np.float64)
                distance = np.abs(in_double(had) - known)
                found = np.fmax(
                    found, np.divide(distance, size, where=size > 0, out=np.zeros_like(size))
                )
        return found

    def _ingredients(self) -> dict[tuple[int, str], dict[str, RecordPair]]:
        """Return what each weight's update is made of, by the candidate's module and slot."""
        if self._made_of is None:
            self._made_of = {}
            for pair in self.pairing.records:
                record = self.candidate.index.records[pair.candidate]
                slot, name = record.slot, ""
                if record.role is Role.OPTIMIZER_STATE:
                    slot, name = split_slot(record.slot)
                elif record.role is not Role.WEIGHT_GRAD:
                    continue
                if record.value is not None and all(
                    self.known(one).value is not None for one in pair.reference
                ):
                    self._made_of.setdefault((record.module, slot), {})[name] = pair
        return self._made_of

    def judged(
        self,
        pair: RecordPair,
        judged: JudgedPair,
        tolerance: Tolerance,
        *,
        expected: Array | None = None,
    ) -> JudgedPair:
        """Judge a pair by another tolerance, or against something else than the reference.

        A measured noise floor that is larger takes its place.
        """
        noise = None if judged.basis is None else judged.basis.noise
        tolerance = replace(tolerance, atol=max(tolerance.atol, noise or 0.0))
        wanted = self.expected(pair) if expected is None else expected
        metrics = measure(wanted, self.found(pair).astype(wanted.dtype), tolerance)
        is_match = metrics.mismatched == 0
        return replace(
            judged,
            verdict=Verdict.MATCH if is_match else Verdict.DIVERGED,
            metrics=metrics,
            tolerance=tolerance,
            fatal=not is_match,
        )

    def _arrays(
        self, known: dict[tuple[int, str], RecordInfo], pair: RecordPair
    ) -> list[Array] | None:
        ends = [self.known(place) for place in pair.reference]
        records = [known.get((end.module, end.slot)) for end in ends]
        return [self.reference.array(one) for one in records if one] if all(records) else None

    def _size(self, record: RecordInfo) -> float:
        if record.value is None:
            return 0.0
        found = self.reference.index.values[record.value].statistics
        return max(abs(found.minimum or 0.0), abs(found.maximum or 0.0))
