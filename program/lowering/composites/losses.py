"""Losses of all frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.primitives import Kind

from .shaping import as_kind, axis_of, mean, reshape, unsqueeze

__all__ = [
    "CrossEntropy",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "huber",
    "negative_log_likelihood",
    "reduced",
    "smooth_l1",
]


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
    axis = axis_of(b, how.axis, x.ndim)
    logs = b("log_softmax", x, axis=axis)
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
