"""Losses of Paddle."""

from __future__ import annotations

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import losses as loss
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, row
from padiff.program.primitives import Kind


def _cross_entropy(b: Builder, a: Arguments) -> Result:
    """Return the probabilities, and the loss of each row with an axis of size one for classes."""
    axis = s.axis_of(b, a.axis, a.input.ndim)
    target = a.label
    if not a.soft_label and target.ndim == a.input.ndim:
        target = s.squeeze(b, target, (axis,))
    how = loss.CrossEntropy(ignore=a.ignore_index, reduction="none", axis=axis)
    if a.use_softmax:
        shares = b("softmax", a.input, axis=axis)
        result = loss.cross_entropy(b, a.input, target, how)
    else:
        shares = a.input
        result = loss.of_logarithms(b, b("log", a.input), target, how)
    return shares, s.unsqueeze(b, result, axis)


def _huber(b: Builder, a: Arguments) -> Term:
    return loss.huber(b, a.input, a.label, a.delta, "none")


def _with_logits(b: Builder, a: Arguments) -> Term:
    """Return the loss of logits; ``pos_weight`` holds the weight of each logarithm already."""
    logs = b("softplus", -a.x)
    if a.pos_weight is not None:
        logs = logs * a.pos_weight
    ignored = b("equal", a.label, float(a.ignore_index))
    result = b("where", ignored, 0.0, (1.0 - a.label) * a.x + logs)
    if not a.normalize:
        return result
    count = b("sum", b("not", ignored), axes=tuple(range(ignored.ndim)), keepdims=False)
    return result / b("maximum", s.as_kind(b, count, Kind.FLOAT), 1e-5)


def _likelihood(b: Builder, a: Arguments) -> Result:
    """Return the loss; the sum of the weights is for the way back."""
    how = loss.CrossEntropy(weight=a.weight, ignore=a.ignore_index, reduction=a.reduction)
    result = loss.negative_log_likelihood(b, a.input, a.label, how)
    return [result, *[None] * (len(b.expected) - 1)]


def _divergence(b: Builder, a: Arguments) -> Term:
    if a.log_target:
        x = b("exp", a.label) * (a.label - a.x)
    else:
        inside = a.label > 0.0
        logs = b("log", b("where", inside, a.label, 1.0))
        x = b("where", inside, a.label * (logs - a.x), 0.0)
    if a.reduction == "batchmean":
        return loss.reduced(b, x, "sum") / float(a.x.shape[0])
    return loss.reduced(b, x, a.reduction)


def _log_loss(b: Builder, a: Arguments) -> Term:
    epsilon = float(a.epsilon)
    far = (1.0 - a.label) * b("log", 1.0 - a.input + epsilon)
    return -(a.label * b("log", a.input + epsilon)) - far


def _hinge(b: Builder, a: Arguments) -> Term:
    return b("maximum", 1.0 - a.logits * (a.labels * 2.0 - 1.0), 0.0)


def _connectionist(b: Builder, a: Arguments) -> Term:
    if a.logits_length is None or a.labels_length is None or a.norm_by_times:
        raise NotLoweredError("lengths in another form, or gradients divided by them")
    lengths = (a.logits_length, a.labels_length)
    result = loss.connectionist(b, b("log_softmax", a.logits, axis=2), a.label, lengths, a.blank)
    return s.reshape(b, result, (-1, 1))


_SINGLE = 1e-6
"""Of operators that compute in float32 only: some sixteen roundings."""

ROWS: tuple[Row, ...] = (
    row("cross_entropy_with_softmax cross_entropy_with_softmax_",
        "input, label, soft_label=False, use_softmax=True, numeric_stable_mode=True, "
        "ignore_index=-100, axis=-1", _cross_entropy),
    row("huber_loss", "input, label, delta", _huber),
    row("bce_loss bce_loss_", "input, label",
        lambda b, a: loss.binary_cross_entropy(b, a.input, a.label, None, "none")),
    row("nll_loss", "input, label, weight=None, ignore_index=-100, reduction='mean'", _likelihood),
    row("kldiv_loss", "x, label, reduction='mean', log_target=False", _divergence),
    row("log_loss", "input, label, epsilon", _log_loss, tolerance=_SINGLE),
    row("hinge_loss", "logits, labels", _hinge, tolerance=_SINGLE),
    row("warpctc", "logits, label, logits_length=None, labels_length=None, blank=0, "
        "norm_by_times=False", _connectionist),
    row("sigmoid_cross_entropy_with_logits sigmoid_cross_entropy_with_logits_",
        "x, label, pos_weight=None, normalize=False, ignore_index=-100", _with_logits),
)  # fmt: skip
