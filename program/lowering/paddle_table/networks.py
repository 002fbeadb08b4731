"""Products, layers, convolution, pooling, resampling, recurrence and attention of Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.program.lowering.builder import NotLoweredError
from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.matrices import matmul
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row

from .layout import as_before, channels_first

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term


def _matmul(b: Builder, a: Arguments) -> Term:
    x = s.swap(b, a.x, -1, -2) if a.transpose_x and a.x.ndim > 1 else a.x
    y = s.swap(b, a.y, -1, -2) if a.transpose_y and a.y.ndim > 1 else a.y
    return matmul(b, x, y)


def _linear(b: Builder, a: Arguments) -> Term:
    weight = s.swap(b, a.weight, 0, 1) if a.transpose_weight else a.weight
    result = matmul(b, a.input, weight)
    return result if a.bias is None else result + a.bias


def _dot(b: Builder, a: Arguments) -> Term:
    return b("sum", a.x * a.y, axes=(a.x.ndim - 1,), keepdims=False)


def _added_product(_b: Builder, a: Arguments) -> Term:
    return a.input * float(a.beta) + (a.x @ a.y) * float(a.alpha)


def _layer_norm(b: Builder, a: Arguments) -> Term:
    count = a.x.ndim - a.begin_norm_axis
    shape = a.x.shape[a.begin_norm_axis :]
    weight, bias = (
        None if each is None else s.reshape(b, each, shape) for each in (a.scale, a.bias)
    )
    return norms.layer_norm(b, a.x, count, (weight, bias), a.epsilon)


def _fused_norm(name: str) -> Rule:
    """Add a bias and a residual, then normalise; the sum is returned, too, where there is one."""

    def rule(b: Builder, a: Arguments) -> Result:
        if a.quant_scale > 0:
            raise NotLoweredError("a result that is quantised")
        x = a.x if a.bias is None else a.x + a.bias
        if a.residual is not None:
            x = x + (a.residual if a.residual_alpha == 1 else a.residual * a.residual_alpha)
        shape = a.x.shape[a.begin_norm_axis :]
        affine = [
            None if each is None else s.reshape(b, each, shape)
            for each in (a.norm_weight, a.norm_bias)
        ]
        norm = norms.rms_norm if name == "rms" else norms.layer_norm
        made = norm(b, x, len(shape), (affine[0], affine[1]), a.epsilon)
        others = [x if each.shape == x.shape else None for each in b.expected[1:]]
        return [made, *others]

    return rule


def _group_norm(b: Builder, a: Arguments) -> Term:
    x = channels_first(b, a.x, a.data_format)
    result = norms.group_norm(b, x, a.groups, (a.scale, a.bias), a.epsilon)
    return as_before(b, result, a.data_format)


def _instance_norm(b: Builder, a: Arguments) -> Term:
    return norms.group_norm(b, a.x, a.x.shape[1], (a.scale, a.bias), a.epsilon)


def _batch_norm(b: Builder, a: Arguments) -> Result:
    """Normalise each channel, and update the running statistics unless they are what is used.

    The variance of the batch is the biased one everywhere. What is kept for the way back are the
    mean and one over the deviation.
    """
    x = channels_first(b, a.x, a.data_format)
    affine = (a.scale, a.bias)
    if (a.is_test and not a.trainable_statistics) or a.use_global_stats:
        result = norms.batch_norm(b, x, (a.mean, a.variance), affine, a.epsilon)
        rest: list[Term | None] = [a.mean, a.variance]
    elif x.spec.count == x.shape[1]:
        result, rest = x, [a.mean, a.variance]  # Paddle hands single elements on
    else:
        result = norms.batch_norm(b, x, None, affine, a.epsilon)
        mean, variance = norms.channel_moments(b, x)
        share = float(np.float32(a.momentum))  # a float32 whatever the tensors are
        rest = [
            a.mean * share + mean * (1 - share),
            a.variance * share + variance * (1 - share),
            mean,
            1.0 / b("sqrt", variance + float(a.epsilon)),
        ]
    extra: list[Term | None] = [None] * (len(b.expected) - 1 - len(rest))
    if len(rest) > 2 and len(extra) > 1:  # noqa: PLR2004
        extra[-2:] = rest[:2]  # the tensors that were given are written, beside what is returned
    return [as_before(b, result, a.data_format), *rest, *extra]


_FUSED = "x, bias, residual, norm_weight, norm_bias, epsilon"
_QUANTISED = "quant_scale=-1, quant_round_type=0, quant_max_bound=0, quant_min_bound=0"

ROWS: tuple[Row, ...] = (
    row("matmul .__matmul__", "x, y, transpose_x=False, transpose_y=False", _matmul),
    row(".__rmatmul__", "x, y", lambda b, a: matmul(b, a.y, a.x)),
    row("linear", "input, weight, bias=None, transpose_weight=False", _linear),
    row("bmm", "x, y", lambda b, a: b("matmul", a.x, a.y)),
    row("mv", "x, vec", lambda b, a: matmul(b, a.x, a.vec)),
    row("dot", "x, y", _dot),
    row("addmm addmm_ baddbmm baddbmm_", "input, x, y, beta=1.0, alpha=1.0", _added_product),
    row("layer_norm", "x, scale=None, bias=None, epsilon=1e-5, begin_norm_axis=1", _layer_norm),
    row("fused_rms_norm_quant",
        f"{_FUSED}, begin_norm_axis, {_QUANTISED}, residual_alpha=1", _fused_norm("rms")),
    row("fused_bias_residual_layernorm",
        f"{_FUSED}, residual_alpha, begin_norm_axis, {_QUANTISED}", _fused_norm("layer")),
    row("group_norm",
        "x, scale=None, bias=None, epsilon=1e-5, groups=-1, data_format='NCHW'", _group_norm),
    row("batch_norm",
        "x, mean, variance, scale, bias, is_test, momentum, epsilon, data_format, "
        "use_global_stats, trainable_statistics", _batch_norm),
    row("instance_norm", "x, scale=None, bias=None, epsilon=1e-5", _instance_norm),
)  # fmt: skip
