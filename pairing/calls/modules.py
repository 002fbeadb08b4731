"""Pair modules: by their paired calls, by what they contain, and by structure if never called."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import WordTable, likeness, words_of
from padiff.pairing.result import Matching, PairedBy
from padiff.pairing.weights.nesting import Nesting, pair_nesting

from .align import align_items

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from padiff.pairing.view import View

__all__ = ["pair_modules"]

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def pair_modules(
    reference: View,
    candidate: View,
    calls: Matching,
    fixed: Sequence[tuple[int, int]] = (),
) -> Matching:
    """Pair all modules of both sides that do the same job.

    A module that ran several times goes to the partner with most of its calls; further instances
    on the other side stay without a partner of their own.

    Args:
        reference: One side.
        candidate: The other.
        calls: The paired calls.
        fixed: Pairs that the user decided.
    """
    pairs = Matching()
    for one, two in fixed:
        pairs.add(one, two, PairedBy.MAP)
    if reference.modules and candidate.modules:
        pairs.add(0, 0, PairedBy.STRUCTURE)
    _by_calls(reference, candidate, calls, pairs)
    alike = _ModuleLikeness(reference, candidate)
    _by_content(alike, pairs)
    _by_structure(alike, pairs)
    return pairs


def _by_calls(reference: View, candidate: View, calls: Matching, pairs: Matching) -> None:
    votes: Counter[tuple[int, int]] = Counter()
    evidence: dict[tuple[int, int], PairedBy] = {}
    for one, two in calls:
        key = reference.calls[one].module, candidate.calls[two].module
        votes[key] += 1
        evidence.setdefault(key, calls.by[one])

    offers = Counter(one for one, _ in votes), Counter(two for _, two in votes)

    def rank(item: tuple[tuple[int, int], int]) -> tuple[float, float, int, int]:
        (one, two), count = item
        is_contested = offers[0][one] > 1 or offers[1][two] > 1
        alike = _name_likeness(reference, one, candidate, two) if is_contested else 0.0
        return -count, -alike, one, two

    for (one, two), _ in sorted(votes.items(), key=rank):
        is_same_name = reference.modules[one].path == candidate.modules[two].path
        is_named = is_same_name and evidence[one, two] is not PairedBy.MAP
        pairs.add(one, two, PairedBy.NAME if is_named else evidence[one, two])


def _by_content(alike: _ModuleLikeness, pairs: Matching) -> None:
    """Pair containers that never run themselves, lists above all."""
    views = reference, candidate = alike.views
    leaves = [
        (one, two)
        for one, two in pairs
        if not reference.children[one] or not candidate.children[two]
    ]
    nestings = [
        Nesting(parents=[m.parent for m in view.modules], leaves=sorted(pair[i] for pair in leaves))
        for i, view in enumerate(views)
    ]

    for found in pair_nesting(nestings[0], nestings[1], leaves, pairs, alike.containers):
        pairs.add(found.reference, found.candidate, PairedBy.STRUCTURE)


def _by_structure(alike: _ModuleLikeness, pairs: Matching) -> None:
    """Pair what is left among the children of pairs that never ran: by name, then by order."""
    reference, candidate = alike.views
    todo = list(pairs)[::-1]
    while todo:
        one, two = todo.pop()
        mine = _alone(reference, reference.children[one], pairs.ahead)
        theirs = _alone(candidate, candidate.children[two], pairs.back)
        if not mine or not theirs:
            continue
        names = {_last(candidate, other): other for other in theirs}
        same = [(m, names[_last(reference, m)]) for m in mine if _last(reference, m) in names]
        same = [pair for pair in same if alike.fit(*np.array([pair], np.int64).T)[0] >= 0]
        named = {pair[0] for pair in same}, {pair[1] for pair in same}
        rest = [c for c in mine if c not in named[0]], [c for c in theirs if c not in named[1]]
        aligned = align_items(rest[0], rest[1], alike.fit)
        found = [(*pair, PairedBy.NAME) for pair in same]
        found += [(*pair, PairedBy.POSITION) for pair in aligned]
        for child, other, by in found:
            if pairs.add(child, other, by):
                todo.append((child, other))


def _alone(view: View, modules: Iterable[int], taken: dict[int, int]) -> list[int]:
    return [m for m in modules if m not in taken and not view.executed[m]]


def _last(view: View, module: int) -> str:
    return view.modules[module].path.rpartition(".")[2]


class _ModuleLikeness:
    """Scores of modules of one side with modules of the other, element by element."""

    def __init__(self, reference: View, candidate: View) -> None:
        self.views = views = reference, candidate
        self._kinds = _numbered(*(view.kinds for view in views))
        self._unknown = [np.array([k is None for k in view.kinds], np.bool_) for view in views]
        sizes = [[_sizes(view, module.id) for module in view.modules] for view in views]
        self._sizes = _numbered(*sizes)
        self._owns = np.array([bool(size) for size in sizes[0]], np.bool_)
        self._ran = [np.array([bool(ran) for ran in view.executed], np.bool_) for view in views]
        self._paths = _numbered(*([module.path for module in view.modules] for view in views))
        self._words = WordTable(
            *([words_of(module.path) for module in view.modules] for view in views)
        )

    def fit(self, rows: Places, columns: Places) -> Floats:
        """Score by kind, own weights and names; negative where they cannot be partners."""
        is_same = self._kinds[0][rows] == self._kinds[1][columns]
        is_possible = is_same | self._unknown[0][rows] | self._unknown[1][columns]
        is_possible &= self._sizes[0][rows] == self._sizes[1][columns]
        score = np.where(is_same, 0.5, 0.1) + np.where(self._owns[rows], 0.5, 0.0)
        names = np.where(
            self._paths[0][rows] == self._paths[1][columns],
            1.0,
            0.9 * self._words.likeness(rows, columns),
        )
        return np.where(is_possible, score + names, -1.0)

    def containers(self, rows: Places, columns: Places) -> Floats:
        """Score containers of the same content, of which both ran or neither."""
        is_possible = self._ran[0][rows] == self._ran[1][columns]
        return np.where(is_possible, 0.2 + self.fit(rows, columns), -1.0)


def _numbered(
    reference: Iterable[Hashable], candidate: Iterable[Hashable]
) -> tuple[Places, Places]:
    """Number the items of two lists, equal ones alike."""
    table: dict[Hashable, int] = {}
    found = [[table.setdefault(x, len(table)) for x in side] for side in (reference, candidate)]
    return np.array(found[0], np.int64), np.array(found[1], np.int64)


def _sizes(view: View, module: int) -> tuple[int, ...]:
    return tuple(sorted(prod(view.records[record].shape) for record in view.weights[module]))


def _name_likeness(reference: View, one: int, candidate: View, two: int) -> float:
    paths = reference.modules[one].path, candidate.modules[two].path
    if paths[0] == paths[1]:
        return 1.0
    return 0.9 * likeness(words_of(paths[0]), words_of(paths[1]))
