"""Losses of Paddle."""

from __future__ import annotations

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import losses as loss
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, row

__all__ = ["ROWS"]


def _cross_entropy(b: Builder, a: Arguments) -> Result:
    """Return the probabilities, and the loss of each row with an axis of size one for classes."""
    if not a.use_softmax:
        raise NotLoweredError("logits that are probabilities already")
    axis = s.axis_of(b, a.axis, a.input.ndim)
    target = a.label
    if not a.soft_label and target.ndim == a.input.ndim:
        target = s.squeeze(b, target, (axis,))
    how = loss.CrossEntropy(ignore=a.ignore_index, reduction="none", axis=axis)
    result = loss.cross_entropy(b, a.input, target, how)
    return b("softmax", a.input, axis=axis), s.unsqueeze(b, result, axis)


def _huber(b: Builder, a: Arguments) -> Term:
    return loss.huber(b, a.input, a.label, a.delta, "none")


def _with_logits(b: Builder, a: Arguments) -> Term:
    if a.pos_weight is not None or a.normalize or a.ignore_index != -100:  # noqa: PLR2004
        raise NotLoweredError("weighted, or normalised by what is not ignored")
    return loss.binary_cross_entropy_with_logits(b, a.x, a.label, (None, None), "none")


ROWS: tuple[Row, ...] = (
    row("cross_entropy_with_softmax",
        "input, label, soft_label=False, use_softmax=True, numeric_stable_mode=True, "
        "ignore_index=-100, axis=-1", _cross_entropy),
    row("huber_loss", "input, label, delta", _huber),
    row("bce_loss", "input, label",
        lambda b, a: loss.binary_cross_entropy(b, a.input, a.label, None, "none")),
    row("sigmoid_cross_entropy_with_logits",
        "x, label, pos_weight=None, normalize=False, ignore_index=-100", _with_logits),
)  # fmt: skip
