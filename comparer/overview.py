"""What reports say of all pairs together, found without making those that simply agree."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .judgedpairs import JudgedPairs, remarkable
from .saying import Saying, is_within, pressure_of, saying_of, spot_of
from .stored import StoredPairs, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .judgedpairs import Columns
    from .result import JudgedPair, StepComparison
    from .saying import Spot

__all__ = ["nearest", "nearest_place", "remarkable_pairs", "sayings", "spots"]


def remarkable_pairs(
    steps: Iterable[StepComparison], is_wanted: Callable[[Saying], bool]
) -> Iterator[JudgedPair]:
    """Yield the pairs of which a summary says something, in order, but those that simply match.

    Steps of which nothing like that is said are not looked into.

    Args:
        steps: Where to look.
        is_wanted: Whether the pairs of which that is said are wanted.
    """
    for step in steps:
        pairs = step.pairs
        if isinstance(pairs, StoredPairs) and not any(is_wanted(said) for said, _ in pairs.said):
            continue
        yield from (pair for _, pair in remarkable(pairs) if is_wanted(saying_of(pair)))


def sayings(steps: Iterable[StepComparison]) -> Counter[Saying]:
    """Count the pairs of some steps by what a summary says of them."""
    counts: Counter[Saying] = Counter()
    for step in steps:
        if isinstance(step.pairs, StoredPairs):
            counts.update(dict(step.pairs.said))
            continue
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
    best: tuple[float, int, Sequence[JudgedPair]] | None = None
    for step in steps:
        found = nearest_place(step.pairs)
        if found is not None and (best is None or found[0] > best[0]):
            best = (*found, step.pairs)
    return None if best is None else best[2][best[1]]


def nearest_place(pairs: Sequence[JudgedPair]) -> tuple[float, int] | None:
    """Find of the pairs of a step what ``nearest`` finds of all.

    Returns:
        The part of its absolute tolerance that it uses up, and its place.
    """
    if isinstance(pairs, StoredPairs):
        return pairs.nearest
    looked_at, columns = _split(pairs)
    found = [(place, pair) for place, pair in looked_at if is_within(pair)]
    if columns is not None:
        plain, told = columns
        place = plain.nearest(told)
        if place is not None:
            found.append((place, pairs[place]))
    rated = [(pressure_of(pair), -place) for place, pair in found]
    best = max(rated, default=None)
    return None if best is None else (best[0], -best[1])


def _split(
    pairs: Sequence[JudgedPair],
) -> tuple[Iterable[tuple[int, JudgedPair]], Columns | None]:
    """Give the pairs that have to be looked at one by one, with their places, and the others."""
    pairs = opened(pairs)
    columns = pairs.columns() if isinstance(pairs, JudgedPairs) else None
    if columns is None or not isinstance(pairs, JudgedPairs):
        return enumerate(pairs), None
    return pairs.remarkable(), columns
