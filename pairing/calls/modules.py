"""Pair modules: by their paired calls, by what they contain, and by structure if never called."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.weights.matching import Matching
from padiff.pairing.weights.nesting import Nesting, pair_nesting

from .align import align_items

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.pairing.view import View

__all__ = ["pair_modules"]


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
    _by_content(reference, candidate, pairs)
    for one, two in list(pairs):
        _by_structure(reference, candidate, pairs, one, two)
    return pairs


def _by_calls(reference: View, candidate: View, calls: Matching, pairs: Matching) -> None:
    votes: Counter[tuple[int, int]] = Counter()
    evidence: dict[tuple[int, int], PairedBy] = {}
    for one, two in calls:
        key = reference.calls[one].module, candidate.calls[two].module
        votes[key] += 1
        evidence.setdefault(key, calls.by[one])

    def rank(item: tuple[tuple[int, int], int]) -> tuple[float, float, int, int]:
        (one, two), count = item
        return -count, -_name_likeness(reference, one, candidate, two), one, two

    for (one, two), _ in sorted(votes.items(), key=rank):
        is_same_name = reference.modules[one].path == candidate.modules[two].path
        is_named = is_same_name and evidence[one, two] is not PairedBy.MAP
        pairs.add(one, two, PairedBy.NAME if is_named else evidence[one, two])


def _by_content(reference: View, candidate: View, pairs: Matching) -> None:
    """Pair containers that never run themselves, lists above all."""
    views = (reference, candidate)
    leaves = [
        (one, two)
        for one, two in pairs
        if not reference.children[one] or not candidate.children[two]
    ]
    nestings = [
        Nesting(parents=[m.parent for m in view.modules], leaves=sorted(pair[i] for pair in leaves))
        for i, view in enumerate(views)
    ]

    def affinity(one: int, two: int) -> float:
        if one in pairs.ahead or two in pairs.back:
            return 10.0 if pairs.has(one, two) else -1.0
        if bool(reference.executed[one]) != bool(candidate.executed[two]):
            return -1.0
        return 0.2 + _fit(reference, one, candidate, two)

    for found in pair_nesting(nestings[0], nestings[1], leaves, affinity):
        pairs.add(found.reference, found.candidate, PairedBy.STRUCTURE)


def _by_structure(reference: View, candidate: View, pairs: Matching, one: int, two: int) -> None:
    """Pair what is left among the children of a pair that never ran: by name, then by order."""
    todo = [(one, two)]
    while todo:
        one, two = todo.pop()
        mine = _alone(reference, reference.children[one], pairs.ahead)
        theirs = _alone(candidate, candidate.children[two], pairs.back)
        names = {_last(candidate, other): other for other in theirs}
        found = [
            (child, names[_last(reference, child)], PairedBy.NAME)
            for child in mine
            if _last(reference, child) in names
        ]
        found = [f for f in found if _fit(reference, f[0], candidate, f[1]) >= 0]
        named = {f[0] for f in found}, {f[1] for f in found}
        rest = [c for c in mine if c not in named[0]], [c for c in theirs if c not in named[1]]
        for child, other in align_items(
            rest[0], rest[1], lambda a, b: _fit(reference, a, candidate, b)
        ):
            found.append((child, other, PairedBy.POSITION))
        for child, other, by in found:
            if pairs.add(child, other, by):
                todo.append((child, other))


def _alone(view: View, modules: Iterable[int], taken: dict[int, int]) -> list[int]:
    return [m for m in modules if m not in taken and not view.executed[m]]


def _last(view: View, module: int) -> str:
    return view.modules[module].path.rpartition(".")[2]


def _fit(reference: View, one: int, candidate: View, two: int) -> float:
    """Score two modules by kind, own weights and names; negative if they cannot be partners."""
    kinds = reference.kinds[one], candidate.kinds[two]
    if None not in kinds and kinds[0] != kinds[1]:
        return -1.0
    sizes = _sizes(reference, one), _sizes(candidate, two)
    if sizes[0] != sizes[1]:
        return -1.0
    score = 0.5 if kinds[0] == kinds[1] else 0.1
    return score + (0.5 if sizes[0] else 0.0) + _name_likeness(reference, one, candidate, two)


def _sizes(view: View, module: int) -> list[int]:
    return sorted(prod(view.records[record].shape) for record in view.weights[module])


def _name_likeness(reference: View, one: int, candidate: View, two: int) -> float:
    paths = reference.modules[one].path, candidate.modules[two].path
    if paths[0] == paths[1]:
        return 1.0
    return 0.9 * likeness(words_of(paths[0]), words_of(paths[1]))
