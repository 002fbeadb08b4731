"""BatchNorm's running variance: torch adds unbiased batch variances, Paddle biased ones.

With momentum m (the share that stays), n elements per channel and k updates since both sides held
``r0`` and ``c0``: ``c - m**k * c0 = (r - m**k * r0) * (n - 1) / n`` if the reference is torch's. So
the difference can be told from a fault at any later step, as long as n stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np

from padiff.comparer.result import Tolerance
from padiff.dumpfile import Phase, Role
from padiff.pairing import kind_of

from .metrics import measure

if TYPE_CHECKING:
    from padiff.comparer.result import JudgedPair
    from padiff.dumpfile import Index, ModuleInfo, RecordInfo, StepReader
    from padiff.pairing import RecordPair

    from .blocks import Array


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
