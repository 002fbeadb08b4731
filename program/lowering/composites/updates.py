"""The formulas by which optimizers change a weight, for operators that are a whole update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Operand, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What Adam keeps of a weight."""

    mean: Term
    square: Term
    largest: Term | None
    """Of the squares; None unless AMSGrad is wanted."""


def adam(  # noqa: PLR0913
    b: Builder,
    weight: Term,
    gradient: Term,
    kept: Moments,
    *,
    rate: Operand,
    betas: tuple[Operand, Operand],
    epsilon: Operand,
    powers: tuple[Operand, Operand],
) -> tuple[Term, Moments]:
    """Build Adam's update of a weight.

    ``weight - rate / (1 - powers[0]) * mean / (sqrt(square / (1 - powers[1])) + epsilon)``

    Args:
        b: Builds primitives.
        weight: Before the update.
        gradient: With coupled decay in it, if there is any.
        kept: Before the update.
        rate: Learning rate.
        betas: Of the moving averages.
        epsilon: Added to the root.
        powers: The betas to the power of the number of updates, this one counted.

    Source:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, algorithm 1; Reddi, Kale and
        Kumar, On the Convergence of Adam and Beyond, algorithm 2, for the largest square.
    """
    first, second = map(b.term, betas)
    mean = kept.mean * first + gradient * (1.0 - first)
    square = kept.square * second + gradient * gradient * (1.0 - second)
    largest = None if kept.largest is None else b("maximum", kept.largest, square)
    used = square if largest is None else largest
    corrections = [1.0 - b.term(power) for power in powers]
    below = b("sqrt", used) / b("sqrt", corrections[1]) + epsilon
    moved = weight - mean / below * (b.term(rate) / corrections[0])
    return moved, Moments(mean=mean, square=square, largest=largest)


def momentum(
    weight: Term, gradient: Term, velocity: Term, *, rate: Operand, factor: Operand, nesterov: bool
) -> tuple[Term, Term]:
    """Build the update by a velocity that is not damped; return weight and velocity after it.

    Source:
        Sutskever et al., On the importance of initialization and momentum in deep learning, in the
        form that frameworks compute: the learning rate stands outside of the velocity.
    """
    velocity = velocity * factor + gradient
    step = gradient + velocity * factor if nesterov else velocity
    return weight - step * rate, velocity
