"""Order-preserving alignment of two long sequences, in pieces between sure pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Scores = Callable[[Places, Places], Floats]
"""Scores items of one side against items of the other, element by element."""

_MAX_SHORT = 100_000
"""Lists with more possible pairs than this are paired from both ends first."""
_ALIKE = 1.0
"""Score from which two items at equal ends of long lists are paired without looking further."""
_MAX_CELLS = 4_000_000
"""A gap with more cells is aligned within a band around its diagonal."""
_MAX_TABLE = 64
"""Lists of no more possible pairs than this are scored with many others at once."""
_BATCH = 16_384
"""So many cells are scored at once, about: enough that the time goes into the numbers."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Two ranges, one of each side, that hold no sure pair yet."""

    start: int
    stop: int
    other_start: int
    other_stop: int

    @property
    def cells(self) -> int:
        """Count the possible pairs."""
        return (self.stop - self.start) * (self.other_stop - self.other_start)

    def split(self, pairs: Iterable[tuple[int, int]]) -> list[Gap]:
        """Return what lies between pairs that ascend on both sides."""
        found, start, other = [], self.start, self.other_start
        for one, two in [*pairs, (self.stop, self.other_stop)]:
            gap = Gap(start, one, other, two)
            if gap.cells:
                found.append(gap)
            start, other = one + 1, two + 1
        return found


def uncrossed(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keep the pairs that no other pair crosses; linear time.

    >>> uncrossed([(0, 0), (1, 3), (2, 2), (3, 1), (4, 4)])
    [(0, 0), (4, 4)]
    """
    if len(pairs) < 2:  # noqa: PLR2004 -- what crosses takes two
        return list(pairs)
    ordered = sorted(pairs)
    others = np.array([other for _, other in ordered])
    before = np.concatenate(([-1], np.maximum.accumulate(others)[:-1]))
    after = np.concatenate((np.minimum.accumulate(others[::-1])[::-1][1:], [others.max() + 1]))
    keep = (before < others) & (others < after)
    return [pair for pair, kept in zip(ordered, keep, strict=True) if kept]


def align_gap(scores: Scores, gap: Gap) -> list[tuple[int, int]]:
    """Find the order-preserving pairs of the greatest total score; only scores above 0 count.

    This is the alignment of Needleman and Wunsch with free gaps, one vector operation for each
    row. In a gap of more than ``_MAX_CELLS`` cells only a band around the diagonal is looked at,
    and right of the bands so far nothing is better than the best at the end of one of them.
    """
    rows, columns = gap.stop - gap.start, gap.other_stop - gap.other_start
    band = columns if gap.cells <= _MAX_CELLS else max(64, _MAX_CELLS // rows // 2)
    return _best(gap, _bands(scores, gap, band))


def _best(gap: Gap, bands: Iterable[tuple[int, int, Floats | None]]) -> list[tuple[int, int]]:
    """Align by the scores of each row, of which only those in a band are known."""
    columns = gap.other_stop - gap.other_start
    best, reached, beyond = np.zeros(columns + 1), 0, 0.0
    taken: list[tuple[int, npt.NDArray[np.int8]]] = []
    upwards = np.zeros(columns, np.int8)
    for low, high, score in bands:
        if score is None:
            taken.append((low, upwards[: high - low]))
            continue
        best[reached + 1 : high + 1] = beyond
        matched = np.where(score > 0, best[low:high] + score, -1.0)
        above = best[low + 1 : high + 1]
        is_match = matched >= above
        merged = np.maximum(matched, above)
        running = np.maximum.accumulate(np.concatenate(([best[low]], merged)))[1:]
        is_left = running > merged
        taken.append((low, np.where(is_left, 2, np.where(is_match, 1, 0)).astype(np.int8)))
        best[low + 1 : high + 1] = running
        reached, beyond = high, max(beyond, float(running[-1]))
    return _trace(gap, taken, columns)


def _bands(scores: Scores, gap: Gap, band: int) -> Iterator[tuple[int, int, Floats | None]]:
    """Yield for each row where its band begins and ends, and its scores; None where none counts."""
    rows, columns = gap.stop - gap.start, gap.other_stop - gap.other_start
    middles = np.arange(rows) * columns // rows
    lows = np.maximum(0, middles - band)
    widths = np.minimum(columns, middles + band + 1) - lows
    count = max(1, _BATCH // int(widths.max()))
    for start in range(0, rows, count):
        low, width = lows[start : start + count], widths[start : start + count]
        ends = np.cumsum(width)
        starts = ends - width
        ours = np.repeat(np.arange(start, start + len(low)), width)
        theirs = np.arange(ends[-1]) - np.repeat(starts - low, width)
        found = scores(gap.start + ours, gap.other_start + theirs)
        is_hit = np.logical_or.reduceat(found > 0, starts)
        each = (side.tolist() for side in (low, low + width, starts, ends, is_hit))
        for first, last, start_, end, counts in zip(*each, strict=True):
            yield first, last, found[start_:end] if counts else None


def _trace(
    gap: Gap, taken: Sequence[tuple[int, npt.NDArray[np.int8]]], columns: int
) -> list[tuple[int, int]]:
    found, step, column = [], len(taken) - 1, columns - 1
    while step >= 0 and column >= 0:
        low, moves = taken[step]
        if column >= low + len(moves):
            column -= 1
            continue
        move = moves[column - low] if column >= low else 0
        if move == 1:
            found.append((gap.start + step, gap.other_start + column))
            column -= 1
        if move == 2:  # noqa: PLR2004
            column -= 1
        else:
            step -= 1
    return found[::-1]


def align_items(
    first: Sequence[int], second: Sequence[int], scores: Scores
) -> list[tuple[int, int]]:
    """Align two lists by a score of two items; only scores above 0 count.

    Of long lists, equal beginnings and ends are paired one by one first.
    """
    if not first or not second:
        return []
    one, two = np.array(first, np.int64), np.array(second, np.int64)
    if len(one) == len(two) == 1:
        return [(first[0], second[0])] if scores(one, two)[0] > 0 else []
    head, tail = _ends(one, two, scores) if len(one) * len(two) > _MAX_SHORT else (0, 0)

    def placed(rows: Places, columns: Places) -> Floats:
        return scores(one[rows], two[columns])

    gap = Gap(head, len(first) - tail, head, len(second) - tail)
    pairs = align_gap(placed, gap) if gap.cells else []
    ends = [(place, place) for place in range(head)]
    ends += [(len(first) - place, len(second) - place) for place in range(tail, 0, -1)]
    return [(first[one], second[two]) for one, two in sorted([*ends, *pairs])]


def align_all(
    lists: Sequence[tuple[Sequence[int], Sequence[int]]], scores: Scores
) -> list[list[tuple[int, int]]]:
    """Align many pairs of lists as ``align_items`` does; small ones are scored all at once."""
    small = [
        (first, second) for first, second in lists if 0 < len(first) * len(second) <= _MAX_TABLE
    ]
    rows = [one for first, second in small for one in first for _ in second]
    columns = [two for first, second in small for _ in first for two in second]
    known = scores(np.array(rows, np.int64), np.array(columns, np.int64)) if small else np.empty(0)
    is_hit, start = (known > 0).tolist(), 0
    found: list[list[tuple[int, int]]] = []
    for first, second in lists:
        cells = len(first) * len(second)
        if cells > _MAX_TABLE:
            found.append(align_items(first, second, scores))
        elif not any(is_hit[start : start + cells]):
            found.append([])
        elif cells == 1:
            found.append([(first[0], second[0])])
        else:
            table = known[start : start + cells].reshape(len(first), len(second))
            gap = Gap(0, len(first), 0, len(second))
            pairs = _best(gap, ((0, len(second), row) for row in table))
            found.append([(first[one], second[two]) for one, two in pairs])
        start += cells if cells <= _MAX_TABLE else 0
    return found


def _ends(one: Places, two: Places, scores: Scores) -> tuple[int, int]:
    """Count the items at the beginnings and at the ends of two lists that are alike, in order."""
    shorter = min(len(one), len(two))
    ahead = np.append(scores(one[:shorter], two[:shorter]) >= _ALIKE, values=False)
    head = int(ahead.argmin())
    rest = shorter - head
    behind = scores(one[::-1][:rest], two[::-1][:rest]) >= _ALIKE
    return head, int(np.append(behind, values=False).argmin())


def ranked(keys: Sequence[int], others: Sequence[int], gap: Gap) -> list[tuple[int, int]]:
    """Pair the k-th of each key with the k-th of it, for keys that are equally frequent."""
    mine, theirs = defaultdict(list), defaultdict(list)
    for place in range(gap.start, gap.stop):
        mine[keys[place]].append(place)
    for place in range(gap.other_start, gap.other_stop):
        theirs[others[place]].append(place)
    found: list[tuple[int, int]] = []
    for key, places in mine.items():
        if len(places) == len(theirs.get(key, ())):
            found.extend(zip(places, theirs[key], strict=True))
    return found
