"""Groups of anchors that are alike by kind, shape and words, and what each scores with each."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import likeness
from padiff.pairing.wordtable import WordTable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FORBIDDEN", "Groups", "Token", "fit"]

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Words = frozenset[str]
Token = tuple[str | None, tuple[int, ...], int]
"""Kind, sizes of the main weight in ascending order, and length of the only vector (the bias)."""
Group = tuple[Token, Words]

FORBIDDEN = -1e6
"""Score of two calls that can never be partners."""
_MAX_CELLS = 2_000_000
"""More pairs of groups of one size than this, and words are left out."""
_CLEAR = 0.15
"""By how much the best group of names must beat the second to dispute other pairs."""


class Groups:
    """The groups of both sides; only those whose main weights have as many elements can meet."""

    def __init__(
        self,
        tokens: tuple[Sequence[Token], Sequence[Token]],
        words: tuple[Sequence[Words], Sequence[Words]],
    ) -> None:
        """Group the anchors of both sides.

        Args:
            tokens: Of each anchor, side by side.
            words: Of the path of each anchor.
        """
        # A word that only one side uses tells nothing.
        shared = frozenset().union(*words[0]) & frozenset().union(*words[1])
        kept = [[said & shared for said in side] for side in words]
        numbered = [_numbered(*both) for both in zip(tokens, kept, strict=True)]
        cells = [_by_size(groups) for _, groups in numbered]
        if sum(len(cells[0][size]) * len(cells[1].get(size, ())) for size in cells[0]) > _MAX_CELLS:
            none: list[Words] = [frozenset()]
            numbered = [_numbered(side, none * len(side)) for side in tokens]
            cells = [_by_size(groups) for _, groups in numbered]
        self._numbers = numbered[0][0], numbered[1][0]
        groups = numbered[0][1], numbered[1][1]
        start, table = [-1] * len(groups[0]), [-1] * len(groups[0])
        column, meets = [0] * len(groups[1]), [-2] * len(groups[1])
        common = [len(groups[0]) + number for number in range(len(groups[1]))]
        met = [(ours, cells[1][size]) for size, ours in cells[0].items() if size in cells[1]]
        alone = [both for both in met if len(both[0]) == len(both[1]) == 1]
        single = [_alone(groups[0][ours[0]], groups[1][theirs[0]]) for ours, theirs in alone]
        for number, ((one,), (two,)) in enumerate(alone):
            start[one], table[one], column[two], meets[two] = 1 + number, number, 0, number
            if single[number] > 0:
                common[two] = one
        flat, length = [np.array([0.0, *single])], 1 + len(single)
        rest = (both for both in met if len(both[0]) > 1 or len(both[1]) > 1)
        for number, (ours, theirs) in enumerate(rest, len(alone)):
            base = _score([groups[0][g] for g in ours], [groups[1][g] for g in theirs])
            for place, group in enumerate(ours):
                start[group], table[group] = length + place * len(theirs), number
            for place, group in enumerate(theirs):
                column[group], meets[group] = place, number
            flat.append(base.ravel())
            length += base.size
            for one, two in _mutual(base):
                common[theirs[two]] = ours[one]
        self._flat = np.concatenate(flat)
        self._start, self._table = np.array(start, np.int64), np.array(table, np.int64)
        self._column, self._meets = np.array(column, np.int64), np.array(meets, np.int64)
        self._common = np.array(common, np.int64)

    def scores(self, rows: Places, columns: Places) -> Floats:
        """Score anchors of one side with anchors of the other, element by element."""
        ours, theirs = self._numbers[0][rows], self._numbers[1][columns]
        is_met = self._table[ours] == self._meets[theirs]
        places = np.where(is_met, self._start[ours] + self._column[theirs], 0)
        return np.where(is_met, self._flat[places], FORBIDDEN)

    def common(self) -> tuple[list[int], list[int]]:
        """Number the groups of all anchors so that mutual best partners share a number."""
        return self._numbers[0].tolist(), self._common[self._numbers[1]].tolist()


def _numbered(tokens: Sequence[Token], words: Sequence[Words]) -> tuple[Places, list[Group]]:
    table: dict[Group, int] = {}
    keys = zip(tokens, words, strict=True)
    numbers = np.array([table.setdefault(key, len(table)) for key in keys], np.int64)
    return numbers, list(table)


def _by_size(groups: Sequence[Group]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, ((_, sizes, _), _) in enumerate(groups):
        found.setdefault(prod(sizes), []).append(number)
    return found


def _alone(reference: Group, candidate: Group) -> float:
    """Score the only two groups of a size."""
    known = fit(reference[0], candidate[0])
    return known + likeness(reference[1], candidate[1]) if known > 0 else FORBIDDEN


def _score(reference: Sequence[Group], candidate: Sequence[Group]) -> Floats:
    """Score all groups with all, by what fits and by words."""
    table = WordTable([words for _, words in reference], [words for _, words in candidate])
    columns = np.arange(len(candidate))
    base = np.full((len(reference), len(candidate)), FORBIDDEN)
    alike = np.full_like(base, -1.0)
    fits: dict[Token, Floats] = {}
    for row, (token, _) in enumerate(reference):
        if token not in fits:
            fits[token] = _fits(token, candidate)
        is_possible = fits[token] > 0
        shared = table.likeness(np.full_like(columns, row), columns)
        base[row] = np.where(is_possible, fits[token] + shared, FORBIDDEN)
        alike[row] = np.where(is_possible, shared, -1.0)
    return np.asarray(base - _disputed(alike), np.float64)


def _fits(token: Token, candidate: Sequence[Group]) -> Floats:
    known = {other: fit(token, other) for other in {group[0] for group in candidate}}
    return np.array([known[other] for other, _ in candidate])


def _mutual(base: Floats) -> list[tuple[int, int]]:
    """Give the groups that are the best of each other."""
    best, back = base.argmax(axis=1).tolist(), base.argmax(axis=0).tolist()
    return [(r, c) for r, c in enumerate(best) if back[c] == r and base[r, c] > 0]


def _disputed(alike: Floats) -> npt.NDArray[np.bool_]:
    """Mark the group pairs of which one has a clearly better, mutual partner elsewhere."""
    if not alike.size:
        return np.zeros(alike.shape, np.bool_)
    rows, columns = _clear_best(alike), _clear_best(alike.T)
    mutual_rows = np.array([c if c >= 0 and columns[c] == r else -1 for r, c in enumerate(rows)])
    mutual_columns = np.array([r if r >= 0 and rows[r] == c else -1 for c, r in enumerate(columns)])
    each_row, each_column = np.arange(len(rows))[:, None], np.arange(len(columns))[None, :]
    wrong_row = (mutual_rows[:, None] >= 0) & (mutual_rows[:, None] != each_column)
    wrong_column = (mutual_columns[None, :] >= 0) & (mutual_columns[None, :] != each_row)
    return np.asarray(wrong_row | wrong_column, np.bool_)


def _clear_best(alike: Floats) -> list[int]:
    best = alike.argmax(axis=1)
    top = alike.max(axis=1)
    rest = alike.copy()
    rest[np.arange(len(best)), best] = -1.0
    second = np.maximum(rest.max(axis=1), 0.0)
    return [int(b) if t - s >= _CLEAR else -1 for b, t, s in zip(best, top, second, strict=True)]


def fit(reference: Token, candidate: Token) -> float:
    """Score kind and main weight shape; 0 if the two cannot do the same job."""
    kind, other = reference[0], candidate[0]
    if prod(reference[1]) != prod(candidate[1]):
        return 0.0
    factor = 1.0 if reference[1] == candidate[1] else 0.7
    if kind == other and kind is not None and 0 not in (reference[2], candidate[2]):
        # A layer from 8 to 16 features is none from 16 to 8, though their weights fit turned.
        factor = factor if reference[2] == candidate[2] else 0.0
    if kind == other:
        return factor * (0.9 if kind is None else 1.0)
    if kind is None or other is None:
        return 0.5 * factor
    is_product = all(any(w in k.lower() for w in ("linear", "conv")) for k in (kind, other))
    return 0.3 * factor if is_product else 0.0
