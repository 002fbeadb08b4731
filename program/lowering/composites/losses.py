"""Losses of all frameworks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.primitives import Kind

from .shaping import (
    as_kind,
    axis_of,
    expand,
    filled,
    mean,
    positions,
    reshape,
    stack,
    unbind,
    unsqueeze,
)


def reduced(b: Builder, x: Term, reduction: str) -> Term:
    """Reduce the loss of each element."""
    axes = tuple(range(x.ndim))
    if reduction == "none":
        return x
    if reduction == "mean":
        return mean(b, x, axes, keepdims=False)
    if reduction == "sum":
        return b("sum", x, axes=axes, keepdims=False)
    raise NotLoweredError(f"reduction {reduction!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossEntropy:
    """The settings of a loss over classes."""

    weight: Term | None = None
    ignore: int = -100
    reduction: str = "mean"
    smoothing: float = 0.0
    axis: int = 1


def _total(b: Builder, x: Term) -> Term:
    return b("sum", x, axes=tuple(range(x.ndim)), keepdims=False)


def _class_weights(b: Builder, weight: Term, ndim: int, axis: int) -> Term:
    return reshape(b, weight, [-1 if place == axis else 1 for place in range(ndim)])


def negative_log_likelihood(b: Builder, x: Term, target: Term, how: CrossEntropy) -> Term:
    """Return minus the log-probabilities of the targets, weighted."""
    axis = axis_of(b, how.axis, x.ndim)
    ignored = b("equal", target, how.ignore)
    safe = b("where", ignored, 0, target)
    found = b("gather", x, unsqueeze(b, safe, axis), axis=axis)
    loss = -reshape(b, found, target.shape)
    weights = as_kind(b, b("not", ignored), Kind.FLOAT)
    if how.weight is not None:
        weights = b("where", ignored, 0.0, b("take", how.weight, safe, axis=0))
    loss = b("where", ignored, 0.0, loss * weights)
    if how.reduction != "mean":
        return reduced(b, loss, how.reduction)
    return _total(b, loss) / _total(b, weights)


def cross_entropy(b: Builder, x: Term, target: Term, how: CrossEntropy) -> Term:
    """Return the cross entropy of logits with class numbers or with probabilities."""
    return of_logarithms(b, b("log_softmax", x, axis=axis_of(b, how.axis, x.ndim)), target, how)


def of_logarithms(b: Builder, logs: Term, target: Term, how: CrossEntropy) -> Term:
    """Return the cross entropy of log-probabilities with class numbers or with probabilities."""
    x, axis = logs, axis_of(b, how.axis, logs.ndim)
    if target.kind is not Kind.INT:
        return _of_probabilities(b, logs, target, how, axis)
    loss = negative_log_likelihood(b, logs, target, how)
    if not how.smoothing:
        return loss
    smooth = _smooth(b, logs, target, how, axis)
    return loss * (1 - how.smoothing) + smooth * (how.smoothing / x.shape[axis])


def _smooth(b: Builder, logs: Term, target: Term, how: CrossEntropy, axis: int) -> Term:
    """Return the loss against all classes alike."""
    ignored = b("equal", target, how.ignore)
    weighted = logs
    if how.weight is not None:
        weighted = logs * _class_weights(b, how.weight, logs.ndim, axis)
    loss = -b("sum", weighted, axes=(axis,), keepdims=False)
    loss = b("where", ignored, 0.0, loss)
    if how.reduction != "mean":
        return reduced(b, loss, how.reduction)
    weights = as_kind(b, b("not", ignored), Kind.FLOAT)
    if how.weight is not None:
        safe = b("where", ignored, 0, target)
        weights = b("where", ignored, 0.0, b("take", how.weight, safe, axis=0))
    return _total(b, loss) / _total(b, weights)


def _of_probabilities(b: Builder, logs: Term, target: Term, how: CrossEntropy, axis: int) -> Term:
    classes = logs.shape[axis]
    if how.smoothing:
        target = target * (1 - how.smoothing) + how.smoothing / classes
    product = logs * target
    if how.weight is not None:
        product = product * _class_weights(b, how.weight, logs.ndim, axis)
    loss = -b("sum", product, axes=(axis,), keepdims=False)
    return reduced(b, loss, how.reduction)


def binary_cross_entropy(b: Builder, x: Term, target: Term, weight: Any, reduction: str) -> Term:
    """Return the loss of probabilities; logarithms are at least -100."""
    near = b("maximum", b("log", x), -100.0)
    far = b("maximum", b("log1p", -x), -100.0)
    loss = (target - 1.0) * far - target * near
    return reduced(b, loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(
    b: Builder, x: Term, target: Term, weights: tuple[Any, Any], reduction: str
) -> Term:
    """Return the loss of logits; weights of elements, and of positive answers."""
    weight, positive = weights
    logs = b("softplus", -x)
    if positive is not None:
        logs = logs * ((positive - 1.0) * target + 1.0)
    loss = (1.0 - target) * x + logs
    return reduced(b, loss if weight is None else loss * weight, reduction)


def smooth_l1(b: Builder, x: Term, target: Term, beta: float, reduction: str) -> Term:
    """Return half the square over beta within beta, the distance minus half of beta beyond."""
    apart = b("abs", x - target)
    if beta == 0:
        return reduced(b, apart, reduction)
    loss = b("where", apart < float(beta), apart * apart * (0.5 / beta), apart - 0.5 * beta)
    return reduced(b, loss, reduction)


def huber(b: Builder, x: Term, target: Term, delta: float, reduction: str) -> Term:
    """Return half the square within delta, a line beyond."""
    apart = b("abs", x - target)
    line = (apart - 0.5 * delta) * float(delta)
    loss = b("where", apart <= float(delta), apart * apart * 0.5, line)
    return reduced(b, loss, reduction)


def connectionist(
    b: Builder, logs: Term, labels: Term, lengths: tuple[Term, Term], blank: int
) -> Term:
    """Return minus the logarithm of the probability of label sequences (Graves et al., 2006).

    Args:
        b: The builder.
        logs: Log-probabilities; axes (time, batch, class).
        labels: Class numbers; axes (batch, place).
        lengths: How many times and labels count in each row.
        blank: The class that stands between labels.
    """
    times, batch, _ = logs.shape
    places = 2 * labels.shape[1] + 1
    labels = as_kind(b, labels, Kind.INT)
    spread = stack(b, [filled(b, labels.shape, blank, Kind.INT), labels], 2)
    path = reshape(b, spread, (batch, places - 1))
    path = b("concat", path, filled(b, (batch, 1), blank, Kind.INT), axis=1)
    index = expand(b, unsqueeze(b, path, 0), (times, batch, places))
    emitted = unbind(b, b("gather", logs, index, axis=2), 0)
    before = _behind(b, path, 2, blank)
    skips = b("not", b("or", b("equal", path, blank), b("equal", path, before)))
    place = positions(b, places, 2, 1)
    state = b("where", place <= 1, emitted[0], -math.inf)
    for time, step in enumerate(emitted[1:], 1):
        jumped = b("where", skips, _behind(b, state, 2, -math.inf), -math.inf)
        stepped = b("logaddexp", state, _behind(b, state, 1, -math.inf))
        fresh = b("logaddexp", stepped, jumped) + step
        state = b("where", unsqueeze(b, lengths[0], 1) > time, fresh, state)
    end = unsqueeze(b, as_kind(b, lengths[1], Kind.INT), 1) * 2
    last = b("gather", state, end, axis=1)
    other = b("gather", state, b("maximum", end - 1, 0), axis=1)
    total = b("logaddexp", last, b("where", end > 0, other, -math.inf))
    return -reshape(b, total, (batch,))


def _behind(b: Builder, x: Term, steps: int, value: float) -> Term:
    """Move elements on along the last axis (1); a number takes their place."""
    return b("pad", x, widths=((0, 0), (steps, -steps)), mode="constant", value=value)
