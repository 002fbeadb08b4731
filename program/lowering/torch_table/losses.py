"""Losses and distances of torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from padiff.program.expressions import LAYOUT
from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import losses as loss
from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.activations import log_sigmoid
from padiff.program.lowering.rules import Arguments, Row, Rule, row
from padiff.program.primitives import Kind, broadcast

_REDUCTIONS = ("none", "mean", "sum")
"""By the numbers that ATen has for them."""


def _reduction(a: Arguments) -> str:
    if a.size_average is not None or a.reduce is not None:
        raise NotLoweredError("size_average and reduce")
    return a.reduction if isinstance(a.reduction, str) else _REDUCTIONS[a.reduction]


def _classes(a: Arguments, x: Term, smoothing: float = 0.0) -> loss.CrossEntropy:
    return loss.CrossEntropy(
        weight=a.weight,
        ignore=a.ignore_index,
        reduction=_reduction(a),
        smoothing=smoothing,
        axis=0 if x.ndim == 1 else 1,
    )


def _cross_entropy(b: Builder, a: Arguments) -> Term:
    how = _classes(a, a.input, a.label_smoothing)
    return loss.cross_entropy(b, a.input, a.target, how)


def _nll(b: Builder, a: Arguments) -> Term:
    return loss.negative_log_likelihood(b, a.input, a.target, _classes(a, a.input))


def _nll_with_weight(b: Builder, a: Arguments) -> list[Term | None]:
    return [_nll(b, a), None]


def _elementwise(function: Any) -> Rule:
    """Reduce a function of input and target."""

    def rule(b: Builder, a: Arguments) -> Term:
        x = function(b, a)
        weight = getattr(a, "weight", None)
        return loss.reduced(b, x if weight is None else x * weight, _reduction(a))

    return rule


def _squares(_b: Builder, a: Arguments) -> Term:
    apart = a.input - a.target
    return apart * apart


def _apart(b: Builder, a: Arguments) -> Term:
    return b("abs", a.input - a.target)


def _smooth(b: Builder, a: Arguments) -> Term:
    return loss.smooth_l1(b, a.input, a.target, a.beta, _reduction(a))


def _binary(b: Builder, a: Arguments) -> Term:
    return loss.binary_cross_entropy(b, a.input, a.target, a.weight, _reduction(a))


def _binary_with_logits(b: Builder, a: Arguments) -> Term:
    weights = (a.weight, a.pos_weight)
    return loss.binary_cross_entropy_with_logits(b, a.input, a.target, weights, _reduction(a))


def _divergence(b: Builder, a: Arguments) -> Term:
    if a.log_target:
        x = b("exp", a.target) * (a.target - a.input)
    else:
        own = b("where", b("equal", a.target, 0.0), 0.0, a.target * b("log", a.target))
        x = own - a.target * a.input
    if a.reduction == "batchmean":
        total = b("sum", x, axes=tuple(range(x.ndim)), keepdims=False)
        return total / float(x.shape[0])
    return loss.reduced(b, x, _reduction(a))


def _poisson(b: Builder, a: Arguments) -> Term:
    x, target = a.input, a.target
    result = b("exp", x) - target * x if a.log_input else x - target * b("log", x + float(a.eps))
    if a.full:
        more = target * b("log", target) - target + b("log", target * (2 * math.pi)) * 0.5
        result = result + b("where", target <= 1.0, 0.0, more)
    return loss.reduced(b, result, _reduction(a))


def _gaussian(b: Builder, a: Arguments) -> Term:
    var = b("maximum", b.term(a.var), float(a.eps))
    if var.shape not in {a.input.shape, ()}:
        var = s.unsqueeze(b, var, -1) if var.shape == a.input.shape[:-1] else var
    apart = a.input - a.target
    result = (b("log", var) + apart * apart / var) * 0.5
    if a.full:
        result = result + 0.5 * math.log(2 * math.pi)
    return loss.reduced(b, result, str(a.reduction))


def _margin(b: Builder, a: Arguments) -> Term:
    x = b("maximum", -a.target * (a.input1 - a.input2) + float(a.margin), 0.0)
    return loss.reduced(b, x, _reduction(a))


def _hinge(b: Builder, a: Arguments) -> Term:
    """Add both sides where the target is neither 1 nor -1, as torch does."""
    near = b("where", b("equal", a.target, -1), 0.0, a.input)
    far = b("maximum", float(a.margin) - a.input, 0.0)
    x = near + b("where", b("equal", a.target, 1), 0.0, far)
    return loss.reduced(b, x, _reduction(a))


def _soft_margin(b: Builder, a: Arguments) -> Term:
    return b("softplus", -(a.target * a.input))


def _distance(b: Builder, x: Term, y: Term, order: float, epsilon: float) -> Term:
    apart = x - y + float(epsilon)
    return norms.vector_norm(b, apart, order, (apart.ndim - 1,), keepdims=False)


def _pairwise(b: Builder, a: Arguments) -> Term:
    apart = a.x1 - a.x2 + float(a.eps)
    return norms.vector_norm(b, apart, a.p, (apart.ndim - 1,), keepdims=bool(a.keepdim))


def _triplet(b: Builder, a: Arguments) -> Term:
    near = _distance(b, a.anchor, a.positive, a.p, a.eps)
    far = _distance(b, a.anchor, a.negative, a.p, a.eps)
    if a.swap:
        far = b("minimum", far, _distance(b, a.positive, a.negative, a.p, a.eps))
    x = b("maximum", near - far + float(a.margin), 0.0)
    return loss.reduced(b, x, _reduction(a))


def _cosine(b: Builder, x: Term, y: Term, axis: int, epsilon: float) -> Term:
    shape = broadcast(x.shape, y.shape)
    x, y, axis = s.expand(b, x, shape), s.expand(b, y, shape), s.axis_of(b, axis, len(shape))
    sizes = [
        b("maximum", norms.vector_norm(b, each, 2, (axis,), keepdims=True), float(epsilon))
        for each in (x, y)
    ]
    return b("sum", (x / sizes[0]) * (y / sizes[1]), axes=(axis,), keepdims=False)


def _cosine_embedding(b: Builder, a: Arguments) -> Term:
    x, y = a.input1, a.input2
    axis = x.ndim - 1
    product = b("sum", x * y, axes=(axis,), keepdims=False)
    squares = [b("sum", each * each, axes=(axis,), keepdims=False) + 1e-12 for each in (x, y)]
    cosine = product / b("sqrt", squares[0] * squares[1])
    near = b("where", b("equal", a.target, 1), 1.0 - cosine, 0.0)
    far = b("maximum", cosine - float(a.margin), 0.0)
    return loss.reduced(b, near + b("where", b("equal", a.target, -1), far, 0.0), _reduction(a))


def _multilabel_soft(b: Builder, a: Arguments) -> Term:
    x = -(a.target * log_sigmoid(b, a.input) + (1.0 - a.target) * log_sigmoid(b, -a.input))
    x = x if a.weight is None else x * a.weight
    return loss.reduced(b, s.mean(b, x, (x.ndim - 1,), keepdims=False), _reduction(a))


def _multi_margin(b: Builder, a: Arguments) -> Term:
    x = a.input if a.input.ndim > 1 else s.reshape(b, a.input, (1, -1))
    target = s.reshape(b, a.target, (-1, 1))
    own = b("gather", x, target, axis=1)
    beyond = b("maximum", x - own + float(a.margin), 0.0)
    if a.p == 2:  # noqa: PLR2004
        beyond = beyond * beyond
    if a.weight is not None:
        beyond = beyond * b("take", a.weight, target, axis=0)
    others = b("equal", s.positions(b, x.shape[1], 2, 1), target)
    beyond = b("where", others, 0.0, beyond)
    result = b("sum", beyond, axes=(1,), keepdims=False) / float(x.shape[1])
    if a.input.ndim == 1:
        result = s.reshape(b, result, ())
    return loss.reduced(b, result, _reduction(a))


def _is_normalised(b: Builder, x: Term) -> bool:
    """Return whether a term is the logarithm of what a softmax makes, in whatever layout."""
    id_, before = x.id, ""
    while id_ in b.producers:
        node = b.nodes[b.producers[id_]]
        if node.primitive == "log_softmax" or (before == "log" and node.primitive == "softmax"):
            return True
        if node.primitive not in LAYOUT | {"cast", "log"}:
            return False
        id_, before = node.operands[0], node.primitive
    return False


def _lengths(b: Builder, lengths: Any) -> Term:
    if isinstance(lengths, Term):
        return s.reshape(b, lengths, (-1,))
    return b.literal(np.asarray(lengths, dtype=np.int64).reshape(-1))


def _labels(b: Builder, labels: Term, lengths: Term) -> Term:
    """Return labels as rows; where they stand one behind the other, rows end in zeros."""
    if labels.ndim > 1 or lengths.shape == (1,):
        return s.reshape(b, labels, (lengths.shape[0], -1))
    counts = [int(one) for one in b.static(lengths)]
    most, rows, start = max(counts, default=0), [], 0
    for count in counts:
        part = s.narrow(b, labels, 0, start, start + count)
        rows.append(b("pad", part, widths=((0, most - count),), mode="constant", value=0))
        start += count
    return s.stack(b, rows, 0)


def _connectionist(b: Builder, a: Arguments) -> Term:
    """Return the loss; its gradient supposes that the classes of each time add up to one."""
    logs = a.log_probs if a.log_probs.ndim > 2 else s.unsqueeze(b, a.log_probs, 1)  # noqa: PLR2004
    lengths = _lengths(b, a.input_lengths), _lengths(b, a.target_lengths)
    labels = _labels(b, a.targets, lengths[1])
    logs = b("log_softmax", logs, axis=2) if _is_normalised(b, logs) else logs
    result = loss.connectionist(b, logs, labels, lengths, a.blank)
    if a.zero_infinity:
        result = b("where", b("equal", result, math.inf), 0.0, result)
    if a.reduction == "mean":
        result = result / b("maximum", s.as_kind(b, lengths[1], Kind.FLOAT), 1.0)
    if a.log_probs.ndim < 3 and a.reduction == "none":  # noqa: PLR2004
        return s.reshape(b, result, ())
    return loss.reduced(b, result, a.reduction)


_OLD = "size_average=None, reduce=None, reduction='mean'"

ROWS: tuple[Row, ...] = (
    row(
        "F.cross_entropy",
        "input, target, weight=None, size_average=None, ignore_index=-100, "
        "reduce=None, reduction='mean', label_smoothing=0.0",
        _cross_entropy,
    ),
    row(
        "F.nll_loss",
        "input, target, weight=None, size_average=None, ignore_index=-100, "
        "reduce=None, reduction='mean'",
        _nll,
    ),
    row("F.mse_loss", f"input, target, {_OLD}, weight=None", _elementwise(_squares)),
    row(
        "F.l1_loss",
        f"input, target, {_OLD}, weight=None",
        _elementwise(_apart),
    ),
    row(
        "F.smooth_l1_loss",
        f"input, target, {_OLD}, beta=1.0",
        _smooth,
    ),
    row(
        "F.huber_loss",
        "input, target, reduction='mean', delta=1.0, weight=None, *, size_average=None, "
        "reduce=None",
        lambda b, a: loss.huber(b, a.input, a.target, a.delta, _reduction(a)),
    ),
    row(
        "F.binary_cross_entropy",
        "input, target, weight=None, size_average=None, reduce=None, reduction='mean'",
        _binary,
    ),
    row(
        "F.binary_cross_entropy_with_logits",
        "input, target, weight=None, size_average=None, "
        "reduce=None, reduction='mean', pos_weight=None",
        _binary_with_logits,
    ),
    row(
        "F.ctc_loss",
        "log_probs, targets, input_lengths, target_lengths, blank=0, reduction='mean', "
        "zero_infinity=False",
        _connectionist,
    ),
    row("F.kl_div", f"input, target, {_OLD}, log_target=False", _divergence),
    row(
        "F.poisson_nll_loss",
        "input, target, log_input=True, full=False, size_average=None, "
        "eps=1e-08, reduce=None, reduction='mean'",
        _poisson,
    ),
    row(
        "F.gaussian_nll_loss",
        "input, target, var, full=False, eps=1e-06, reduction='mean'",
        _gaussian,
    ),
    row("F.margin_ranking_loss", "input1, input2, target, margin=0, " + _OLD, _margin),
    row("F.hinge_embedding_loss", "input, target, margin=1.0, " + _OLD, _hinge),
    row("F.soft_margin_loss", f"input, target, {_OLD}", _elementwise(_soft_margin)),
    row(
        "F.multilabel_soft_margin_loss",
        "input, target, weight=None, size_average=None, reduce=None, reduction='mean'",
        _multilabel_soft,
    ),
    row(
        "F.multi_margin_loss",
        "input, target, p=1, margin=1.0, weight=None, size_average=None, "
        "reduce=None, reduction='mean'",
        _multi_margin,
    ),
    row(
        "F.triplet_margin_loss",
        "anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, " + _OLD,
        _triplet,
    ),
    row("F.cosine_embedding_loss", "input1, input2, target, margin=0, " + _OLD, _cosine_embedding),
    row(
        "F.cosine_similarity cosine_similarity",
        "x1, x2, dim=1, eps=1e-08",
        lambda b, a: _cosine(b, a.x1, a.x2, a.dim, a.eps),
    ),
    row(
        "F.pairwise_distance pairwise_distance",
        "x1, x2, p=2.0, eps=1e-06, keepdim=False",
        _pairwise,
    ),
    *(
        row(names, f"{arguments}, *, size_average=None, reduce=None{more}", rule)
        for names, arguments, more, rule in (
            (
                "aten.mse_loss",
                "input, target, reduction=1",
                ", weight=None",
                _elementwise(_squares),
            ),
            ("aten.l1_loss", "input, target, reduction=1", ", weight=None", _elementwise(_apart)),
            ("aten.smooth_l1_loss", "input, target, reduction=1, beta=1.0", "", _smooth),
            (
                "aten.huber_loss",
                "input, target, reduction=1, delta=1.0",
                "",
                lambda b, a: loss.huber(b, a.input, a.target, a.delta, _reduction(a)),
            ),
            ("aten.soft_margin_loss", "input, target, reduction=1", "", _elementwise(_soft_margin)),
            ("aten.binary_cross_entropy", "input, target, weight=None, reduction=1", "", _binary),
            (
                "binary_cross_entropy_with_logits",
                "input, target, weight=None, pos_weight=None, reduction=1",
                "",
                _binary_with_logits,
            ),
            ("kl_div", "input, target, reduction=1", ", log_target=False", _divergence),
            (
                "aten.cross_entropy_loss",
                "input, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0",
                "",
                _cross_entropy,
            ),
            (
                "aten.nll_loss aten.nll_loss2d aten.nll_loss_nd",
                "input, target, weight=None, reduction=1, ignore_index=-100",
                "",
                _nll,
            ),
            (
                "aten.nll_loss_forward aten.nll_loss2d_forward",
                "input, target, weight, reduction, ignore_index",
                "",
                _nll_with_weight,
            ),
            ("margin_ranking_loss", "input1, input2, target, margin=0.0, reduction=1", "", _margin),
            ("hinge_embedding_loss", "input, target, margin=1.0, reduction=1", "", _hinge),
            (
                "cosine_embedding_loss",
                "input1, input2, target, margin=0.0, reduction=1",
                "",
                _cosine_embedding,
            ),
            (
                "poisson_nll_loss",
                "input, target, log_input, full, eps, reduction",
                "",
                _poisson,
            ),
            (
                "triplet_margin_loss",
                "anchor, positive, negative, margin=1.0, p=2.0, eps=1e-06, swap=False, reduction=1",
                "",
                _triplet,
            ),
        )
    ),
)
