"""How sure each pair of modules is, and which other partners were possible."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import ModulePair, PairedBy
from padiff.pairing.tensors.sketch import alikeness

from .doubt import Rated, spread
from .onesided import OPAQUE
from .rivals import RatedSide, prepare

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

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
_NAMED = 0.8
"""Paths this alike, numbers included, are those of partners."""
_CONFIRMED = 0.97
"""Outputs whose statistics are this near are those of partners."""
_PLACED = 0.05
"""Two containers that share no layer, and are paired by their place alone."""
_UNSURE = 0.5
"""Two calls of modules that are no partners, and whose outputs say nothing."""
_NUMBER = re.compile(r"\d{1,15}")


def rate(
    reference: View, candidate: View, modules: Matching, calls: CallPairs
) -> tuple[ModulePair, ...]:
    """Say how sure each pair is.

    A pair of containers is as sure as the share of their content that is paired. A leaf is in
    doubt where another module of its kind and size is fed the same tensor, or stayed alone in the
    same surroundings, and neither names, weights nor outputs tell the two apart; so is what depends
    on such a pair. What the user said, and equal paths, are not doubted.
    """
    sides = (
        prepare(reference, set(modules.ahead), set(calls.ahead)),
        prepare(candidate, set(modules.back), set(calls.back)),
    )
    shares = _shares(reference, candidate, modules)
    for call, share in calls.share.items():
        module = reference.calls[call].module
        shares[module] = max(share, shares.get(module, 0.0))
    rated = [_rate(sides, one, two, modules, shares) for one, two in modules]
    return spread((reference, candidate), calls, rated, (sides[0].jobs, sides[1].jobs))


def rate_calls(
    reference: View, candidate: View, calls: CallPairs, modules: Iterable[ModulePair]
) -> Iterator[float]:
    """Say how sure each pair of calls is, in the order of the pairs.

    As sure as the modules are. One instance that runs three times has only one partner among three
    instances: there outputs decide, or the user.
    """
    sure = {(pair.reference, pair.candidate): pair.confidence for pair in modules}
    for one, two in calls:
        known = sure.get((reference.calls[one].module, candidate.calls[two].module))
        if known is None:
            known = 1.0 if calls.by[one] is PairedBy.MAP else _UNSURE
            outputs = reference.select(one, Role.OUTPUT), candidate.select(two, Role.OUTPUT)
            if outputs[0] and outputs[1]:
                near = alikeness(reference, outputs[0][0], candidate, outputs[1][0])
                known = max(known, near or 0.0)
        yield known


def _rate(
    sides: tuple[RatedSide, RatedSide],
    one: int,
    two: int,
    modules: Matching,
    shares: dict[int, float],
) -> Rated:
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
        is_confirmed = confidence >= 1.0 and _is_confirmed(sides, one, two)
    pair = ModulePair(
        reference=one,
        candidate=two,
        paired_by=by,
        confidence=confidence,
        alternatives=alternatives,
    )
    return Rated(pair=pair, rivals=rivals, is_confirmed=is_confirmed)


def _is_confirmed(sides: tuple[RatedSide, RatedSide], one: int, two: int) -> bool:
    """Tell whether two modules are told by their names or weights, or layers by their outputs."""
    paths = sides[0].view.modules[one].path, sides[1].view.modules[two].path
    is_numbered = _numbers(paths[0]) == _numbers(paths[1])
    if is_numbered and likeness(words_of(paths[0]), words_of(paths[1])) >= _NAMED:
        return True
    if not sides[0].view.weights[one]:
        return False
    weights = _weights(sides[0].view, one), _weights(sides[1].view, two)
    if weights[0] is not None and weights[0] == weights[1]:
        return True
    outputs = sides[0].outputs[one], sides[1].outputs[two]
    if outputs[0] is None or outputs[1] is None:
        return False
    near = alikeness(sides[0].view, outputs[0], sides[1].view, outputs[1])
    return near is not None and near >= _CONFIRMED


def _shares(reference: View, candidate: View, modules: Matching) -> dict[int, float]:
    """Give for each paired container the share of the layers inside that are paired inside."""
    layers = _layers(reference), _layers(candidate)
    totals = _inside(reference, layers[0]), _inside(candidate, layers[1])
    common: dict[int, int] = defaultdict(int)
    for one, two in modules:
        count = layers[0][one] + layers[1][two]
        theirs = set(_around(candidate, two)) if count else set()
        for outer in _around(reference, one) if count else ():
            if modules.ahead.get(outer) in theirs:
                common[outer] += count
    found = {}
    for one, two in modules:
        total = totals[0][one] + totals[1][two]
        if total:
            found[one] = common[one] / total
    return found


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


def _around(view: View, module: int) -> Iterator[int]:
    outer = view.modules[module].parent
    while outer is not None:
        yield outer
        outer = view.modules[outer].parent


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
    score += _EQUAL_NUMBERS * (_numbers(paths[0]) == _numbers(paths[1]))
    weights = _weights(reference, one), _weights(candidate, two)
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


@lru_cache(maxsize=65536)
def _numbers(path: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBER.findall(path)))


def _weights(view: View, module: int) -> Hashable | None:
    """Give a key of the weights that no layout changes; None where they say nothing."""
    found = []
    for record in view.weights[module]:
        value = view.records[record].value
        statistics = None if value is None else view.values[value].statistics
        if statistics is None or statistics.minimum is None:
            return None
        if statistics.minimum != statistics.maximum:
            found.append((view.values[value or 0].size, statistics.minimum, statistics.maximum))
    return tuple(sorted(found)) or None
