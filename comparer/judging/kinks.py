"""Excuse gradients that differ because an activation lies on the other side of its kink.

A ReLU passes its gradient where its input is positive. An element within rounding of zero is
positive on one side and not on the other, and its gradient passes on one side only: a jump of its
full size, which no bound on rounding covers and which a measured floor holds only if a further run
happened to push the same element over. Both dumps show which elements these are: they lie exactly
at a clamp (0 for ReLU; 0 and 6 for ReLU6) on one side and beside it on the other, while the
activation agrees. So what they add to the gradient is measured: ``e``, relative in L2 to the
gradient that passes. Behind them a relative error stays about what it is, as in ``rounding``, and
those of several activations add up as a square root. A max pooling that finds its largest element
elsewhere is the same, and a leaky ReLU that is given an element on the other side of zero.

On the clean pairs of benchmarks/localisation (bfloat16, 2 055 gradients behind 73 to 155 such
elements) the relative error was 0.42 to 1.35 times what they explain: docs/decisions/0007-kinks.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import remarkable, replaced
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Content, Phase, Role, is_floating
from padiff.pairing import Rule, kind_of

from .basis import GRADIENT_ROLES
from .indouble import in_double

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import RecordInfo, Statistics
    from padiff.pairing import Side

    from .blocks import Array
    from .judge import Judgement

__all__ = ["KINKS", "excuse_kinks", "kink_notes"]

KINKS = "elements on the other side of a kink"
"""How the reason begins."""
FACTOR = 2.0
"""Times the relative error that the kinks before a gradient explain: measured, at most 1.35."""
CLAMPED = 1 / 64
"""Share of the elements of a tensor that lie at one and the same value where it is a clamp."""
MOST_ELEMENTS = 1 << 24
"""Larger tensors are not looked into."""
CHUNK = 1 << 20
BENT = frozenset({"leaky_relu", "prelu", "rrelu"})
"""Kinds of layers that pass another share of the gradient below zero."""
POOLS = ("max_pool", "adaptive_max")
"""Kinds of layers that pass a gradient to the largest element of each window."""
GRADIENT_OF = {Role.INPUT: Role.GRAD_INPUT, Role.OUTPUT: Role.GRAD_OUTPUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kink:
    """The elements of one activation that lie on another side of its kink."""

    order: int
    """When its gradient came, in the reference's execution order."""
    square: float
    """``e`` squared: energy of the gradients of those elements over that of all that passes."""
    count: int


def excuse_kinks(
    judgement: Judgement, reference: Side, candidate: Side, settings: CompareSettings
) -> Judgement:
    """Let diverged gradients match where kinks before them in the backward pass explain the error.

    Only where all of the forward phase agrees, and, as with the allowance for rounding, not where
    the user gave an rtol or a rule for the record: that is then taken as it is.

    Args:
        judgement: All verdicts.
        reference: The side held to be right.
        candidate: The other.
        settings: When a difference counts.
    """
    told = list(remarkable(judgement.pairs))
    places = [place for place, pair in told if _is_open(pair, settings)]
    is_clean = not any(pair.fatal and _phase(pair) is Phase.FORWARD for _, pair in told)
    if not places or not is_clean or settings.rtol is not None:
        return judgement
    kinks = list(_Search(judgement, reference, candidate).kinks())
    came = _when_gradients_came(judgement)
    excused: dict[int, JudgedPair] = {}
    for place in places:
        pair = judgement.pairs[place]
        assert pair.reference is not None
        assert pair.metrics is not None
        order = pair.reference.order
        if pair.reference.address.role is Role.WEIGHT_GRAD:  # recorded when the pass is over
            order = came.get(pair.reference.module, order)
        before = [kink for kink in kinks if kink.order <= order]
        explained = math.sqrt(sum(kink.square for kink in before))
        error = pair.metrics.relative_l2
        if error is not None and error <= FACTOR * explained:
            count = sum(kink.count for kink in before)
            reason = f"{KINKS}: {count} in the activations behind it, a relative error of "
            reason += f"{explained:.2g} where this gradient has {error:.2g}"
            excused[place] = replace(pair, verdict=Verdict.MATCH, fatal=False, reason=reason)
    return replace(judgement, pairs=replaced(judgement.pairs, excused))


def kink_notes(pairs: Sequence[JudgedPair]) -> tuple[str, ...]:
    """Say of a step how many gradients were excused, if any."""
    found = [pair.reference for _, pair in remarkable(pairs) if pair.reason.startswith(KINKS)]
    first = min((end for end in found if end is not None), key=lambda end: end.order, default=None)
    if first is None:
        return ()
    many = f"{len(found)} gradients differ" if len(found) > 1 else "1 gradient differs"
    where = "elements of activations on the other side of a kink (ReLU, clamp, max pooling)"
    return (f"{many} by no more than is explained by {where}: first at {first.address}",)


def _is_open(pair: JudgedPair, settings: CompareSettings) -> bool:
    """Tell whether a gradient diverged by its elements and by no rule of the user's."""
    if pair.verdict is not Verdict.DIVERGED or pair.reference is None or pair.candidate is None:
        return False
    if pair.metrics is None or pair.is_partial or pair.metrics.nonfinite_mismatched:
        return False
    addresses = pair.reference.address, pair.candidate.address
    is_ruled = any(rule.applies_to(*addresses) for rule in settings.rules)
    is_gradient = addresses[0].role in GRADIENT_ROLES
    return is_gradient and pair.errors is None and not is_ruled


def _phase(pair: JudgedPair) -> Phase | None:
    end = pair.reference or pair.candidate
    return None if end is None else end.address.phase


def _when_gradients_came(judgement: Judgement) -> dict[int, int]:
    """Give the order of the last gradient of an output of each module of the reference."""
    came: dict[int, int] = {}
    for pair in judgement.pairs:
        end = pair.reference
        if end is not None and end.address.role is Role.GRAD_OUTPUT:
            came[end.module] = max(came.get(end.module, 0), end.order)
    return came


class _Search:
    """Looks through all activations of a step."""

    def __init__(self, judgement: Judgement, reference: Side, candidate: Side) -> None:
        self._judgement = judgement
        self._sides = reference, candidate
        self._places: dict[tuple[int, Role, str], int] = {}
        for place, pair in enumerate(judgement.pairs):
            end = pair.reference
            if end is not None and end.call is not None and self._is_readable(place):
                self._places[end.call, end.address.role, end.address.slot] = place

    def kinks(self) -> Iterator[_Kink]:
        """Yield what is found, each tensor once."""
        seen: set[int | None] = set()
        for (call, role, slot), place in self._places.items():
            gradient = self._places.get((call, GRADIENT_OF.get(role, role), slot))
            is_equal = self._judgement.pairs[place].equal_digest
            if role not in GRADIENT_OF or gradient is None or is_equal:
                continue
            value = self._records(place)[0].value
            found = [None if value in seen else self._gate(place, gradient)]
            if role is Role.INPUT:
                found += [self._pooled(call, place, gradient), self._bent(call, place, gradient)]
            seen.add(value)
            order = self._records(gradient)[0].order
            for square, count in filter(None, found):
                yield _Kink(order=order, square=square, count=count)

    def _gate(self, place: int, gradient: int) -> tuple[float, int] | None:
        """Look for elements that are at a clamp on one side only."""
        clamps = self._clamps(place)
        if not clamps:
            return None
        known, found = self._arrays(place)
        at_clamp = [np.zeros(known.shape, bool), np.zeros(known.shape, bool)]
        for clamp in clamps:
            at = known == clamp, found == clamp
            if all(np.count_nonzero(side) >= CLAMPED * side.size for side in at):
                at_clamp[0] |= at[0]
                at_clamp[1] |= at[1]
        return _energy(self._arrays(gradient), at_clamp[0] != at_clamp[1], ~at_clamp[0])

    def _clamps(self, place: int) -> list[float]:
        """Give the values at which a tensor may be clamped, as the statistics of both sides say."""
        known, found = (self._statistics(side, place) for side in (0, 1))
        size = math.prod(self._records(place)[0].shape)
        clamps = {0.0} if min(known.zeros, found.zeros) >= CLAMPED * size else set()
        for one, other in ((known.minimum, found.minimum), (known.maximum, found.maximum)):
            if one is not None and one == other:
                clamps.add(one)
        return sorted(clamps)

    def _pooled(self, call: int, place: int, gradient: int) -> tuple[float, int] | None:
        """Look for elements that are the largest of their window on one side only."""
        module = self._sides[0].index.modules[self._sides[0].index.calls[call].module]
        output = self._places.get((call, Role.OUTPUT, ""))
        if output is None or not (kind_of(module) or "").startswith(POOLS):
            return None
        gradients = self._arrays(gradient)
        moved = (gradients[0] == 0) != (gradients[1] == 0)
        for given, pooled, passed in zip(
            self._arrays(place), self._arrays(output), gradients, strict=True
        ):
            if not np.isin(given[moved & (passed != 0)], pooled).all():
                return None  # it went to an element that is the largest of no window
        return _energy(gradients, moved, np.ones(moved.shape, bool))

    def _bent(self, call: int, place: int, gradient: int) -> tuple[float, int] | None:
        """Look for elements that a leaky ReLU was given on another side of zero."""
        module = self._sides[0].index.modules[self._sides[0].index.calls[call].module]
        if kind_of(module) not in BENT:
            return None
        known, found = self._arrays(place)
        moved = (known > 0) != (found > 0)
        return _energy(self._arrays(gradient), moved, np.ones(moved.shape, bool))

    def _records(self, place: int) -> tuple[RecordInfo, RecordInfo]:
        known, found = self._judgement.records[place]
        assert found is not None
        return self._sides[0].index.records[known[0]], self._sides[1].index.records[found]

    def _is_readable(self, place: int) -> bool:
        """Tell whether it is one floating tensor on each side, whole."""
        known, found = self._judgement.records[place]
        is_judged = self._judgement.pairs[place].verdict in {Verdict.MATCH, Verdict.DIVERGED}
        if len(known) != 1 or found is None or not is_judged:
            return False
        for side, record in zip(self._sides, self._records(place), strict=True):
            value = None if record.value is None else side.index.values[record.value]
            if value is None or value.content is not Content.FULL or value.size > MOST_ELEMENTS:
                return False
            if not is_floating(value.dtype):
                return False
        return True

    def _statistics(self, side: int, place: int) -> Statistics:
        value = self._records(place)[side].value
        assert value is not None
        return self._sides[side].index.values[value].statistics

    def _arrays(self, place: int) -> tuple[Array, Array]:
        """Read both sides, the reference in the candidate's layout."""
        pair, (known, found) = self._judgement.pairs[place], self._records(place)
        right = Rule.parse(pair.candidate_layout).apply([self._sides[1].array(found)])
        left = Rule.parse(pair.layout).apply([self._sides[0].array(known)], right.shape)
        return left, right


def _energy(
    gradients: tuple[Array, Array], moved: Array, passing: Array
) -> tuple[float, int] | None:
    """Give the energy of the gradients that moved over that of all that pass, and their number.

    Args:
        gradients: Of the activation: the reference's and the candidate's, shape (*S).
        moved: Shape (*S), bool.
        passing: Shape (*S), bool.
    """
    count = int(np.count_nonzero(moved))
    if not count or gradients[0].shape != moved.shape:
        return None
    sizes = [np.abs(in_double(side[moved])) for side in gradients]
    jump = float(np.square(np.maximum(*sizes)).sum())
    whole, flat, gate = 0.0, gradients[0].reshape(-1), passing.reshape(-1)
    for start in range(0, flat.size, CHUNK):
        part = np.where(gate[start : start + CHUNK], flat[start : start + CHUNK], 0)
        whole += float(np.square(np.abs(in_double(part))).sum())
    return (jump / whole, count) if whole and math.isfinite(jump / whole) else None
