"""Why an update differs, from the numbers: decay, momentum, epsilon, clip, betas.

Each weight's movement is fitted by what was at hand on both sides. An explanation counts if it
leaves nothing but rounding over on the side that it is about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Phase, Role

from .cause import Cause, CauseName
from .clipcauses import clip
from .moves import moves, rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import Address

    from .causesides import Sides, Two
    from .moves import Move

__all__ = ["update_causes"]

LEFT = 0.02
"""Share of a movement, in L2, that an explanation may leave over, besides rounding."""
ROUNDING = 4 * 2.0**-24
"""Rounding of a weight when the update is added to it, relative to the weight: float32's."""
PASSES = 4
"""Work for each element of a weight to try one thing."""
FEW = 4
"""Elements that a fit needs."""
OTHER = 1e-3
"""Relative difference from which two fitted numbers are not the same."""
LARGE = 1e-2
"""Of the largest element: smaller ones are left out where it is divided by them."""
_SQUARES = ("exp_avg_sq", "moment2", "square_avg", "mean_square", "sum")
_MEANS = ("exp_avg", "moment1")
_MOMENTA = ("momentum_buffer", "velocity", "momentum")


def update_causes(sides: Sides, address: Address) -> list[Cause]:
    """Look for the cause of the first divergence of an update.

    Args:
        sides: Both dumps and what of the one is what of the other.
        address: Of the diverged record, on the reference.
    """
    if address.role is Role.WEIGHT_GRAD and address.phase is Phase.UPDATE:
        return clip(sides)
    tries = {
        Role.WEIGHT: (_decay, _mixture, _multiple, _epsilon),
        Role.OPTIMIZER_STATE: (_share, _coupled),
    }.get(address.role, ())
    for move in moves(sides) if tries else ():
        situation = _Situation(move=move, rate=rate(sides))
        for attempt in sides.budget.tries(tries, PASSES * move.after.reference.size):
            cause = attempt(situation)
            if cause is not None:
                return [cause]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Situation:
    """A diverged weight, and the learning rates if each side has one."""

    move: Move
    rate: Two | None

    @property
    def rates(self) -> tuple[float, float]:
        """Give both learning rates, nan where not known."""
        if self.rate is None:
            return math.nan, math.nan
        return float(self.rate.reference.flat[0]), float(self.rate.candidate.flat[0])

    def fits(self, moved: Array, explained: Array) -> bool:
        """Tell whether an explanation of a movement leaves no more over than it may."""
        weight = float(np.linalg.norm(self.move.before.candidate.ravel()))
        left = float(np.linalg.norm((moved - explained).ravel()))
        return left <= LEFT * float(np.linalg.norm(moved.ravel())) + ROUNDING * weight

    def state(self, names: tuple[str, ...]) -> tuple[str, Two] | None:
        """Give the first of these tensors that the optimizers keep."""
        return next(((name, two) for name, two in self.move.states.items() if name in names), None)


def _decay(situation: _Situation) -> Cause | None:
    """See whether the movements differ by a multiple of the weight."""
    moved, weight = situation.move.moved, situation.move.before.candidate
    difference = moved.candidate - moved.reference
    share = _multiple_of(difference, weight)
    rates = situation.rates
    if share is None or not situation.fits(difference, share * weight) or not rates[1] > 0:
        return None
    size = float(np.linalg.norm((share * weight).ravel()))
    if size <= ROUNDING * float(np.linalg.norm(weight.ravel())):
        return None
    decay = abs(share) / rates[1]
    side, other = ("candidate", "reference") if share < 0 else ("reference", "candidate")
    return Cause(
        name=CauseName.WEIGHT_DECAY,
        text=f"the {side} takes {_digits(decay)} times learning rate and weight off "
        f"{situation.move.name!r} more than the {other}: weight decay",
        numbers={"decay": decay, "weight": situation.move.name},
    )


def _multiple(situation: _Situation) -> Cause | None:
    """See whether the one side moves as the other, but farther."""
    moved = situation.move.moved
    times = _multiple_of(moved.candidate, moved.reference)
    if times is None or not situation.fits(moved.candidate, times * moved.reference):
        return None
    if abs(times - 1) <= OTHER:
        return None
    return Cause(
        name=CauseName.UPDATE,
        text=f"the candidate moves {situation.move.name!r} {_digits(times)} times as far as the "
        "reference: another learning rate, dampening (1 - momentum) or Nesterov momentum",
        numbers={"factor": times, "weight": situation.move.name},
    )


def _mixture(situation: _Situation) -> Cause | None:
    """See whether the sides mix gradient and momentum in other shares."""
    move, kept = situation.move, situation.state(_MOMENTA)
    if move.taken is None or kept is None:
        return None
    parts = []
    moved = (move.moved.reference, move.moved.candidate)
    buffer = kept[1].reference  # a hand-made update keeps none that could be read
    for target, gradient in zip(moved, (move.taken.reference, move.taken.candidate), strict=True):
        mixed = _mixed(target, gradient, buffer)
        if mixed is None or not situation.fits(target, mixed[0] * gradient + mixed[1] * buffer):
            return None
        parts.append(mixed)
    if np.allclose(parts[0], parts[1], rtol=OTHER, atol=OTHER * float(np.abs(parts).max())):
        return None
    told = [_mixture_told(*part, kept[0]) for part in parts]
    return Cause(
        name=CauseName.UPDATE,
        text=f"the reference moves {move.name!r} by {told[0]}, the candidate by {told[1]}: "
        "another kind of momentum",
        numbers={"reference": list(parts[0]), "candidate": list(parts[1])},
    )


def _mixture_told(gradient: float, buffer: float, name: str) -> str:
    least = OTHER * max(abs(gradient), abs(buffer))
    words = [
        f"{_digits(number)} {what}"
        for number, what in ((gradient, "gradient"), (buffer, name))
        if abs(number) > least
    ]
    return " + ".join(words)


def _mixed(target: Array, gradient: Array, buffer: Array) -> tuple[float, float] | None:
    """Fit a movement by gradient and momentum; None where these are parallel."""
    if target.size < FEW:
        return None
    table = np.stack([gradient.ravel(), buffer.ravel()], axis=1)
    sizes = np.linalg.norm(table, axis=0)
    if not sizes.all() or abs(float(table[:, 0] @ table[:, 1])) > 0.999 * sizes[0] * sizes[1]:
        return None
    (one, two), *_ = np.linalg.lstsq(table / sizes, target.ravel(), rcond=None)
    return float(one / sizes[0]), float(two / sizes[1])


def _epsilon(situation: _Situation) -> Cause | None:
    """See what the two sides divide by: the root of the squares, and what is added where."""
    move, squares, mean = situation.move, situation.state(_SQUARES), situation.state(_MEANS)
    upper = mean[1] if mean is not None else move.taken
    if squares is None or upper is None:
        return None
    told = []
    for moved, above, square in (
        (move.moved.reference, upper.reference, squares[1].reference),
        (move.moved.candidate, upper.candidate, squares[1].candidate),
    ):
        divided = _divided(moved, above, square, move.before.candidate)
        if divided is None:
            return None
        told.append(divided)
    (place, size), (other_place, other_size) = told
    is_same = place == other_place and math.isclose(size, other_size, rel_tol=0.05)
    if is_same:
        return None
    words = [_divisor_told(*one, squares[0]) for one in told]
    return Cause(
        name=CauseName.EPSILON,
        text=f"the reference divides by {words[0]}, the candidate by {words[1]}: another epsilon",
        numbers={"reference": size, "candidate": other_size},
    )


def _divisor_told(place: str, size: float, name: str) -> str:
    shown = f"{size:.2g}"
    return f"sqrt({name} + {shown})" if place == "inside" else f"sqrt({name}) + {shown}"


def _divided(moved: Array, above: Array, square: Array, weight: Array) -> tuple[str, float] | None:
    """Fit ``above / moved`` by ``a (sqrt(v) + e)`` or by ``a sqrt(v + e)``.

    Returns:
        ``outside`` or ``inside``, and the epsilon; None if neither fits.
    """
    sure = np.abs(moved) > np.maximum(
        LARGE * np.abs(moved).max(initial=0.0), ROUNDING * np.abs(weight) / LARGE
    )
    if np.count_nonzero(sure) < FEW or not (square[sure] >= 0).all():
        return None
    ratio, root = np.abs(above[sure] / moved[sure]), np.sqrt(square[sure])
    best = None
    for place, target, known in (("outside", ratio, root), ("inside", ratio**2, root**2)):
        if not target.all():
            return None
        table = np.stack([known / target, 1 / target], axis=1)
        sizes = np.linalg.norm(table, axis=0)
        if not sizes.all():
            return None
        (slope, rest), *_ = np.linalg.lstsq(table / sizes, np.ones(len(target)), rcond=None)
        slope, rest = slope / sizes[0], rest / sizes[1]
        left = float(np.sqrt(np.mean((table @ (slope, rest) - 1) ** 2)))
        if slope > 0 and (best is None or left < best[0]):
            best = left, place, max(float(rest / slope), 0.0)
    return None if best is None or best[0] > LEFT else best[1:]


def _share(situation: _Situation) -> Cause | None:
    """See which share of a new gradient a moment takes in; only in a first update it holds this."""
    tries: tuple[tuple[tuple[str, ...], str, Callable[[Array], Array]], ...] = (
        (_MEANS, "beta1", lambda gradient: gradient),
        (_SQUARES, "beta2", lambda gradient: gradient**2),
    )
    taken = situation.move.taken
    for names, word, function in tries:
        kept = situation.state(names)
        if kept is None or taken is None:
            continue
        shares = [
            _exact_share(state, function(gradient))
            for state, gradient in (
                (kept[1].reference, taken.reference),
                (kept[1].candidate, taken.candidate),
            )
        ]
        if None in shares or math.isclose(shares[0] or 0, shares[1] or 0, rel_tol=OTHER):
            continue
        known, had = (float(share or 0.0) for share in shares)
        return Cause(
            name=CauseName.OPTIMIZER,
            text=f"{kept[0]} takes in {_digits(known)} of the gradient on the reference, "
            f"{_digits(had)} on the candidate: {word} {_digits(1 - known)} against "
            f"{_digits(1 - had)}",
            numbers={"reference": 1 - known, "candidate": 1 - had},
        )
    return None


def _exact_share(state: Array, gradient: Array) -> float | None:
    share = _multiple_of(state, gradient)
    if share is None:
        return None
    left = float(np.linalg.norm((state - share * gradient).ravel()))
    return share if left <= LEFT * float(np.linalg.norm(state.ravel())) else None


def _coupled(situation: _Situation) -> Cause | None:
    """See whether a moment has a multiple of the weight more on one side: coupled decay."""
    kept = situation.state((*_MEANS, *_MOMENTA))
    weight, taken = situation.move.before, situation.move.taken
    if kept is None or taken is None:
        return None
    difference = kept[1].candidate - kept[1].reference
    share = _multiple_of(difference, weight.candidate)
    if share is None or not difference.any():
        return None
    left = float(np.linalg.norm((difference - share * weight.candidate).ravel()))
    if left > LEFT * float(np.linalg.norm(difference.ravel())):
        return None
    side, other = ("candidate", "reference") if share > 0 else ("reference", "candidate")
    right = (
        (kept[1].reference, taken.reference) if share > 0 else (kept[1].candidate, taken.candidate)
    )
    taken_in = _exact_share(*right)
    size = "" if taken_in is None else f" {_digits(abs(share) / taken_in)} times"
    return Cause(
        name=CauseName.WEIGHT_DECAY,
        text=f"{kept[0]} of {situation.move.name!r} has{size} the weight more on the {side}: decay "
        f"is added to the gradient there, on the {other} it is decoupled or absent",
        numbers={"share": share},
    )


def _multiple_of(target: Array, known: Array) -> float | None:
    """Fit a tensor by a multiple of another; None where there is little to fit."""
    square = float(np.vdot(known, known))
    if known.shape != target.shape or known.size < FEW or not square:
        return None
    return float(np.vdot(known, target)) / square


def _digits(number: float) -> str:
    return f"{number:.3g}"
