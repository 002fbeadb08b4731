"""Products, layers, norms and losses of MindSpore."""

from __future__ import annotations

from typing import Any

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import losses as loss
from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites import windows as win
from padiff.program.lowering.composites.einsum import einsum
from padiff.program.lowering.composites.matrices import linear, matmul
from padiff.program.lowering.rules import Arguments, Result, Row, row

Widths = tuple[tuple[int, int], ...]


def _matmul(b: Builder, a: Arguments) -> Term:
    x = s.swap(b, a.x, -1, -2) if a.transpose_a else a.x
    y = s.swap(b, a.y, -1, -2) if a.transpose_b else a.y
    return matmul(b, x, y)


def _added_product(_b: Builder, a: Arguments) -> Term:
    return a.x * float(a.beta) + (a.first @ a.second) * float(a.alpha)


def _plain_layout(a: Arguments) -> None:
    if a.data_format not in {"NCHW", "NCDHW"}:
        raise NotLoweredError(f"layout {a.data_format!r}")


def _spatial(b: Builder, value: Any, count: int) -> tuple[int, ...]:
    """Return one number for each spatial axis; MindSpore writes some with those of (N, C)."""
    numbers = s.integers(b, value)
    return s.tuple_of(b, numbers[-count:] if len(numbers) > count else numbers, count)


def _padding(
    b: Builder, a: Arguments, sizes: tuple[int, ...], reaches: tuple[int, ...], steps: Any
) -> Widths:
    """Return what is added before and behind each axis; more behind where it is uneven."""
    mode = str(a.pad_mode).lower()
    if mode == "valid":
        return ((0, 0),) * len(sizes)
    if mode == "pad":
        numbers = s.integers(b, a.pad)
        if len(numbers) == 2 * len(sizes):
            return tuple(zip(numbers[::2], numbers[1::2], strict=True))
        return tuple((width, width) for width in s.tuple_of(b, numbers, len(sizes)))
    if mode != "same":
        raise NotLoweredError(f"padding {a.pad_mode!r}")
    totals = [
        max((-(-size // step) - 1) * step + reach - size, 0)
        for size, reach, step in zip(sizes, reaches, steps, strict=True)
    ]
    return tuple((total // 2, total - total // 2) for total in totals)


def _convolution(b: Builder, a: Arguments) -> Term:
    _plain_layout(a)
    count = a.weight.ndim - 2
    stride, dilation = (_spatial(b, each, count) for each in (a.stride, a.dilation))
    kernel = a.weight.shape[2:]
    reaches = tuple(step * (size - 1) + 1 for size, step in zip(kernel, dilation, strict=True))
    padding = _padding(b, a, a.x.shape[2:], reaches, stride)
    return b("convolution", a.x, a.weight, stride=stride, padding=padding, dilation=dilation,
             groups=a.group)  # fmt: skip


def _convolution_as_torch(b: Builder, a: Arguments) -> Term:
    if isinstance(a.padding, str):
        raise NotLoweredError(f"padding {a.padding!r}")
    count = a.weight.ndim - 2
    stride, dilation, widths = (
        s.tuple_of(b, each, count) for each in (a.stride, a.dilation, a.padding)
    )
    padding = tuple((width, width) for width in widths)
    result = b("convolution", a.x, a.weight, stride=stride, padding=padding, dilation=dilation,
               groups=a.groups)  # fmt: skip
    return s.with_bias(b, result, a.bias)


def _transposed(b: Builder, a: Arguments) -> Term:
    """Convolve the other way; the last argument of the call is the wanted shape."""
    _plain_layout(a)
    count = a.weight.ndim - 2
    stride, dilation = (_spatial(b, each, count) for each in (a.stride, a.dilation))
    padding = []
    for axis, size in enumerate(b.expected[0].shape[2:]):
        reach = dilation[axis] * (a.weight.shape[axis + 2] - 1) + 1
        total = (a.x.shape[axis + 2] - 1) * stride[axis] + reach - size
        padding.append((total // 2, total - total // 2))
    return b("convolution_transposed", a.x, a.weight, stride=stride, padding=tuple(padding),
             dilation=dilation, groups=a.group)  # fmt: skip


def _pool(b: Builder, a: Arguments) -> win.Pool:
    _plain_layout(a)
    count = a.x.ndim - 2
    kernel, stride = (_spatial(b, each, count) for each in (a.kernel_size, a.strides))
    padding = _padding(b, a, a.x.shape[2:], kernel, stride)
    return win.Pool(kernel=kernel, stride=stride, padding=padding, dilation=(1,) * count)


def _pool_as_torch(b: Builder, a: Arguments) -> win.Pool:
    count = 2
    stride = a.kernel_size if a.strides in (None, ()) else a.strides
    return win.Pool(
        kernel=s.tuple_of(b, a.kernel_size, count),
        stride=s.tuple_of(b, stride, count),
        padding=tuple((width, width) for width in s.tuple_of(b, a.pads, count)),
        dilation=s.tuple_of(b, a.dilation, count),
        ceil=bool(a.ceil_mode),
    )


def _maximum_as_torch(b: Builder, a: Arguments) -> Result:
    pool = _pool_as_torch(b, a)
    return [win.maximum_pool(b, a.x, pool), *[None] * (len(b.expected) - 1)]


def _average_as_torch(b: Builder, a: Arguments) -> Term:
    if a.divisor_override is not None:
        raise NotLoweredError("a divisor of its own")
    pool = _pool_as_torch(b, a)
    return win.average_pool(b, a.x, pool, count_padding=bool(a.count_include_pad))


def _adaptive(b: Builder, a: Arguments) -> Term:
    return win.adaptive_average(b, a.x, s.tuple_of(b, a.output_size, 2))


def _batch_norm(b: Builder, a: Arguments) -> Result:
    """Normalise each channel; while training, the statistics that were given are written.

    The running variance takes the unbiased one of the batch.
    """
    _plain_layout(a)
    affine = (a.scale, a.bias)
    extra: list[Term | None] = [None] * (len(b.expected) - 1)
    if not a.is_training:
        return [norms.batch_norm(b, a.x, (a.mean, a.variance), affine, a.epsilon), *extra]
    result = norms.batch_norm(b, a.x, None, affine, a.epsilon)
    if len(extra) > 4:  # noqa: PLR2004 - what the primitive returns beside its result
        mean, variance = norms.channel_moments(b, a.x)
        count = a.x.spec.count // a.x.shape[1]
        share = float(np.float32(a.momentum))  # a float32 whatever the tensors are
        unbiased = variance * (count / max(count - 1, 1))
        extra[-2:] = [
            a.mean * (1 - share) + mean * share,
            a.variance * (1 - share) + unbiased * share,
        ]
    return [result, *extra]


def _layer_norm(b: Builder, a: Arguments) -> Result:
    first = s.axis_of(b, a.begin_norm_axis, a.x.ndim)
    count = a.x.ndim - first
    affine = tuple(s.reshape(b, each, a.x.shape[first:]) for each in (a.gamma, a.beta))
    result = norms.layer_norm(b, a.x, count, (affine[0], affine[1]), a.epsilon)
    return [result, *[None] * (len(b.expected) - 1)]


def _layer_norm_as_torch(b: Builder, a: Arguments) -> Result:
    result = norms.layer_norm(
        b, a.x, len(s.integers(b, a.normalized_shape)), (a.weight, a.bias), a.eps
    )
    return [result, *[None] * (len(b.expected) - 1)]


def _rms_norm(b: Builder, a: Arguments) -> Result:
    result = norms.rms_norm(b, a.x, a.gamma.ndim, (a.gamma, None), a.epsilon)
    return [result, *[None] * (len(b.expected) - 1)]


def _group_norm(b: Builder, a: Arguments) -> Result:
    result = norms.group_norm(b, a.x, a.num_groups, (a.weight, a.bias), a.eps)
    return [result, *[None] * (len(b.expected) - 1)]


def _cross_entropy_of_shares(b: Builder, a: Arguments) -> Result:
    """Return the loss of each row, and what only the way back reads."""
    logs = b("log_softmax", a.x, axis=1)
    return [-b("sum", logs * a.labels, axes=(1,), keepdims=False), None]


def _cross_entropy_of_classes(b: Builder, a: Arguments) -> Term:
    if a.is_grad:
        raise NotLoweredError("the gradient")
    return loss.cross_entropy(b, a.x, a.labels, loss.CrossEntropy())


def _negative_log_likelihood(b: Builder, a: Arguments) -> Result:
    """Return the loss and the sum of the weights, that only the way back reads."""
    how = loss.CrossEntropy(weight=a.weight, ignore=a.ignore_index, reduction=str(a.reduction))
    made = loss.negative_log_likelihood(b, a.x, a.target, how)
    return [made, *[None] * (len(b.expected) - 1)]


def _squares(b: Builder, a: Arguments) -> Term:
    rest = a.x - a.target
    return loss.reduced(b, rest * rest, str(a.reduction))


def _magnitudes(b: Builder, a: Arguments) -> Term:
    return loss.reduced(b, b("abs", a.x - a.target), str(a.reduction))


def _smooth(b: Builder, a: Arguments) -> Term:
    return loss.smooth_l1(b, a.x, a.target, float(a.beta), str(a.reduction))


ROWS: tuple[Row, ...] = (
    row("MatMul BatchMatMul", "x, y, transpose_a=False, transpose_b=False", _matmul),
    row("MatMulExt BatchMatMulExt Mm .matmul .mm mint.matmul", "x, y",
        lambda b, a: matmul(b, a.x, a.y)),
    row("Dense", "x, weight, bias=None", lambda b, a: linear(b, a.x, a.weight, a.bias)),
    row("Addmm Baddbmm .addmm", "x, first, second, beta=1, alpha=1", _added_product),
    row("Outer .outer", "x, y", lambda b, a: s.unsqueeze(b, a.x, 1) * s.unsqueeze(b, a.y, 0)),
    row("mint.einsum", "equation, operands", lambda b, a: einsum(b, a.equation, a.operands)),
    row("BiasAdd", "x, bias, data_format='NCHW'", lambda b, a: s.with_bias(b, a.x, a.bias)),
    row("Conv2D", "x, weight, out_channel=None, kernel_size=None, mode=1, pad_mode='valid', pad=0, "
        "stride=1, dilation=1, group=1, data_format='NCHW'", _convolution),
    row("Conv3D", "x, weight, out_channel=None, kernel_size=None, mode=1, pad_mode='valid', pad=0, "
        "stride=1, dilation=1, group=1, data_format='NCDHW'", _convolution),
    row("Conv2DExt Conv1DExt Conv3DExt mint.conv1d mint.conv2d mint.conv3d",
        "x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1", _convolution_as_torch),
    row("Conv2DTranspose Conv2DBackpropInput", "x, weight, size=None, out_channel=None, "
        "kernel_size=None, pad_mode='valid', pad=0, pad_list=None, mode=1, stride=1, dilation=1, "
        "group=1, data_format='NCHW'", _transposed),
    row("MaxPool", "x, kernel_size=1, strides=1, pad_mode='valid', data_format='NCHW'",
        lambda b, a: win.maximum_pool(b, a.x, _pool(b, a))),
    row("AvgPool", "x, kernel_size=1, strides=1, pad_mode='valid', data_format='NCHW'",
        lambda b, a: win.average_pool(b, a.x, _pool(b, a), count_padding=False)),
    row("MaxPoolWithMask MaxPoolWithIndices", "x, kernel_size, strides=None, pads=0, "
        "dilation=(1, 1), ceil_mode=False, argmax_type=None", _maximum_as_torch),
    row("AvgPool2D", "x, kernel_size, strides=None, pads=0, ceil_mode=False, "
        "count_include_pad=True, divisor_override=None, dilation=1", _average_as_torch),
    row("AdaptiveAvgPool2D AdaptiveAvgPool2DExt", "x, output_size", _adaptive),
    row("BatchNorm", "x, scale, bias, mean, variance, is_training=False, epsilon=1e-5, "
        "momentum=0.1, data_format='NCHW'", _batch_norm),
    row("BatchNormExt", "x, scale=None, bias=None, mean=None, variance=None, is_training=False, "
        "momentum=0.1, epsilon=1e-5, data_format='NCHW'", _batch_norm),
    row("LayerNorm", "x, gamma, beta, begin_norm_axis=1, begin_params_axis=1, epsilon=1e-7",
        _layer_norm),
    row("LayerNormExt", "x, normalized_shape, weight=None, bias=None, eps=1e-5",
        _layer_norm_as_torch),
    row("RmsNorm", "x, gamma, epsilon=1e-6", _rms_norm),
    row("GroupNorm", "x, num_groups, weight=None, bias=None, eps=1e-5", _group_norm),
    row("SoftmaxCrossEntropyWithLogits", "x, labels", _cross_entropy_of_shares),
    row("SparseSoftmaxCrossEntropyWithLogits", "x, labels, is_grad=False",
        _cross_entropy_of_classes),
    row("NLLLoss", "x, target, weight, reduction='mean', ignore_index=-100",
        _negative_log_likelihood),
    row("MSELossExt", "x, target, reduction='mean'", _squares),
    row("L1LossExt", "x, target, reduction='mean'", _magnitudes),
    row("SmoothL1Loss", "x, target, beta=1.0, reduction='none'", _smooth),
)  # fmt: skip
