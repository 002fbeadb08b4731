"""Which pairs are proven: by evidence of their own, or because nothing else is possible.

Certainty is earned. A pair of layers is proven where names or weights single it out, where no other
of its kind takes the same expression, or where the data flow of one side fixes the layer's place
among all that could do its job, as many on both sides. A pair of calls without parameters is proven
where no other of its kind takes the same, or runs between the same two layers. Everything else may
be right, and is in doubt: it stands in one class with the others of its job that nothing proves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.pairing.result import IN_ORDER, PairedBy

from .anchors import anchors_of, token_of
from .expressed import flows_of, sole, told_by_weights, weight_numbers
from .flow import refine
from .onesided import opaque_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Mapping, Sequence, Set

    from padiff.pairing.view import View

    from .calls import CallPairs
    from .expressed import Places

_UNSURE = 0.5
"""Where not even the order of execution speaks for a pair, another partner is as likely."""
_MAX_RIVALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEvidence:
    """What the weights of layers say of their calls."""

    layers: tuple[Sequence[int], Sequence[int]]
    """All calls of layers of both sides, in execution order; positions are ranks."""
    partners: Sequence[int]
    """Rank of the call that each of the reference's is paired with, -1 without one."""
    weights: tuple[Places, Places]
    """Number for the weights of each call, -1 where no call of the other side has such."""
    told: Mapping[int, int]
    """By rank the one call of the other side that can be meant."""


def own_evidence(views: tuple[View, View], calls: CallPairs) -> OwnEvidence:
    """Gather what tells each layer's call apart, whatever is around it."""
    opaque = opaque_of(*views)
    layers = anchors_of(views[0], opaque), anchors_of(views[1], opaque)
    ranks = {call: rank for rank, call in enumerate(layers[1])}
    numbers = weight_numbers(*views, layers)
    return OwnEvidence(
        layers=layers,
        partners=[ranks.get(calls.ahead.get(call, -1), -1) for call in layers[0]],
        weights=numbers,
        told=told_by_weights(numbers),
    )


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is known of a pair that nothing proves."""

    confidence: float
    rivals: tuple[int, ...]
    """Some of the calls of the candidate that could as well be the partner, the nearest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proofs:
    """What is known of the calls of layers, and of leaves without parameters."""

    proven: Set[int] = frozenset()
    """Reference calls whose partner no other call could be."""
    doubts: Mapping[int, Doubt] = field(default_factory=dict)
    """By reference call, of all other pairs."""


def prove(
    views: tuple[View, View],
    calls: CallPairs,
    confirmed: Set[tuple[int, int]],
    evidence: OwnEvidence,
) -> Proofs:
    """Prove pairs of calls, and say of the others how many else it could be."""
    proven = _prove_layers(views, calls, confirmed, evidence)
    free = tuple([c for c in range(len(v.calls)) if _is_free(v, c)] for v in views)
    proven |= _prove_free(views, calls, (free[0], free[1]), evidence.layers, proven)
    jobs: list[dict[int, Hashable]] = []
    for view, layers, numbers, others in zip(
        views, evidence.layers, evidence.weights, free, strict=True
    ):
        told = zip(layers, numbers.tolist(), strict=True)
        own = {call: number if number >= 0 else token_of(view, call) for call, number in told}
        jobs.append({**own, **{call: view.kind(call) for call in others}})
    sides = (
        _Classes(views[0], jobs[0], proven),
        _Classes(views[1], jobs[1], {calls.ahead[one] for one in proven}),
    )
    open_ = ((one, two) for one, two in calls if one in jobs[0] and two in jobs[1])
    doubts = {one: _doubt(sides, one, two) for one, two in open_ if one not in proven}
    return Proofs(proven=proven, doubts=doubts)


def _prove_layers(
    views: tuple[View, View],
    calls: CallPairs,
    confirmed: Set[tuple[int, int]],
    evidence: OwnEvidence,
) -> set[int]:
    """Return the reference calls of layers that have the one partner that is possible."""
    layers, partners = evidence.layers, evidence.partners
    known = dict(evidence.told)
    shared: list[tuple[int, int, Hashable]] = []
    for rank, other in enumerate(partners):
        if other < 0:
            continue
        one, two = views[0].calls[layers[0][rank]], views[1].calls[layers[1][other]]
        if (one.module, two.module) not in confirmed:
            continue
        ran = views[0].executed[one.module], views[1].executed[two.module]
        if len(ran[0]) == len(ran[1]) == 1 or calls.by[one.id] is PairedBy.NAME:
            known[rank] = other
        else:
            shared.append((rank, other, ("modules", one.module, two.module)))
    forced = refine(views, layers, known.items(), evidence.weights, shared)
    return {
        layers[0][rank]
        for rank, other in enumerate(partners)
        if other >= 0 and forced.get(rank) == other
    }


def _is_free(view: View, call: int) -> bool:
    module = view.calls[call].module
    return not (view.inner[call] or view.weights[module] or view.children[module])


def _prove_free(
    views: tuple[View, View],
    calls: CallPairs,
    free: tuple[Sequence[int], Sequence[int]],
    layers: tuple[Sequence[int], Sequence[int]],
    proven: Set[int],
) -> set[int]:
    """Return the calls without parameters whose kind takes a value, or stands in a gap, once."""
    if not any(call in calls.ahead for call in free[0]):
        return set()
    partners = [(one, calls.ahead[one]) for one in sorted(proven)]
    given, _ = flows_of(views, partners)
    images = {one: one for one, _ in partners}, {two: one for one, two in partners}
    taken: list[dict[int, Hashable]] = []
    between: list[dict[int, Hashable]] = []
    for which, view in enumerate(views):
        gaps = _gaps(layers[which], images[which])
        keys = [(given[which][call], view.kind(call), _is_idle(view, call)) for call in free[which]]
        both = list(zip(free[which], keys, strict=True))
        taken.append({call: key for call, key in both if key[0] is not None})
        between.append({call: (*key, *gap) for call, key in both if -1 not in (gap := gaps(call))})
    pairs = {*sole((taken[0], taken[1])), *sole((between[0], between[1]))}
    return {one for one, two in pairs if calls.has(one, two)}


def _is_idle(view: View, call: int) -> bool:
    """Return whether a call gives what it takes, as a second ReLU does."""
    made = view.told_made[call]
    return made is not None and made == view.told_given[call]


def _gaps(
    layers: Sequence[int], images: Mapping[int, int]
) -> Callable[[int], tuple[int | None, int | None]]:
    """Return a function that says between which two layers a call runs, as reference calls."""

    def around(call: int) -> tuple[int | None, int | None]:
        place = bisect_left(layers, call)
        before, after = layers[place - 1 : place], layers[place : place + 1]
        return _image(before, images), _image(after, images)

    return around


def _image(calls: Sequence[int], images: Mapping[int, int]) -> int | None:
    """Return the proven partner of the only call, -1 if it has none; None if there is none."""
    return images.get(calls[0], -1) if calls else None


class _Classes:
    """The calls of one side that nothing proves, by job, and by job and what they take."""

    def __init__(
        self,
        view: View,
        jobs: Mapping[int, Hashable],
        proven: Container[int],
    ) -> None:
        """Refine the jobs along the values that calls take as others made them."""
        self.jobs = jobs
        self._alike: dict[Hashable, list[int]] = defaultdict(list)
        self._of_job: dict[Hashable, list[int]] = defaultdict(list)
        self._class: dict[int, int] = {}
        numbers: dict[Hashable, int] = {}
        made: dict[int, Hashable] = {}
        for call, job in sorted(jobs.items()):
            taken = view.told_given[call]
            source = ("alone", call) if taken is None else made.get(taken, ("value", taken))
            key = ("proven", call) if call in proven else (job, source)
            self._class[call] = number = numbers.setdefault(key, len(numbers))
            output = view.told_made[call]
            if output is not None:
                made.setdefault(output, number)
            if call not in proven:
                self._alike[number].append(call)
                self._of_job[job].append(call)

    def alike(self, call: int) -> list[int]:
        """Return the calls that take what this one takes, or what is in one class with it."""
        return self._alike[self._class[call]]

    def of_job(self, call: int) -> list[int]:
        """Return the calls that could do the job of this one."""
        return self._of_job[self.jobs[call]]


def _doubt(sides: tuple[_Classes, _Classes], one: int, two: int) -> Doubt:
    """Return what is known of a pair that nothing proves."""
    mine, theirs = sides[0].of_job(one), sides[1].of_job(two)
    alike = max(sides[0].alike(one), sides[1].alike(two), key=len)
    if len(alike) > 1:  # siblings, which run in any order
        others = sides[1].alike(two)
        sure = 1 / len(alike)
    else:
        others = theirs
        is_even = sides[0].jobs[one] == sides[1].jobs[two] and len(mine) == len(theirs)
        is_in_order = is_even and bisect_left(mine, one) == bisect_left(theirs, two)
        sure = IN_ORDER if is_in_order else min(_UNSURE, 1 / len(theirs))
    place = bisect_left(others, two)
    near = others[max(0, place - _MAX_RIVALS) : place + _MAX_RIVALS + 1]
    rivals = sorted((call for call in near if call != two), key=lambda call: abs(call - two))
    return Doubt(sure, tuple(rivals[:_MAX_RIVALS]))
