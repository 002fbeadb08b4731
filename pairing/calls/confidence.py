"""How sure each pair of modules is, and which other partners were possible.

A pair of containers is judged by the pairs inside both. Modules are numbered so that what is inside
one follows it without a gap: what two containers share is counted in one step.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing.names import numbers_in, words_of
from padiff.pairing.result import IN_ORDER, CallPair, ModulePair, PairedBy

from .expressed import sole
from .onesided import OPAQUE
from .proof import Proofs, own_evidence, prove

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

    from padiff.dumpfile import ModuleInfo
    from padiff.pairing.result import Matching
    from padiff.pairing.view import View

    from .calls import CallPairs


class Holding:
    """The pairs of containers of two trees."""

    def __init__(
        self,
        reference: Sequence[ModuleInfo],
        candidate: Sequence[ModuleInfo],
        partners: Mapping[int, int],
    ) -> None:
        """Number both trees."""
        self._spans = _spans(reference), _spans(candidate)
        self._partners = partners

    def gather(self, said: Iterable[tuple[int, int, float]], join: np.ufunc) -> dict[int, float]:
        """Join what pairs say, by container of the reference that holds them with its partner.

        Args:
            said: Pairs of modules, each in one at most, and a number for each.
            join: What makes one number of several.
        """
        ours, theirs = self._spans
        others, numbers = np.full(len(ours), -1), np.zeros(len(ours))
        for one, two, number in said:
            others[ours[one][0]], numbers[ours[one][0]] = theirs[two][0], number
        found: dict[int, float] = {}
        for outer, partner in self._partners.items():
            (start, stop), (first, last) = ours[outer], theirs[partner]
            inside = others[start + 1 : stop + 1]
            held = numbers[start + 1 : stop + 1][(first < inside) & (inside <= last)]
            if held.size:
                found[outer] = float(join.reduce(held))
        return found


def _spans(modules: Sequence[ModuleInfo]) -> list[tuple[int, int]]:
    """Number modules so that those inside one follow it; give the first and the last of each."""
    sizes = [1] * len(modules)
    for module in reversed(modules):
        if module.parent is not None:
            sizes[module.parent] += sizes[module.id]
    free, found, start = [0] * len(modules), [(0, 0)] * len(modules), 0
    for module in modules:
        first = start if module.parent is None else free[module.parent]
        start = max(start, first + sizes[module.id])
        if module.parent is not None:
            free[module.parent] += sizes[module.id]
        free[module.id] = first + 1
        found[module.id] = first, first + sizes[module.id] - 1
    return found


_PLACED = 0.05
"""Two containers that share no layer, and are paired by their place alone."""
_UNSURE = 0.5
"""Two calls of modules that are no partners."""
_MAX_ALTERNATIVES = 4


def rate(
    reference: View, candidate: View, modules: Matching, calls: CallPairs
) -> tuple[tuple[ModulePair, ...], Proofs]:
    """Return how sure each pair is.

    A pair of containers is as sure as the share of their content that is paired. A leaf is in
    doubt unless something proves it: the user, a name, weights or inputs that it shares with no
    other, or data flow (``proof.py``). The others of its class are what else it could be.

    Returns:
        The pairs with their confidence, and what is proven of the calls.
    """
    views = reference, candidate
    holding = Holding(reference.modules, candidate.modules, modules.ahead)
    shares = _shares(reference, candidate, modules, holding)
    for call, share in calls.share.items():
        module = reference.calls[call].module
        shares[module] = max(share, shares.get(module, 0.0))
    certain = _certain(views, modules)
    evidence = own_evidence(views, calls)
    proofs = prove(views, calls, certain | _namesakes(views, modules), evidence)
    idle = _Idle(views, modules)
    made = []
    for one, two in modules:
        found: tuple[float, tuple[int, ...]]
        if reference.children[one] or candidate.children[two]:
            found = max(shares.get(one, 1.0), _PLACED), ()
        elif (one, two) in certain:
            found = 1.0, ()
        elif reference.executed[one] and candidate.executed[two]:
            found = _by_calls(views, (one, two), calls, proofs)
        else:
            found = idle.rate(one, two)
        made.append(
            ModulePair(
                reference=one,
                candidate=two,
                paired_by=modules.by[one],
                confidence=found[0],
                alternatives=found[1],
            )
        )
    return _as_sure_as_content(reference, candidate, made, certain, holding), proofs


def _certain(views: tuple[View, View], modules: Matching) -> set[tuple[int, int]]:
    """Return the pairs of the user's map, and those of equal paths."""
    trees = views[0].modules, views[1].modules
    return {
        (one, two)
        for one, two in modules
        if modules.by[one] is PairedBy.MAP or trees[0][one].path == trees[1][two].path
    }


def _namesakes(views: tuple[View, View], modules: Matching) -> set[tuple[int, int]]:
    """Return the pairs of leaves whose words and numbers no other leaf of their side has."""
    names: list[dict[int, Hashable]] = [
        {
            module.id: (words, numbers_in(module.path))
            for module in view.modules
            if not view.children[module.id] and (words := words_of(module.path))
        }
        for view in views
    ]
    return {(one, two) for one, two in sole((names[0], names[1])) if modules.has(one, two)}


def _by_calls(
    views: tuple[View, View], pair: tuple[int, int], calls: CallPairs, proofs: Proofs
) -> tuple[float, tuple[int, ...]]:
    """Rate two leaves as their least sure call; those that are paired elsewhere speak against."""
    ran = views[0].executed[pair[0]], views[1].executed[pair[1]]
    mine = [call for call in ran[0] if call in calls.ahead]
    theirs = {call for call in ran[1] if call in calls.back}
    doubts = [proofs.doubts[call] for call in mine if call in proofs.doubts]
    sure = min((doubt.confidence for doubt in doubts), default=1.0)
    if not mine or {calls.ahead[call] for call in mine} != theirs:
        sure = min(sure, _UNSURE)
    elif not doubts and not all(call in proofs.proven for call in mine):
        sure = min(sure, IN_ORDER)  # inside what one side does as a whole
    if sure >= 1.0:
        return sure, ()
    owners = (views[1].calls[call].module for doubt in doubts for call in doubt.rivals)
    return sure, tuple(sorted({*owners} - {pair[1]})[:_MAX_ALTERNATIVES])


class _Idle:
    """Rates leaves that never ran by the others of their job in the same two containers."""

    def __init__(self, views: tuple[View, View], modules: Matching) -> None:
        self._around = [
            _nearest(views[0], {one: one for one, _ in modules}),
            _nearest(views[1], modules.back),
        ]
        self._keys: list[dict[int, Hashable]] = []
        for view, around in zip(views, self._around, strict=True):
            idle = (m.id for m in view.modules if not view.executed[m.id])
            leaves = (module for module in idle if not view.children[module])
            self._keys.append({m: (_job(view, m), around[m]) for m in leaves})
        self._classes: list[dict[Hashable, list[int]]] = [{}, {}]
        for classes, keys in zip(self._classes, self._keys, strict=True):
            for module, key in keys.items():
                classes.setdefault(key, []).append(module)

    def rate(self, one: int, two: int) -> tuple[float, tuple[int, ...]]:
        """Return how sure a pair is, and what else the partner could be."""
        if one not in self._keys[0] or two not in self._keys[1]:
            return _UNSURE, ()
        keys = self._keys[0][one], self._keys[1][two]
        mine, theirs = self._classes[0][keys[0]], self._classes[1][keys[1]]
        if keys[0] == keys[1] and len(mine) == len(theirs) == 1:
            return 1.0, ()
        is_in_order = keys[0] == keys[1] and len(mine) == len(theirs)
        is_in_order = is_in_order and mine.index(one) == theirs.index(two)
        others = tuple(module for module in theirs if module != two)[:_MAX_ALTERNATIVES]
        return IN_ORDER if is_in_order else min(_UNSURE, 1 / len(theirs)), others


def _nearest(view: View, images: Mapping[int, int]) -> list[int | None]:
    """Return the partner of the nearest paired module around each module."""
    found: list[int | None] = []
    for module in view.modules:
        outer = module.parent
        found.append(None if outer is None else images.get(outer, found[outer]))
    return found


def _job(view: View, module: int) -> Hashable:
    """Return kind and sizes of a module."""
    sizes = sorted(prod(view.records[record].shape) for record in view.weights[module])
    return view.kinds[module], tuple(sizes)


def rate_calls(
    reference: View,
    candidate: View,
    calls: CallPairs,
    modules: Iterable[ModulePair],
    proofs: Proofs,
) -> list[CallPair]:
    """Return how sure each pair of calls is.

    As sure as the modules are, and certain where the call itself is proven. One instance that runs
    three times has only one partner among three instances: there the user decides.
    """
    known = {(pair.reference, pair.candidate): pair for pair in modules}
    made = []
    for one, two in calls:
        by, share = calls.by[one], 1.0
        rivals: tuple[int, ...] = ()
        if one not in proofs.proven and by is not PairedBy.MAP:
            pair = known.get((reference.calls[one].module, candidate.calls[two].module))
            share = _UNSURE if pair is None else pair.confidence
            doubt = proofs.doubts.get(one)
            if doubt is not None and by is not PairedBy.NAME:
                share = min(share, IN_ORDER)  # one of several calls, and nothing says which
            if share < 1.0 and doubt is not None:
                rivals = doubt.rivals
            if share < 1.0 and not rivals and pair is not None:
                rivals = _same_turn(candidate, two, pair.alternatives)
        made.append(
            CallPair(
                reference=one, candidate=two, paired_by=by, confidence=share, alternatives=rivals
            )
        )
    return made


def _same_turn(view: View, call: int, modules: Iterable[int]) -> tuple[int, ...]:
    """Return the calls of other modules that are the same repetition as this one."""
    turn = view.calls[call].index
    return tuple(view.executed[one][turn] for one in modules if turn < len(view.executed[one]))


def _shares(
    reference: View, candidate: View, modules: Matching, holding: Holding
) -> dict[int, float]:
    """Return for each paired container the share of the layers inside that are paired inside."""
    layers = _layers(reference), _layers(candidate)
    totals = _inside(reference, layers[0]), _inside(candidate, layers[1])
    counts = ((one, two, layers[0][one] + layers[1][two]) for one, two in modules)
    common = holding.gather((found for found in counts if found[2]), np.add)
    found = {}
    for one, two in modules:
        total = totals[0][one] + totals[1][two]
        if total:
            found[one] = common.get(one, 0) / total
    return found


def _as_sure_as_content(
    reference: View,
    candidate: View,
    pairs: Sequence[ModulePair],
    certain: Container[tuple[int, int]],
    holding: Holding,
) -> tuple[ModulePair, ...]:
    """Make containers no surer than the surest pair inside both, and in no doubt if it is sure."""
    leaves = (
        (pair.reference, pair.candidate, pair.confidence)
        for pair in pairs
        if not (reference.children[pair.reference] or candidate.children[pair.candidate])
    )
    best = holding.gather(leaves, np.maximum)
    found = []
    for pair in pairs:
        inside = best.get(pair.reference, 0.0)
        is_certain = (pair.reference, pair.candidate) in certain
        if 0 < inside < pair.confidence and not is_certain:
            found.append(replace(pair, confidence=inside))
        else:
            found.append(pair)
    return tuple(found)


def _layers(view: View) -> list[bool]:
    """Mark what owns weights; an attention counts as one, whatever it is made of."""
    opaque = [False] * len(view.modules)
    found = []
    for module in view.modules:
        is_inside = module.parent is not None and opaque[module.parent]
        opaque[module.id] = is_inside or view.kinds[module.id] in OPAQUE
        found.append(not is_inside and (opaque[module.id] or bool(view.weights[module.id])))
    return found


def _inside(view: View, layers: Sequence[bool]) -> list[int]:
    """Count the layers inside each module."""
    counts = [0] * len(view.modules)
    for module in reversed(view.modules):
        if module.parent is not None:
            counts[module.parent] += counts[module.id] + layers[module.id]
    return counts
