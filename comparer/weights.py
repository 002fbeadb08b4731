"""Compare the values of two sets of weights, pair by pair, through a weight plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import CompareError, dtype_name
from padiff.program import UNIT_ROUNDOFF

from .judging.basis import Basis
from .judging.metrics import measure
from .judging.tolerance import TolerancePolicy
from .proving import Made, making_of
from .result import Metrics, Tolerance, Verdict

if TYPE_CHECKING:
    from padiff.pairing import Side
    from padiff.pairing.weights.weight_plan import WeightPair, WeightPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTolerance:
    """What the user asked for; None takes the default of the dtypes."""

    atol: float | None = None
    rtol: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedWeight:
    """A pair of the plan with its verdict."""

    pair: WeightPair
    verdict: Verdict
    tolerance: Tolerance
    metrics: Metrics | None = None
    """None where the two could not be compared."""
    made: Made | None = None
    """How the candidate's is made of what it should hold, where it diverged and that is known."""

    @property
    def is_match(self) -> bool:
        """Return whether the candidate holds what it should."""
        return self.verdict is Verdict.MATCH


def compare_weights(
    reference: Side, candidate: Side, plan: WeightPlan, tolerance: WeightTolerance
) -> tuple[JudgedWeight, ...]:
    """Judge every pair of the plan, in the plan's order."""
    policy = TolerancePolicy(atol=tolerance.atol, rtol=tolerance.rtol)
    judged = []
    for pair in plan.pairs:
        target = candidate.index.records[pair.candidate]
        sources = [reference.index.records[one] for one in pair.reference]
        found = candidate.array(target)
        parts = [reference.array(one) for one in sources]
        expected = pair.rule.apply(parts, target.shape)
        chosen = policy.choose(
            reference.index.address(sources[0]),
            candidate.index.address(target),
            Basis(dtypes=(dtype_name(expected.dtype), dtype_name(found.dtype))),
        )
        try:
            metrics = measure(expected, found, chosen)
        except CompareError:
            judged.append(JudgedWeight(pair=pair, verdict=Verdict.INCOMPARABLE, tolerance=chosen))
            continue
        verdict, made = Verdict.MATCH, None
        if metrics.mismatched:
            dtypes = dtype_name(expected.dtype), dtype_name(found.dtype)
            unit = max(UNIT_ROUNDOFF.get(dtype, 0.0) for dtype in dtypes)
            verdict, made = Verdict.DIVERGED, making_of(pair.rule, parts, found, unit)
        judged.append(
            JudgedWeight(pair=pair, verdict=verdict, tolerance=chosen, metrics=metrics, made=made)
        )
    return tuple(judged)
