"""Which units of one place words single out: those whose best partner no other comes near."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import places_in, weight_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["told_by_words"]

Words = frozenset[str]
Group = tuple[Words, bool, Words]
"""The words that count, whether they name a norm, and those that say where it stands."""
Floats = npt.NDArray[np.float64]

_MARGIN = 0.1
"""By how much the best partner by words must beat the second."""
_MAX_CELLS = 4_000_000
"""Of more different names than give so many pairs, none is told by its words."""


def told_by_words(
    ours: Sequence[Words], theirs: Sequence[Words], silent: Words = frozenset()
) -> list[tuple[int, int]]:
    """Pair the names that single each other out, clearly better than with any other.

    What is paired no longer stands in the way of others, until nothing more is clear. Of norms,
    words count only if they say alike where they stand.

    Args:
        ours: Words of each name of one side.
        theirs: Those of the other.
        silent: Words that say what all of them are, and so nothing.

    >>> told_by_words([frozenset({"q"}), frozenset({"k", "x"})], [frozenset("k"), frozenset("q")])
    [(0, 1), (1, 0)]
    """
    common = frozenset.intersection(*ours, *theirs) | silent
    shared = frozenset().union(*ours) & frozenset().union(*theirs)
    members = [_grouped(side, common, shared) for side in (ours, theirs)]
    groups = [list(side) for side in members]
    if not groups[0] or not groups[1] or len(groups[0]) * len(groups[1]) > _MAX_CELLS:
        return []
    places = [list(side.values()) for side in members]
    single = [np.array([len(one) == 1 for one in side]) for side in places]
    found = [
        (places[0][row][0], places[1][column][0])
        for row, column in _settled(_scores(groups[0], groups[1]), single[0], single[1])
    ]
    return sorted(found)


def _grouped(names: Sequence[Words], common: Words, shared: Words) -> dict[Group, list[int]]:
    """Give the places of each name that has a word of the other side; alike names are as likely."""
    found: dict[Group, list[int]] = {}
    for place, words in enumerate(names):
        kept = words - common
        if not kept.isdisjoint(shared):
            is_norm = any(word.endswith("norm") or word == "bn" for word in words)
            found.setdefault((kept, is_norm, places_in(words)), []).append(place)
    return found


def _scores(ours: Sequence[Group], theirs: Sequence[Group]) -> Floats:
    """Give the likeness of all names of one side with all of the other."""
    both = [frozenset().union(*(kept for kept, _, _ in side)) for side in (ours, theirs)]
    words = sorted(both[0] & both[1])
    columns = {word: place for place, word in enumerate(words)}
    weights = np.array([weight_of([word]) for word in words])
    one, two = _encoded(ours, columns), _encoded(theirs, columns)
    common = (one * weights) @ two.T
    totals = [np.array([weight_of(kept) for kept, _, _ in side]) for side in (ours, theirs)]
    union = totals[0][:, None] + totals[1][None, :] - common
    scores = np.divide(common, union, out=np.zeros_like(union), where=union > 0)
    is_norm = [np.array([group[1] for group in side]) for side in (ours, theirs)]
    numbers: dict[Words, int] = {}
    stands = [
        np.array([numbers.setdefault(group[2], len(numbers)) for group in side])
        for side in (ours, theirs)
    ]
    is_free = ~(is_norm[0][:, None] | is_norm[1][None, :])
    return np.asarray(scores * (is_free | (stands[0][:, None] == stands[1][None, :])))


def _encoded(groups: Sequence[Group], columns: dict[str, int]) -> Floats:
    found = np.zeros((len(groups), len(columns)))
    for row, (kept, _, _) in enumerate(groups):
        found[row, [columns[word] for word in kept if word in columns]] = 1.0
    return found


def _settled(
    scores: Floats, single_rows: npt.NDArray[np.bool_], single_columns: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """Take the clear pairs out again and again; a name of several units is none of them."""
    rows, columns = np.arange(scores.shape[0]), np.arange(scores.shape[1])
    while scores.size:
        places = np.arange(len(rows))
        best = scores.argmax(axis=1)
        top = scores[places, best]
        second = np.maximum(_second(scores), _second_below(scores, best))
        is_clear = (top >= second + _MARGIN) & single_rows[rows] & single_columns[columns[best]]
        if not is_clear.any():
            return
        yield from zip(rows[is_clear].tolist(), columns[best[is_clear]].tolist(), strict=True)
        keep = np.ones(len(columns), np.bool_)
        keep[best[is_clear]] = False
        scores = scores[~is_clear][:, keep]
        rows, columns = rows[~is_clear], columns[keep]


def _second(scores: Floats) -> Floats:
    """Give the second best of each row, 0 where there is none."""
    if scores.shape[1] == 1:
        return np.zeros(len(scores))
    return np.asarray(np.partition(scores, -2, axis=1)[:, -2])


def _second_below(scores: Floats, best: npt.NDArray[np.int64]) -> Floats:
    """Give for the best of each row the best of the other rows in its column."""
    if scores.shape[0] == 1:
        return np.zeros(1)
    top = np.partition(scores, -2, axis=0)[-2:, best]
    own = scores[np.arange(len(scores)), best]
    return np.asarray(np.where(own >= top[1], top[0], top[1]), np.float64)
