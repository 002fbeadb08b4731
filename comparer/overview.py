"""What reports say of all pairs together, found without making those that simply agree."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .judgedpairs import JudgedPairs, remarkable
from .saying import Saying, is_within, pressure_of, saying_of, spot_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .judgedpairs import Columns
    from .result import JudgedPair, StepComparison
    from .saying import Spot

__all__ = ["nearest", "remarkable_pairs", "sayings", "spots"]


def remarkable_pairs(steps: Iterable[StepComparison]) -> list[JudgedPair]:
    """Give at least all pairs that do not match, are fatal, or have a reason, in order."""
    return [pair for step in steps for _, pair in remarkable(step.pairs)]


def sayings(steps: Iterable[StepComparison]) -> Counter[Saying]:
    """Count the pairs of some steps by what a summary says of them."""
    counts: Counter[Saying] = Counter()
    for step in steps:
        looked_at, columns = _split(step.pairs)
        counts.update(saying_of(pair) for _, pair in looked_at)
        if columns is not None:
            plain, told = columns
            counts.update(plain.sayings(told))
    return counts


def spots(pairs: Sequence[JudgedPair]) -> list[Spot]:
    """Give all spots of a step's pairs, each once, in the order of the first pair there."""
    looked_at, columns = _split(pairs)
    found = ((place, spot_of(pair)) for place, pair in looked_at)
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
    return max(filter(None, found), key=pressure_of, default=None)


def _nearest(pairs: Sequence[JudgedPair]) -> JudgedPair | None:
    looked_at, columns = _split(pairs)
    found = [(place, pair) for place, pair in looked_at if is_within(pair)]
    if columns is not None:
        plain, told = columns
        place = plain.nearest(told)
        if place is not None:
            found.append((place, pairs[place]))
    best = max(found, key=lambda one: (pressure_of(one[1]), -one[0]), default=None)
    return None if best is None else best[1]


def _split(
    pairs: Sequence[JudgedPair],
) -> tuple[Iterable[tuple[int, JudgedPair]], Columns | None]:
    """Give the pairs that have to be looked at one by one, with their places, and the others."""
    columns = pairs.columns() if isinstance(pairs, JudgedPairs) else None
    if columns is None or not isinstance(pairs, JudgedPairs):
        return enumerate(pairs), None
    return pairs.remarkable(), columns
