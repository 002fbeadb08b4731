"""What reports say of one pair: in a summary, in a module tree, and of how near its limit it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from padiff.dumpfile import Role

from .result import Evidence, Verdict

if TYPE_CHECKING:
    from padiff.dumpfile import Phase

    from .result import JudgedPair, Metrics, Tolerance

__all__ = ["Saying", "Spot", "is_within", "pressure", "pressure_of", "saying_of", "spot_of"]

_ARGUMENTS = (Role.INPUT, Role.GRAD_INPUT)


class Saying(NamedTuple):
    """What a summary says of a pair."""

    verdict: Verdict
    rests_on: Evidence
    role: Role
    is_equal: bool
    """Bit-equal, known from the digests."""
    is_covered: bool = False
    is_partial: bool = False
    """Judged without all elements at hand."""


class Spot(NamedTuple):
    """What a module tree says of a pair, and the module of which it says that."""

    module: int
    """Module id in the reference's index, or in the candidate's if that alone has it."""
    phase: Phase
    verdict: Verdict
    is_candidates: bool = False
    """Whether the candidate alone has it."""
    is_covered: bool = False
    is_argument: bool = False
    """Whether it is something that one side's call alone is given."""


def saying_of(pair: JudgedPair) -> Saying:
    """Return what a summary says of a pair."""
    role = pair.end.address.role
    return Saying(
        pair.verdict, pair.rests_on, role, pair.equal_digest, pair.covered, pair.is_partial
    )


def spot_of(pair: JudgedPair) -> Spot:
    """Return what a module tree says of a pair."""
    end = pair.end
    is_alone = pair.reference is None or pair.candidate is None
    is_open = pair.verdict is Verdict.MISSING and not pair.fatal
    return Spot(
        end.module,
        end.address.phase,
        pair.verdict,
        pair.reference is None,
        pair.covered,
        is_alone and is_open and end.address.role in _ARGUMENTS,
    )


def is_within(pair: JudgedPair) -> bool:
    """Return whether a pair differs and matches, and not because it was excused."""
    has_gap = pair.metrics is not None and bool(pair.metrics.max_abs)
    return pair.verdict is Verdict.MATCH and has_gap and not pair.reason


def pressure(metrics: Metrics | None, tolerance: Tolerance | None) -> float:
    """Return the part of its absolute tolerance that a pair needs; 0 if unknown or none."""
    if metrics is None or metrics.needed_atol is None or tolerance is None:
        return 0.0
    return metrics.needed_atol / tolerance.atol if tolerance.atol else 0.0


def pressure_of(pair: JudgedPair) -> float:
    """Return the part of its absolute tolerance that a judged pair needs."""
    return pressure(pair.metrics, pair.tolerance)
