"""Which pairs are proven: by evidence of their own, or because nothing else is possible.

Certainty is earned. A pair of layers is proven where names or values single it out, or where the
data flow of one side fixes the layer's place among all that could do its job, as many on both
sides. A pair of calls without parameters is proven by the proven calls that feed it or that it
feeds. Everything else may be right, and is in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.result import IN_ORDER, ModulePair, PairedBy
from padiff.pairing.tensors.sketch import sketches_of

from .anchors import anchors_of
from .doubt import Rated
from .forced import force, weight_groups
from .likeweights import told_by_outputs, weight_numbers
from .linked import prove_free
from .onesided import opaque_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from padiff.pairing.view import View

    from .calls import CallPairs
    from .likeweights import Places

__all__ = ["OwnEvidence", "Proofs", "are_proven", "own_evidence", "with_proofs"]

_UNSURE = 0.5
"""Where not even the order of execution speaks for a pair, another partner is as likely."""
_MAX_RIVALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEvidence:
    """What the weights of layers, and what they gave, say of their calls."""

    layers: tuple[Sequence[int], Sequence[int]]
    """All calls of layers of both sides, in execution order; positions are ranks."""
    partners: Sequence[int]
    """Rank of the call that each of the reference's is paired with, -1 without one."""
    weights: tuple[Places, Places]
    """Number for the weights of each call, -1 where no call of the other side has such."""
    told: Mapping[int, int]
    """By rank the one call of the other side that can be meant."""
    proven: frozenset[int]
    """Reference calls that are paired with that one."""


def own_evidence(views: tuple[View, View], calls: CallPairs) -> OwnEvidence:
    """Gather what tells each layer's call apart, whatever is around it."""
    opaque = opaque_of(*views)
    layers = anchors_of(views[0], opaque), anchors_of(views[1], opaque)
    ranks = {call: rank for rank, call in enumerate(layers[1])}
    partners = [ranks.get(calls.ahead.get(call, -1), -1) for call in layers[0]]
    numbers = weight_numbers(*views, layers)
    sketches = [sketches_of(v, side, Role.OUTPUT) for v, side in zip(views, layers, strict=True)]
    told = dict(told_by_outputs(numbers, (sketches[0], sketches[1])))
    return OwnEvidence(
        layers=layers,
        partners=partners,
        weights=numbers,
        told=told,
        proven=frozenset(layers[0][one] for one, two in told.items() if partners[one] == two),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProofs:
    """What is known for sure about the calls of layers."""

    proven: frozenset[int]
    """Reference calls whose partner no other call could be."""
    rivals: dict[int, tuple[int, ...]]
    """Calls of the candidate that could be the partner, by reference call; some of them."""
    contradicted: frozenset[int]
    """Reference calls whose partner stands at another rank, or should be another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proofs:
    """What is known of the calls of leaves."""

    proven: frozenset[int] = frozenset()
    """Reference calls whose partner no other call could be."""
    rivals: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Calls of the candidate that could as well be the partner, by reference call; some of them."""


def with_proofs(
    views: tuple[View, View],
    calls: CallPairs,
    rated: Sequence[Rated],
    evidence: OwnEvidence,
    weighed: Callable[[Sequence[Rated]], list[Rated]],
) -> tuple[list[Rated], Proofs]:
    """Confirm the pairs that are proven, and lower the confidence of all others.

    Args:
        views: Both sides.
        calls: The paired calls.
        rated: The pairs of modules, ascending by reference.
        evidence: What tells layers apart.
        weighed: Gives pairs that nothing proves with what else could be the partner.

    Returns:
        The pairs anew, and what is proven of the calls. Modules that
        never ran, and those that hold others and no weights, are as they were.
    """
    confirmed = {(r.pair.reference, r.pair.candidate) for r in rated if r.is_confirmed}
    layers = evidence.layers
    proofs = prove_layers(views, calls, confirmed, evidence)
    free = prove_free(views, calls, proofs.proven, layers)
    proven = proofs.proven | free.proven
    told = [
        {view.calls[call].module for call in (*side, *others)}
        for view, side, others in zip(views, layers, free.calls, strict=True)
    ]
    rivals = {**proofs.rivals, **free.rivals}
    in_order = proven | (proofs.rivals.keys() - proofs.contradicted)
    found, limits = list(rated), {}
    for place, one in enumerate(rated):
        if one.is_confirmed:
            continue
        is_told = one.pair.reference in told[0] and one.pair.candidate in told[1]
        if not is_told:
            continue
        ran = views[0].executed[one.pair.reference], views[1].executed[one.pair.candidate]
        if are_proven(calls, ran, proven):
            pair = one.pair
            if one.is_weighed:
                pair = replace(pair, confidence=1.0, alternatives=())
            found[place] = Rated(pair=pair, is_confirmed=True)
        else:
            limits[place] = IN_ORDER if in_order.issuperset(ran[0]) else _UNSURE
    found = weighed(found)
    for place, limit in limits.items():
        found[place] = _in_doubt(views, found[place], rivals, limit)
    return found, Proofs(proven=proven, rivals=rivals)


def are_proven(
    calls: CallPairs, ran: tuple[Sequence[int], Sequence[int]], proven: Set[int]
) -> bool:
    """Tell whether all calls of two modules that have partners have each other, for sure."""
    if len(ran[0]) == len(ran[1]) == 1:
        return calls.ahead.get(ran[0][0]) == ran[1][0] and ran[0][0] in proven
    mine = {calls.ahead[call] for call in ran[0] if call in calls.ahead}
    theirs = {call for call in ran[1] if call in calls.back}
    return bool(mine) and mine == theirs and all(calls.back[call] in proven for call in mine)


def _in_doubt(
    views: tuple[View, View],
    rated: Rated,
    rivals: Mapping[int, Sequence[int]],
    limit: float,
) -> Rated:
    """Lower the confidence of a pair, and say what else could be the partner."""
    pair, alternatives = rated.pair, rated.pair.alternatives
    if not alternatives:
        ran = views[0].executed[pair.reference]
        others = {views[1].calls[other].module for call in ran for other in rivals.get(call, ())}
        alternatives = tuple(sorted(others - {pair.candidate})[:_MAX_RIVALS])
    made = ModulePair(
        reference=pair.reference,
        candidate=pair.candidate,
        paired_by=pair.paired_by,
        confidence=min(pair.confidence, limit),
        alternatives=alternatives,
    )
    return Rated(pair=made, rivals=rated.rivals, is_confirmed=rated.is_confirmed)


def prove_layers(
    views: tuple[View, View],
    calls: CallPairs,
    confirmed: Set[tuple[int, int]],
    evidence: OwnEvidence,
) -> LayerProofs:
    """Prove pairs of layer calls by evidence of their own, or because nothing else is possible.

    Args:
        views: Both sides.
        calls: The paired calls.
        confirmed: Pairs of modules that names or values single out; those of which ``evidence``
            proves all calls need not be among them.
        evidence: What tells layers apart.
    """
    layers, partners = evidence.layers, evidence.partners
    groups = weight_groups(evidence.weights)
    known = dict(evidence.told)
    for rank, other in enumerate(partners):
        if other < 0:
            continue
        one, two = views[0].calls[layers[0][rank]], views[1].calls[layers[1][other]]
        if (one.module, two.module) not in confirmed:
            continue
        ran = views[0].executed[one.module], views[1].executed[two.module]
        if len(ran[0]) == len(ran[1]) == 1 or calls.by[one.id] is PairedBy.NAME:
            known[rank] = other
        elif rank not in groups[0] and other not in groups[1]:
            groups[0][rank] = groups[1][other] = ("modules", one.module, two.module)
    forced = force(views, layers, known.items(), groups)
    proven: set[int] = set()
    contradicted: set[int] = set()
    rivals: dict[int, tuple[int, ...]] = {}
    for rank, other in enumerate(partners):
        if other < 0:
            continue
        if forced.pairs.get(rank) == other:
            proven.add(layers[0][rank])
        else:
            rivals[layers[0][rank]] = tuple(layers[1][one] for one in forced.rivals(rank, other))
            if forced.is_contradicted(rank, other):
                contradicted.add(layers[0][rank])
    return LayerProofs(
        proven=frozenset(proven), rivals=rivals, contradicted=frozenset(contradicted)
    )
