"""How sure each pair of modules is, and which other partners were possible."""

from __future__ import annotations

from dataclasses import replace
from operator import add
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.dumpfile.bulk import build_all
from padiff.pairing.result import IN_ORDER, CallPair, ModulePair, PairedBy
from padiff.pairing.tensors.sketch import alikeness

from .doubt import Rated, spread
from .holding import Holding
from .onesided import OPAQUE
from .proof import OwnEvidence, Proofs, are_proven, own_evidence, with_proofs
from .rivals import RatedSide
from .weighing import Weighing

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from padiff.pairing.view import View
    from padiff.pairing.weights.matching import Matching

    from .calls import CallPairs

__all__ = ["rate", "rate_calls"]

_PLACED = 0.05
"""Two containers that share no layer, and are paired by their place alone."""
_LIKELY = 0.9
"""Two such calls whose outputs are alike: others may be as alike."""
_UNSURE = 0.5
"""Two calls of modules that are no partners, and whose outputs say nothing."""


def rate(
    reference: View, candidate: View, modules: Matching, calls: CallPairs
) -> tuple[tuple[ModulePair, ...], Proofs]:
    """Say how sure each pair is.

    A pair of containers is as sure as the share of their content that is paired. A leaf is in
    doubt unless something proves it: names, weights or outputs that it shares with no other, or
    data flow (``proof.py``). What the user said, and equal paths, are not doubted.

    Returns:
        The pairs with their confidence, and what is proven of the calls.
    """
    jobs: dict[Hashable, int] = {}
    sides = (
        RatedSide(reference, modules.ahead, calls.ahead.keys(), jobs),
        RatedSide(candidate, modules.back, calls.back.keys(), jobs),
    )
    holding = Holding(reference.modules, candidate.modules, modules.ahead)
    shares = _shares(reference, candidate, modules, holding)
    for call, share in calls.share.items():
        module = reference.calls[call].module
        shares[module] = max(share, shares.get(module, 0.0))
    weighing = Weighing(sides, modules)
    evidence = own_evidence((reference, candidate), calls)
    rated = _rate_all(weighing, modules, shares, calls, evidence)
    rated, proofs = with_proofs((reference, candidate), calls, rated, evidence, weighing.weighed)
    found = spread((reference, candidate), calls, rated, sides[1])
    return _as_sure_as_content(reference, candidate, found, rated, holding), proofs


def rate_calls(
    reference: View,
    candidate: View,
    calls: CallPairs,
    modules: Iterable[ModulePair],
    proofs: Proofs,
) -> list[CallPair]:
    """Say how sure each pair of calls is.

    As sure as the modules are, and certain where the call itself is proven. One instance that runs
    three times has only one partner among three instances: there outputs decide, or the user.
    """
    known = {(pair.reference, pair.candidate): pair for pair in modules}
    pairs = list(calls)
    by = [calls.by[one] for one, _ in pairs]
    sure = [1.0] * len(pairs)
    others: list[tuple[int, ...]] = [()] * len(pairs)
    for place, (one, two) in enumerate(pairs):
        if one in proofs.proven or by[place] is PairedBy.MAP:
            continue
        pair = known.get((reference.calls[one].module, candidate.calls[two].module))
        share = _by_outputs(reference, one, candidate, two) if pair is None else pair.confidence
        if one in proofs.rivals and by[place] is not PairedBy.NAME:
            share = min(share, IN_ORDER)  # one of several calls, and nothing says which
        sure[place] = share
        if share < 1.0:
            rivals = tuple(call for call in proofs.rivals.get(one, ()) if call != two)
            if not rivals and pair is not None:
                rivals = _same_turn(candidate, two, pair.alternatives)
            others[place] = rivals
    return build_all(
        CallPair,
        len(pairs),
        reference=[one for one, _ in pairs],
        candidate=[two for _, two in pairs],
        paired_by=by,
        confidence=sure,
        alternatives=others,
    )


def _by_outputs(reference: View, one: int, candidate: View, two: int) -> float:
    """Rate two calls of modules that are no partners."""
    outputs = reference.select(one, Role.OUTPUT), candidate.select(two, Role.OUTPUT)
    if not (outputs[0] and outputs[1]):
        return _UNSURE
    near = alikeness(reference, outputs[0][0], candidate, outputs[1][0])
    return max(_UNSURE, min(near or 0.0, _LIKELY))


def _same_turn(view: View, call: int, modules: Iterable[int]) -> tuple[int, ...]:
    """Give the calls of other modules that are the same repetition as this one."""
    turn = view.calls[call].index
    return tuple(view.executed[one][turn] for one in modules if turn < len(view.executed[one]))


def _rate_all(
    weighing: Weighing,
    modules: Matching,
    shares: dict[int, float],
    calls: CallPairs,
    evidence: OwnEvidence,
) -> list[Rated]:
    """Rate each pair by itself; a leaf that nothing singles out is weighed if nothing proves it.

    What evidence of its own proves is in no doubt, whatever else might stand in for it.

    Returns:
        The pairs, of leaves that are still to be weighed with a confidence of 1.
    """
    found = _rated(weighing.views, modules, shares, calls, evidence)
    told = [
        place
        for place, made in enumerate(found)
        if not made.is_weighed and weighing.are_told(made.pair.reference, made.pair.candidate)
    ]
    for place, made in zip(told, weighing.weighed([found[place] for place in told]), strict=True):
        found[place] = replace(made, is_confirmed=made.pair.confidence >= 1.0)
    return found


def _rated(
    views: tuple[View, View],
    modules: Matching,
    shares: dict[int, float],
    calls: CallPairs,
    evidence: OwnEvidence,
) -> list[Rated]:
    """Rate containers and what is certain; other leaves stay to be weighed."""
    reference, candidate = views
    pairs = list(modules)
    by = [modules.by[one] for one, _ in pairs]
    containers = [bool(reference.children[one] or candidate.children[two]) for one, two in pairs]
    certain = [
        why is PairedBy.MAP or reference.modules[one].path == candidate.modules[two].path
        for why, (one, two) in zip(by, pairs, strict=True)
    ]
    for place, (one, two) in enumerate(pairs):
        if not (containers[place] or certain[place]):
            ran = reference.executed[one], candidate.executed[two]
            certain[place] = are_proven(calls, ran, evidence.proven)
    made = build_all(
        ModulePair,
        len(pairs),
        reference=[one for one, _ in pairs],
        candidate=[two for _, two in pairs],
        paired_by=by,
        confidence=[
            max(shares.get(one, 1.0), _PLACED) if is_container else 1.0
            for is_container, (one, _) in zip(containers, pairs, strict=True)
        ],
    )
    either = zip(containers, certain, strict=True)
    weighed = [is_container or is_certain for is_container, is_certain in either]
    return build_all(Rated, len(pairs), pair=made, is_confirmed=certain, is_weighed=weighed)


def _shares(
    reference: View, candidate: View, modules: Matching, holding: Holding
) -> dict[int, float]:
    """Give for each paired container the share of the layers inside that are paired inside."""
    layers = _layers(reference), _layers(candidate)
    totals = _inside(reference, layers[0]), _inside(candidate, layers[1])
    counts = ((one, two, layers[0][one] + layers[1][two]) for one, two in modules)
    common = holding.gather((found for found in counts if found[2]), add)
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
    rated: Sequence[Rated],
    holding: Holding,
) -> tuple[ModulePair, ...]:
    """Make containers no surer than the surest pair inside both, and in no doubt if it is sure."""
    leaves = (
        (pair.reference, pair.candidate, pair.confidence)
        for pair in pairs
        if not (reference.children[pair.reference] or candidate.children[pair.candidate])
    )
    best = holding.gather(leaves, max)
    found = []
    for pair, before in zip(pairs, rated, strict=True):
        inside = best.get(pair.reference, 0.0)
        if inside >= 1.0:
            found.append(before.pair)
        elif 0 < inside < pair.confidence and not before.is_confirmed:
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
