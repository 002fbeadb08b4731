"""How sure each pair of modules is, and which other partners were possible."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import RecordInfo, Role, ValueInfo

from .doubt import Rated, spread
from .names import likeness, words_of
from .onesided import OPAQUE
from .result import ModulePair, PairedBy
from .sketch import alikeness

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence, Set

    from .calls import CallPairs
    from .matching import Matching
    from .view import View

__all__ = ["rate", "rate_calls"]

_CLEAR = 0.3
"""A partner whose evidence is better by so much leaves no doubt."""
_EQUAL_WEIGHTS = 2.0
_EQUAL_NUMBERS = 0.5
_EQUAL_INPUT = 1.0
_MAX_RIVALS = 4
"""So many on either side are looked at, in definition order."""
_MAX_AROUND = 4
"""So many calls around a layer are looked at for towers that are fed the same."""
_NAMED = 0.8
"""Paths this alike, numbers included, are those of partners."""
_CONFIRMED = 0.97
"""Outputs whose statistics are this near are those of partners."""
_PLACED = 0.05
"""Two containers that share no layer, and are paired by their place alone."""
_UNSURE = 0.5
"""Two calls of modules that are no partners, and whose outputs say nothing."""
_NUMBER = re.compile(r"\d{1,15}")


@dataclass(frozen=True, slots=True)
class _Side:
    """One side with the modules that could stand in for one another."""

    view: View
    outputs: tuple[RecordInfo | None, ...]
    """The largest output of the first call of each module."""
    jobs: tuple[Hashable, ...]
    """Kind and sizes of each module."""
    eaters: dict[Hashable, list[int]]
    """Modules by job and what they are fed, or by job and parent where they never ran."""
    towers: dict[int, list[Hashable]]
    """Keys in ``eaters`` of each module by what the calls around its first call are fed."""
    spare: dict[Hashable, list[int]]
    """Modules none of whose calls has a partner, by job and paired surroundings."""
    around: tuple[int | None, ...]
    """The nearest paired module around each module."""
    values: dict[str, int]
    """Value by digest."""

    def rivals(self, module: int, partner: int, other_side: _Side) -> Iterator[int]:
        """Give the modules that structure and data flow cannot tell from this one.

        Those fed the same tensor as this one or, bit for bit, as its partner; those left alone.
        """
        job = self.jobs[module]
        found = _nearest(self.eaters.get((job, _food(self.view, module)), []), module)
        given = other_side.fed(partner)
        same = None if given is None else self.values.get(given.digest)
        if same is not None:
            found |= _nearest(self.eaters.get((job, ("fed", same)), []), module)
        found |= _nearest(self.spare.get((job, self.around[module]), []), module)
        for key in self.towers.get(module, ()):
            found |= _nearest(self.eaters[key], module)
        mine = self.outputs[module]
        for other in sorted(found - {module}):
            theirs = self.outputs[other]
            is_same = mine is not None and theirs is not None and mine.value == theirs.value
            if not is_same or mine is None or mine.value is None:
                yield other

    def fed(self, module: int) -> ValueInfo | None:
        """Give what went into a module first, None where nothing did."""
        food = _food(self.view, module)
        return self.view.values[food[1]] if food[0] == "fed" and food[1] is not None else None


def _nearest(modules: Sequence[int], module: int) -> set[int]:
    """Give the few of an ascending list that stand next to a module."""
    place = bisect_left(modules, module)
    return set(modules[max(0, place - _MAX_RIVALS) : place + _MAX_RIVALS + 1])


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
        _prepare(reference, set(modules.ahead), set(calls.ahead)),
        _prepare(candidate, set(modules.back), set(calls.back)),
    )
    shares = _shares(reference, candidate, modules)
    for call, share in calls.share.items():
        module = reference.calls[call].module
        shares[module] = max(share, shares.get(module, 0.0))
    rated = [_rate(sides, one, two, modules.by[one], shares) for one, two in modules]
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
    sides: tuple[_Side, _Side], one: int, two: int, by: PairedBy, shares: dict[int, float]
) -> Rated:
    reference, candidate = sides[0].view, sides[1].view
    is_same_path = reference.modules[one].path == candidate.modules[two].path
    confidence = 1.0
    alternatives: tuple[int, ...] = ()
    rivals: tuple[int, ...] = ()
    is_confirmed = by is PairedBy.MAP or is_same_path
    if reference.children[one] or candidate.children[two]:
        confidence = max(shares.get(one, 1.0), _PLACED)
    elif by is not PairedBy.MAP and not is_same_path:
        chosen = _evidence(sides, one, two)
        doubts = {
            other: _doubt(chosen, _evidence(sides, one, other))
            for other in sides[1].rivals(two, one, sides[0])
        }
        back = {
            other: _doubt(chosen, _evidence(sides, other, two))
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


def _is_confirmed(sides: tuple[_Side, _Side], one: int, two: int) -> bool:
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


def _doubt(chosen: float, other: float) -> float:
    return min(max(1 - (chosen - other) / _CLEAR, 0.0), 1.0)


def _prepare(view: View, paired: Set[int], paired_calls: Set[int]) -> _Side:
    around: list[int | None] = []
    for module in view.modules:
        outer = module.parent
        is_paired = outer is None or outer in paired
        around.append(outer if is_paired or outer is None else around[outer])
    eaters: dict[Hashable, list[int]] = defaultdict(list)
    spare: dict[Hashable, list[int]] = defaultdict(list)
    outputs = tuple(_output(view, module.id) for module in view.modules)
    jobs = tuple(_job(view, module, output) for module, output in enumerate(outputs))
    for module in view.modules:
        if view.children[module.id]:
            continue
        job = jobs[module.id]
        eaters[job, _food(view, module.id)].append(module.id)
        if module.id not in paired and paired_calls.isdisjoint(view.executed[module.id]):
            spare[job, around[module.id]].append(module.id)
    towers = _towers(view, jobs)
    for place in sorted(towers):
        for key in towers[place]:
            eaters[key].append(place)
    values = {value.digest: value.id for value in view.values}
    return _Side(view, outputs, jobs, eaters, towers, spare, tuple(around), values)


def _towers(view: View, jobs: Sequence[Hashable]) -> dict[int, list[Hashable]]:
    """Give for each layer its job, its rank among those alike in each call around it, and its food.

    The k-th layers of a kind in towers that are fed the same tensor are alike, even where a
    function comes first.
    """
    counts: dict[Hashable, int] = defaultdict(int)
    found: dict[int, list[Hashable]] = {}
    for module in sorted(range(len(view.modules)), key=lambda one: view.executed[one][:1]):
        if view.children[module] or not view.executed[module]:
            continue
        keys: list[Hashable] = []
        for outer, _ in zip(
            view.ancestors(view.executed[module][0]), range(_MAX_AROUND), strict=False
        ):
            counts[jobs[module], outer] += 1
            food = _food(view, view.calls[outer].module)
            keys.append((jobs[module], counts[jobs[module], outer], food))
        found[module] = keys
    return found


def _job(view: View, module: int, output: RecordInfo | None) -> Hashable:
    """Give kind and sizes of a module's weights, and whether it ran."""
    sizes = sorted(prod(view.records[record].shape) for record in view.weights[module])
    size = None if output is None else prod(output.shape)
    return view.kinds[module], tuple(sizes), bool(view.executed[module]), size


def _food(view: View, module: int) -> tuple[str, int | None]:
    """Give the largest tensor that went into a module first; its parent if it never ran."""
    ran = view.executed[module]
    if not ran:
        return "inside", view.modules[module].parent
    records = view.select(ran[0], Role.INPUT)
    if not records:
        return "alone", module
    main = max(records, key=lambda record: (prod(record.shape), -record.id))
    return ("alone", module) if main.value is None else ("fed", main.value)


def _output(view: View, module: int) -> RecordInfo | None:
    ran = view.executed[module]
    records = view.select(ran[0], Role.OUTPUT) if ran else []
    return max(records, key=lambda record: (prod(record.shape), -record.id), default=None)


def _evidence(sides: tuple[_Side, _Side], one: int, two: int) -> float:
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
        score += alikeness(reference, outputs[0], candidate, outputs[1]) or 0.0
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
