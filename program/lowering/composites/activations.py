"""Activations that are more than one primitive."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.program.lowering.builder import NotLoweredError
from padiff.program.primitives import Kind

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Operand, Term

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def relu(b: Builder, x: Term) -> Term:
    """Compute max(x, 0)."""
    return b("maximum", x, 0)


def dropout(
    b: Builder, x: Term, drawn: Term | None, share: float, *, is_scaled: bool = True
) -> Term:
    """Keep the elements that were drawn.

    Args:
        b: The program so far.
        x: Any shape.
        drawn: Whether each element was kept; None if nobody knows.
        share: Of the elements that are dropped.
        is_scaled: Whether those that are kept are divided by their share.
    """
    kept = _kept(b, drawn, x, 0.0)
    return kept * (1.0 / (1.0 - b.term(float(share)))) if is_scaled else kept


def alpha_dropout(b: Builder, x: Term, drawn: Term | None, share: float) -> Term:
    """Put what SELU tends to in the place of elements, and keep mean and variance.

    Source:
        Klambauer et al., Self-Normalizing Neural Networks, 2017, section 3.
    """
    dropped, keep = -SELU_ALPHA * SELU_SCALE, 1.0 - b.term(float(share))
    scale = 1.0 / b("sqrt", keep * (1.0 + dropped**2 * b.term(float(share))))
    return _kept(b, drawn, x, dropped) * scale - scale * (dropped * b.term(float(share)))


def random_relu(b: Builder, x: Term, drawn: Term | None, low: float, high: float) -> Term:
    """Multiply what is below zero by slopes that were drawn.

    Args:
        b: The program so far.
        x: Any shape.
        drawn: Where between the bounds each slope lies, from 0 to 1; None if nobody knows.
        low: The smallest slope.
        high: The largest one.
    """
    if drawn is None:
        raise NotLoweredError("slopes are drawn")
    return leaky_relu(b, x, (1.0 - drawn) * low + drawn * high)


def _kept(b: Builder, drawn: Term | None, x: Term, dropped: Operand) -> Term:
    if drawn is None or x.kind is not Kind.FLOAT:
        raise NotLoweredError("elements are drawn")
    return b("where", drawn, x, dropped)


def clamp(b: Builder, x: Term, low: Term | float | None, high: Term | float | None) -> Term:
    """Keep within bounds; None is no bound."""
    if low is not None:
        x = b("maximum", x, low)
    return x if high is None else b("minimum", x, high)


def silu(b: Builder, x: Term) -> Term:
    """Compute x · sigmoid(x)."""
    return x * b("sigmoid", x)


def gelu(b: Builder, x: Term) -> Term:
    """Compute x · Φ(x) with the error function."""
    return x * 0.5 * (b("erf", x * math.sqrt(0.5)) + 1.0)


def gelu_tanh(b: Builder, x: Term) -> Term:
    """Compute gelu's approximation by tanh."""
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (b("tanh", inner) + 1.0)


def leaky_relu(b: Builder, x: Term, slope: Term | float) -> Term:
    """Compute x above zero, slope · x below."""
    return b("where", x > 0, x, x * slope)


def elu(
    b: Builder,
    x: Term,
    alpha: float = 1.0,
    scale: float = 1.0,
    rate: float = 1.0,
    *,
    is_cancelling: bool = False,
) -> Term:
    """Compute scale · (x above zero, alpha · (exp(rate · x) - 1) below).

    Args:
        b: What builds.
        x: Any floats.
        alpha: As above.
        scale: As above.
        rate: As above.
        is_cancelling: Whether the kernel rounds exp(rate · x) before it subtracts one, so that
            little is right of what is left near zero.
    """
    inner = b("minimum", x, 0) * rate
    below = (b("exp", inner) - 1.0 if is_cancelling else b("expm1", inner)) * float(alpha)
    result = b("where", x > 0, x, below)
    return result * float(scale) if scale != 1 else result


def selu(b: Builder, x: Term) -> Term:
    """Compute the self-normalising elu."""
    return elu(b, x, SELU_ALPHA, SELU_SCALE)


def celu(b: Builder, x: Term, alpha: float, *, is_cancelling: bool = False) -> Term:
    """Compute the continuously differentiable elu."""
    return elu(b, x, alpha, 1.0, 1.0 / alpha, is_cancelling=is_cancelling)


def softplus(
    b: Builder,
    x: Term,
    beta: float = 1.0,
    threshold: float = 20.0,
    *,
    is_cancelling: bool = False,
) -> Term:
    """Compute log(1 + exp(beta · x)) / beta; x itself beyond the threshold.

    Args:
        b: What builds.
        x: Any floats.
        beta: As above.
        threshold: As above.
        is_cancelling: Whether the kernel rounds 1 + exp(beta · x), so that nothing is left of what
            is next to nothing beside one.
    """
    scaled = x * float(beta)
    if is_cancelling:
        inner = b("log", b("exp", b("minimum", scaled, float(threshold))) + 1.0)
    else:
        inner = b("softplus", scaled)
    return b("where", scaled > float(threshold), x, inner / float(beta))


def log_sigmoid(b: Builder, x: Term, *, is_cancelling: bool = False) -> Term:
    """Compute log(1 / (1 + exp(-x))); ``is_cancelling`` as in ``softplus``."""
    if not is_cancelling:
        return -b("softplus", -x)
    largest = b("maximum", -x, 0.0)
    return -largest - b("log", b("exp", -largest) + b("exp", -x - largest))


def mish(b: Builder, x: Term, *, is_cancelling: bool = False) -> Term:
    """Compute x · tanh(softplus(x)); ``is_cancelling`` as in ``softplus``."""
    inner = softplus(b, x, is_cancelling=True) if is_cancelling else b("softplus", x)
    return x * b("tanh", inner)


def hardsigmoid(b: Builder, x: Term, slope: float = 1 / 6, offset: float = 0.5) -> Term:
    """Compute slope · x + offset, kept within 0 and 1."""
    return clamp(b, x * slope + offset, 0.0, 1.0)
