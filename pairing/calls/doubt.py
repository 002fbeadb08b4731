"""Doubt spreads: what follows a layer of unsure partner is no surer than that layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.result import ModulePair
    from padiff.pairing.view import View

    from .calls import CallPairs
    from .rivals import RatedSide

__all__ = ["Rated", "spread"]

_LEAST = 0.25
"""Confidence of a pair none of whose repeated calls are partners."""
_MAX_ALTERNATIVES = 4
_MAX_SEARCHED = 64
"""So many modules of another branch are searched for alternatives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """A pair as rated by itself."""

    pair: ModulePair
    rivals: tuple[int, ...] = ()
    """Reference modules that could stand in for the pair's own."""
    is_confirmed: bool
    """Whether names, weights or outputs say that it is right, whatever is around it."""
    is_weighed: bool = True
    """Whether it was looked for what else could be the partner."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """Modules in doubt as a whole, and the branches that could be meant instead."""

    confidence: float
    others: tuple[int, ...]


def spread(
    views: tuple[View, View],
    calls: CallPairs,
    rated: Sequence[Rated],
    other_side: RatedSide,
) -> tuple[ModulePair, ...]:
    """Lower the confidence of what depends on pairs in doubt.

    Where one of two alike towers could be the other, so could everything inside them: what runs in
    the same branch, and what is fed by a layer in doubt alone, unless evidence of its own confirms
    it. A pair is in doubt as well where its calls or the data flow contradict it.

    Args:
        views: Both sides.
        calls: The paired calls.
        rated: The pairs of modules, ascending by reference.
        other_side: The candidate; only its modules of one job can be alternatives.
    """
    own = [_contradicted(views, calls, one) for one in rated]
    if all(pair.confidence >= 1.0 for pair in own):
        return tuple(own)
    inside = (
        _branches(views[0], ((p.reference, p.confidence, r.rivals) for p, r in _zip(own, rated))),
        _branches(views[1], ((p.candidate, p.confidence, p.alternatives) for p in own)),
    )
    fed = _along(views[0], own, rated, inside, 0), _along(views[1], own, rated, inside, 1)
    found = []
    for pair, one in _zip(own, rated):
        limit = min(fed[0][pair.reference], fed[1][pair.candidate])
        if one.is_confirmed or limit >= pair.confidence:
            found.append(pair)
            continue
        branch = inside[1].get(pair.candidate)
        others = pair.alternatives or _alternatives(other_side, pair.candidate, branch)
        found.append(replace(pair, confidence=limit, alternatives=others))
    return tuple(found)


def _zip(own: Sequence[ModulePair], rated: Sequence[Rated]) -> Iterator[tuple[ModulePair, Rated]]:
    return zip(own, rated, strict=True)


def _contradicted(views: tuple[View, View], calls: CallPairs, rated: Rated) -> ModulePair:
    """Lower the confidence of a pair whose calls are paired elsewhere."""
    pair = rated.pair
    if rated.is_confirmed:
        return pair
    limit = max(_share_by_index(views, calls, pair), _LEAST)
    return replace(pair, confidence=limit) if limit < pair.confidence else pair


def _share_by_index(views: tuple[View, View], calls: CallPairs, pair: ModulePair) -> float:
    """Give the share of repeated calls that are paired with the same repetition of the partner."""
    mine, theirs = views[0].executed[pair.reference], views[1].executed[pair.candidate]
    is_owner = bool(views[0].weights[pair.reference])
    if len(mine) < 2 or not (is_owner or len(mine) == len(theirs)):  # noqa: PLR2004
        return 1.0
    partners = [calls.ahead[call] for call in mine if call in calls.ahead]
    ranks = {call: rank for rank, call in enumerate(theirs)}
    right = sum(ranks.get(calls.ahead.get(call, -1)) == rank for rank, call in enumerate(mine))
    return right / len(partners) if partners else 1.0


def _branches(
    view: View, doubts: Iterable[tuple[int, float, tuple[int, ...]]]
) -> dict[int, _Branch]:
    """Give for each module in a branch that others could replace how sure that branch is."""
    roots: dict[int, _Branch] = {}
    parents = [info.parent for info in view.modules]
    for module, confidence, rivals in doubts:
        if confidence >= 1.0 or not rivals:
            continue
        beside = [rival for rival in rivals if parents[rival] == parents[module]]
        root = module if beside else _root(view, module, rivals)
        known = roots.get(root)
        if known is None or confidence < known.confidence:
            others = rivals
            if len(beside) < len(rivals):
                others = tuple(_root(view, rival, (module,)) for rival in rivals)
            roots[root] = _Branch(confidence, others)
    found: dict[int, _Branch] = {}
    for info in view.modules if roots else ():
        around = None if info.parent is None else found.get(info.parent)
        options = [one for one in (roots.get(info.id), around) if one is not None]
        if options:
            found[info.id] = min(options, key=lambda one: one.confidence)
    return found


def _root(view: View, module: int, rivals: Sequence[int]) -> int:
    """Give the outermost module around this one that holds none of the rivals."""
    held = set()
    for rival in rivals:
        outer: int | None = rival
        while outer is not None:
            held.add(outer)
            outer = view.modules[outer].parent
    root, outer = module, view.modules[module].parent
    while outer is not None and outer not in held:
        root, outer = outer, view.modules[outer].parent
    return root


def _along(
    view: View,
    own: Sequence[ModulePair],
    rated: Sequence[Rated],
    inside: tuple[Mapping[int, _Branch], Mapping[int, _Branch]],
    side: int,
) -> dict[int, float]:
    """Carry doubt along the data flow of one side; give a limit for each paired module."""
    certain = _Branch(1.0, ())
    limits: dict[int, float] = {}
    confirmed: set[int] = set()
    for pair, one in _zip(own, rated):
        module = (pair.reference, pair.candidate)[side]
        around = (
            inside[0].get(pair.reference, certain).confidence,
            inside[1].get(pair.candidate, certain).confidence,
        )
        limits[module] = pair.confidence
        if one.is_confirmed:
            confirmed.add(module)
        else:
            limits[module] = min(pair.confidence, *around)
    makers: dict[int, int] = {}
    for call in view.calls:
        if view.inner[call.id]:
            continue
        module = call.module
        is_first = view.executed[module][0] == call.id
        if is_first and module in limits and module not in confirmed:
            given = (record.value for record in view.select(call.id, Role.INPUT))
            sources = {makers.get(value, -1) for value in given if value is not None}
            if len(sources) == 1:
                limits[module] = min(limits[module], limits.get(sources.pop(), 1.0))
        for record in view.select(call.id, Role.OUTPUT):
            if record.value is not None:
                makers.setdefault(record.value, module)
    return limits


def _alternatives(side: RatedSide, module: int, branch: _Branch | None) -> tuple[int, ...]:
    """Find modules of the same job in the branches that could be meant instead."""
    found: set[int] = set()
    todo = list(branch.others) if branch is not None else []
    for _ in range(_MAX_SEARCHED):
        if not todo or len(found) == _MAX_ALTERNATIVES:
            break
        current = todo.pop()
        todo.extend(side.view.children[current])
        if side.jobs[current] == side.jobs[module] and current != module:
            found.add(current)
    return tuple(sorted(found))
