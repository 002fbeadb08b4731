"""What reports say of all pairs together, found without making those that simply agree."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from padiff.dumpfile import Role

from .judgedpairs import JudgedPairs, remarkable
from .result import Evidence, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.dumpfile import Phase

    from .judgedpairs import Columns
    from .result import JudgedPair, Metrics, StepComparison, Tolerance

__all__ = [
    "Saying",
    "Spot",
    "nearest",
    "pressure",
    "remarkable_pairs",
    "sayings",
    "spots",
]

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


def remarkable_pairs(steps: Iterable[StepComparison]) -> list[JudgedPair]:
    """Give at least all pairs that do not match, are fatal, or have a reason, in order."""
    return [pair for step in steps for _, pair in remarkable(step.pairs)]


def sayings(steps: Iterable[StepComparison]) -> Counter[Saying]:
    """Count the pairs of some steps by what a summary says of them."""
    counts: Counter[Saying] = Counter()
    for step in steps:
        looked_at, columns = _split(step.pairs)
        counts.update(_saying(pair) for _, pair in looked_at)
        if columns is not None:
            plain, told = columns
            counts.update(plain.sayings(told))
    return counts


def spots(pairs: Sequence[JudgedPair]) -> list[Spot]:
    """Give all spots of a step's pairs, each once, in the order of the first pair there."""
    looked_at, columns = _split(pairs)
    found = ((place, _spot(pair)) for place, pair in looked_at)
    if columns is None:
        return list(dict.fromkeys(spot for _, spot in found))
    plain, told = columns
    both = sorted([*found, *plain.spots(told)], key=lambda one: one[0])
    return list(dict.fromkeys(spot for _, spot in both))


def nearest(steps: Iterable[StepComparison]) -> JudgedPair | None:
    """Find the first matching pair that uses up most of its absolute tolerance.

    None where no matching pair differs, or all that do were excused for a reason.
    """
    found = [_nearest(step.pairs) for step in steps]
    return max(filter(None, found), key=_pressure, default=None)


def _nearest(pairs: Sequence[JudgedPair]) -> JudgedPair | None:
    looked_at, columns = _split(pairs)
    found = [(place, pair) for place, pair in looked_at if _is_within(pair)]
    if columns is not None:
        plain, told = columns
        place = plain.nearest(told)
        if place is not None:
            found.append((place, pairs[place]))
    best = max(found, key=lambda one: (_pressure(one[1]), -one[0]), default=None)
    return None if best is None else best[1]


def pressure(metrics: Metrics | None, tolerance: Tolerance | None) -> float:
    """Give the part of its absolute tolerance that a pair needs; 0 where that is not known or 0."""
    if metrics is None or metrics.needed_atol is None or tolerance is None:
        return 0.0
    return metrics.needed_atol / tolerance.atol if tolerance.atol else 0.0


def _split(
    pairs: Sequence[JudgedPair],
) -> tuple[Iterable[tuple[int, JudgedPair]], Columns | None]:
    """Give the pairs that have to be looked at one by one, with their places, and the others."""
    columns = pairs.columns() if isinstance(pairs, JudgedPairs) else None
    if columns is None or not isinstance(pairs, JudgedPairs):
        return enumerate(pairs), None
    return pairs.remarkable(), columns


def _saying(pair: JudgedPair) -> Saying:
    role = pair.end.address.role
    return Saying(
        pair.verdict, pair.rests_on, role, pair.equal_digest, pair.covered, pair.is_partial
    )


def _spot(pair: JudgedPair) -> Spot:
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


def _is_within(pair: JudgedPair) -> bool:
    """Tell whether a pair differs and matches, and not because it was excused."""
    has_gap = pair.metrics is not None and bool(pair.metrics.max_abs)
    return pair.verdict is Verdict.MATCH and has_gap and not pair.reason


def _pressure(pair: JudgedPair) -> float:
    return pressure(pair.metrics, pair.tolerance)
