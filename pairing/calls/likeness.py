"""How alike two calls are: anchors by kind, shape and words, other calls by what they give."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role
from padiff.pairing.names import WordTable, likeness, words_of
from padiff.pairing.tensors.sketch import Sketches, closeness, sketches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.pairing.view import View

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


class Groups:
    """The groups of both sides; only those whose main weights have as many elements can meet."""

    def __init__(
        self,
        tokens: tuple[Sequence[Token], Sequence[Token]],
        words: tuple[Sequence[Words], Sequence[Words]],
    ) -> None:
        """Group the anchors of both sides."""
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
    fits: dict[Token, Floats] = {}
    for row, (token, _) in enumerate(reference):
        if token not in fits:
            fits[token] = _fits(token, candidate)
        is_possible = fits[token] > 0
        shared = table.likeness(np.full_like(columns, row), columns)
        base[row] = np.where(is_possible, fits[token] + shared, FORBIDDEN)
    return base


def _fits(token: Token, candidate: Sequence[Group]) -> Floats:
    known = {other: fit(token, other) for other in {group[0] for group in candidate}}
    return np.array([known[other] for other, _ in candidate])


def _mutual(base: Floats) -> list[tuple[int, int]]:
    """Return the groups that are the best of each other."""
    best, back = base.argmax(axis=1).tolist(), base.argmax(axis=0).tolist()
    return [(r, c) for r, c in enumerate(best) if back[c] == r and base[r, c] > 0]


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


_BY_CHANCE = 0.8
"""Outputs whose statistics are no nearer than this say nothing: chance does it, too."""


class CallLikeness:
    """Scores of calls of one side with calls of the other, element by element."""

    def __init__(self, reference: View, candidate: View) -> None:
        """Gather what tells calls apart, in one pass over each side."""
        self.views = views = reference, candidate
        numbers: dict[str | None, int] = {None: -1}
        for view in views:
            for kind in view.kinds:
                numbers.setdefault(kind, len(numbers))
        self._modules = _of_both(views, lambda view: [call.module for call in view.calls], np.int64)
        of_modules = _of_both(views, lambda view: [numbers[k] for k in view.kinds], np.int64)
        self._kinds = of_modules[0][self._modules[0]], of_modules[1][self._modules[1]]
        self._holds = _of_both(views, lambda view: [bool(inner) for inner in view.inner], np.bool_)
        self._hands_on = _of_both(views, _hands_on, np.bool_)
        outputs = [sketches_of(view, range(len(view.calls)), Role.OUTPUT) for view in views]
        self._outputs = outputs[0], outputs[1]
        modules = reference.modules, candidate.modules
        self._classes = WordTable(*([words_of(one.class_name) for one in side] for side in modules))
        self._paths = WordTable(*([words_of(one.path) for one in side] for side in modules))

    @cached_property
    def _inputs(self) -> tuple[Sketches, Sketches]:
        """What calls are given, once that is asked."""
        one, two = (sketches_of(view, range(len(view.calls)), Role.INPUT) for view in self.views)
        return one, two

    def free(self, rows: Places, columns: Places) -> Floats:
        """Score calls without parameters; above 0 they may be partners."""
        kinds = self._kinds[0][rows], self._kinds[1][columns]
        is_known = (kinds[0] >= 0) & (kinds[1] >= 0)
        is_same_kind = is_known & (kinds[0] == kinds[1])
        is_same_size = self.is_same_size(rows, columns)
        is_possible = is_same_kind | (~is_known & (is_same_size | self._is_namesake(rows, columns)))
        is_possible &= self._holds[0][rows] == self._holds[1][columns]
        score = np.full(len(rows), -1.0)
        if not is_possible.any():
            return score
        near, classes = self._near(rows, columns), self._said(self._classes, rows, columns)
        # Where nothing comes out, as spikes that are all 0, the same goes in.
        is_given = self._is_given(rows, columns) > 0
        is_possible &= is_same_kind | (near > 0) | (classes > 0) | is_given
        # A dropout that is not active is no activation, though it gives what that gives.
        is_same_job = self._hands_on[0][rows] == self._hands_on[1][columns]
        is_possible &= is_same_kind | is_same_job | (classes >= 1)
        known = np.where(is_same_kind, np.where(is_same_size, 1.0, 0.5), 0.4) + near
        alike = self._said(self._paths, rows[is_possible], columns[is_possible])
        score[is_possible] = known[is_possible] + 0.3 * alike
        return score

    def containers(self, rows: Places, columns: Places) -> Floats:
        """Score containers of the same content; always above 0.

        A fault inside changes what a container gives, not what it is given.
        """
        kinds = self._kinds[0][rows], self._kinds[1][columns]
        score = 0.2 + self._near(rows, columns) + 0.3 * self.is_same_size(rows, columns)
        score += self._is_given(rows, columns)
        score += 1.0 * ((kinds[0] == kinds[1]) & (kinds[0] >= 0))
        score += self._said(self._classes, rows, columns)
        return np.asarray(score + self._said(self._paths, rows, columns))

    def is_same_size(self, rows: Places, columns: Places) -> npt.NDArray[np.bool_]:
        """Return whether the largest outputs have as many elements, or both sides have none."""
        return np.asarray(self._outputs[0].size[rows] == self._outputs[1].size[columns])

    def _is_namesake(self, rows: Places, columns: Places) -> npt.NDArray[np.bool_]:
        """Return whether path and class say the same: one has a row where another has a batch."""
        alike = [self._said(table, rows, columns) for table in (self._paths, self._classes)]
        return (alike[0] >= 1) & (alike[1] >= 1)

    def _said(self, table: WordTable, rows: Places, columns: Places) -> Floats:
        """Compare the words of the modules of calls."""
        return table.likeness(self._modules[0][rows], self._modules[1][columns])

    def _near(self, rows: Places, columns: Places) -> Floats:
        near = closeness(self._outputs[0], rows, self._outputs[1], columns)
        return np.maximum(near - _BY_CHANCE, 0.0) / (1 - _BY_CHANCE)

    def _is_given(self, rows: Places, columns: Places) -> Floats:
        """Return how near the largest inputs are, as far as that is no chance."""
        near = closeness(self._inputs[0], rows, self._inputs[1], columns)
        is_same_size = self._inputs[0].size[rows] == self._inputs[1].size[columns]
        return np.where(is_same_size, np.maximum(near - _BY_CHANCE, 0.0) / (1 - _BY_CHANCE), 0.0)


def _hands_on(view: View) -> list[bool]:
    """Return for each call whether it gives what it was given."""
    both = zip(view.made, view.given, strict=True)
    return [made is not None and made == given for made, given in both]


def _of_both(
    views: tuple[View, View], told: Callable[[View], list[Any]], kind: type[np.generic]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.array(told(views[0]), kind), np.array(told(views[1]), kind)
