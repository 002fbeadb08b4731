"""How sure each pair of modules is, and which other partners were possible."""

from __future__ import annotations

from dataclasses import replace
from operator import add
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import IN_ORDER, CallPair, ModulePair, PairedBy
from padiff.pairing.tensors.sketch import alikeness

from .doubt import Rated, spread
from .holding import Holding
from .onesided import OPAQUE
from .proof import Proofs, with_proofs
from .rivals import RatedSide, prepare
from .telling import Telling, numbers_in, weights_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.pairing.view import View
    from padiff.pairing.weights.matching import Matching

    from .calls import CallPairs

__all__ = ["rate", "rate_calls"]

_CLEAR = 0.3
"""A partner whose evidence is better by so much leaves no doubt."""
_EQUAL_WEIGHTS = 2.0
_EQUAL_NUMBERS = 0.5
_EQUAL_INPUT = 1.0
_EQUAL_FLOW = 1.0
_ALIKE = 0.8
"""Outputs whose statistics are nearer than this speak for a pair; below, chance does it, too."""
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
    sides = (
        prepare(reference, set(modules.ahead), set(calls.ahead)),
        prepare(candidate, set(modules.back), set(calls.back)),
    )
    holding = Holding(reference.modules, candidate.modules, modules.ahead)
    shares = _shares(reference, candidate, modules, holding)
    for call, share in calls.share.items():
        module = reference.calls[call].module
        shares[module] = max(share, shares.get(module, 0.0))
    telling = Telling(reference, candidate)
    rated = [_rate(sides, telling, (one, two), modules, shares) for one, two in modules]
    rated, proofs = with_proofs((reference, candidate), calls, rated)
    found = spread((reference, candidate), calls, rated, (sides[0].jobs, sides[1].jobs))
    return _as_sure_as_content(reference, candidate, found, rated, holding), proofs


def rate_calls(
    reference: View,
    candidate: View,
    calls: CallPairs,
    modules: Iterable[ModulePair],
    proofs: Proofs,
) -> Iterator[CallPair]:
    """Say how sure each pair of calls is.

    As sure as the modules are, and certain where the call itself is proven. One instance that runs
    three times has only one partner among three instances: there outputs decide, or the user.
    """
    known = {(pair.reference, pair.candidate): pair for pair in modules}
    for one, two in calls:
        modules_ = reference.calls[one].module, candidate.calls[two].module
        pair = known.get(modules_)
        others: tuple[int, ...] = ()
        if calls.by[one] is PairedBy.MAP or one in proofs.proven:
            sure = 1.0
        else:
            sure = _by_outputs(reference, one, candidate, two) if pair is None else pair.confidence
            if one in proofs.rivals and calls.by[one] is not PairedBy.NAME:
                sure = min(sure, IN_ORDER)  # one of several calls, and nothing says which
            others = tuple(call for call in proofs.rivals.get(one, ()) if call != two)
            if sure < 1.0 and not others and pair is not None:
                others = _same_turn(candidate, two, pair.alternatives)
        yield CallPair(
            reference=one,
            candidate=two,
            paired_by=calls.by[one],
            confidence=sure,
            alternatives=() if sure >= 1.0 else others,
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


def _rate(
    sides: tuple[RatedSide, RatedSide],
    telling: Telling,
    pair: tuple[int, int],
    modules: Matching,
    shares: dict[int, float],
) -> Rated:
    one, two = pair
    by = modules.by[one]
    reference, candidate = sides[0].view, sides[1].view
    is_same_path = reference.modules[one].path == candidate.modules[two].path
    confidence = 1.0
    alternatives: tuple[int, ...] = ()
    rivals: tuple[int, ...] = ()
    is_confirmed = by is PairedBy.MAP or is_same_path
    if reference.children[one] or candidate.children[two]:
        confidence = max(shares.get(one, 1.0), _PLACED)
    elif by is not PairedBy.MAP and not is_same_path:
        doubts = {
            other: _doubt(sides, (one, two), (modules.back.get(other), other))
            for other in sides[1].rivals(two, one, sides[0])
        }
        back = {
            other: _doubt(sides, (one, two), (other, modules.ahead.get(other)))
            for other in sides[0].rivals(one, two, sides[1])
        }
        confidence = 1 / (1 + max(sum(doubts.values()), sum(back.values())))
        alternatives = tuple(other for other, doubt in doubts.items() if doubt > 0)
        rivals = tuple(other for other, doubt in back.items() if doubt > 0)
        outputs = sides[0].outputs[one], sides[1].outputs[two]
        is_confirmed = confidence >= 1.0 and telling.confirms(one, two, outputs)
    made = ModulePair(
        reference=one,
        candidate=two,
        paired_by=by,
        confidence=confidence,
        alternatives=alternatives,
    )
    return Rated(pair=made, rivals=rivals, is_confirmed=is_confirmed)


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


def _doubt(
    sides: tuple[RatedSide, RatedSide],
    chosen: tuple[int, int],
    rest: tuple[int | None, int | None],
) -> float:
    """Say how much another partner is in the way of a pair, in [0, 1].

    Args:
        sides: Both sides.
        chosen: The pair.
        rest: A rival of one of the two and its partner, None if it has none. If both are there,
            the two pairs are weighed against those that exchanging partners makes: what speaks
            against the exchange for one pair speaks for both.
    """
    (one, two), (other, partner) = chosen, rest
    margin = _evidence(sides, one, two)
    if other is not None and partner is not None:
        margin += _evidence(sides, other, partner)
        margin -= _evidence(sides, one, partner) + _evidence(sides, other, two)
        margin /= 2
    elif partner is not None:
        margin -= _evidence(sides, one, partner)
    elif other is not None:
        margin -= _evidence(sides, other, two)
    return min(max(1 - margin / _CLEAR, 0.0), 1.0)


def _evidence(sides: tuple[RatedSide, RatedSide], one: int, two: int) -> float:
    """Score what tells modules of one job apart: names, numbers, weights, outputs."""
    reference, candidate = sides[0].view, sides[1].view
    paths = reference.modules[one].path, candidate.modules[two].path
    score = likeness(words_of(paths[0]), words_of(paths[1]))
    score += _EQUAL_NUMBERS * (numbers_in(paths[0]) == numbers_in(paths[1]))
    weights = weights_of(reference, one), weights_of(candidate, two)
    score += _EQUAL_WEIGHTS * (weights[0] is not None and weights[0] == weights[1])
    given = sides[0].fed(one), sides[1].fed(two)
    if given[0] is not None and given[1] is not None:
        score += _EQUAL_INPUT * (given[0].digest == given[1].digest)
    outputs = sides[0].outputs[one], sides[1].outputs[two]
    if outputs[0] is not None and outputs[1] is not None:
        near = alikeness(reference, outputs[0], candidate, outputs[1]) or 0.0
        score += max(near - _ALIKE, 0.0) / (1 - _ALIKE)
    after = sides[0].fed_to[one], sides[1].fed_to[two]
    if None not in after:
        score += _EQUAL_FLOW if after[0] == after[1] else -_EQUAL_FLOW
    return score
