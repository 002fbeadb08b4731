"""Linear algebra, layers, norms, attention and losses of ONNX."""

from __future__ import annotations

import math
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import losses as loss
from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites import resampling as sampling
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites import windows as win
from padiff.program.lowering.composites.attention import attention
from padiff.program.lowering.composites.einsum import einsum
from padiff.program.lowering.composites.matrices import matmul
from padiff.program.lowering.rules import Arguments, Result, Row, row


def _gemm(b: Builder, a: Arguments) -> Term:
    x = s.swap(b, a.x, 0, 1) if a.transA else a.x
    y = s.swap(b, a.y, 0, 1) if a.transB else a.y
    result = x @ y
    result = result if a.alpha == 1 else result * a.alpha
    return result if a.c is None else result + a.c * a.beta


def _padding(
    a: Arguments, sizes: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    count = len(kernel)
    if a.auto_pad in {"NOTSET", "VALID"}:
        pads = a.pads or (0,) * (2 * count)
        return tuple((pads[axis], pads[axis + count]) for axis in range(count))
    result = []
    stride, dilation = a.strides or (1,) * count, a.dilations or (1,) * count
    for axis, size in enumerate(sizes):
        reach = dilation[axis] * (kernel[axis] - 1) + 1
        total = max(0, (-(-size // stride[axis]) - 1) * stride[axis] + reach - size)
        small = total // 2
        upper = a.auto_pad == "SAME_UPPER"
        result.append((small, total - small) if upper else (total - small, small))
    return tuple(result)


def _convolution(b: Builder, a: Arguments) -> Term:
    count = a.x.ndim - 2
    result = b(
        "convolution",
        a.x,
        a.weight,
        stride=a.strides or (1,) * count,
        padding=_padding(a, a.x.shape[2:], a.weight.shape[2:]),
        dilation=a.dilations or (1,) * count,
        groups=a.group,
    )
    return s.with_bias(b, result, a.bias)


def _transposed(b: Builder, a: Arguments) -> Term:
    count = a.x.ndim - 2
    stride, dilation = a.strides or (1,) * count, a.dilations or (1,) * count
    extra = a.output_padding or (0,) * count
    padding = []
    for axis in range(count):
        reach = dilation[axis] * (a.weight.shape[axis + 2] - 1) + 1
        full = (a.x.shape[axis + 2] - 1) * stride[axis] + reach
        if a.output_shape is None and a.auto_pad == "NOTSET":
            pads = a.pads or (0,) * (2 * count)
            padding.append((pads[axis], pads[axis + count] - extra[axis]))
        else:
            more = extra[axis]
            total = full + more - b.expected[0].shape[axis + 2]
            small = total // 2
            upper = a.auto_pad == "SAME_UPPER"
            first = small if upper else total - small
            padding.append((first, total - first - more))
    result = b("convolution_transposed", a.x, a.weight, stride=stride, padding=tuple(padding),
               dilation=dilation, groups=a.group)  # fmt: skip
    return s.with_bias(b, result, a.bias)


def _pool(a: Arguments) -> win.Pool:
    count = len(a.kernel_shape)
    return win.Pool(
        kernel=a.kernel_shape,
        stride=a.strides or (1,) * count,
        padding=_padding(a, a.x.shape[2:], a.kernel_shape),
        dilation=a.dilations or (1,) * count,
        ceil=bool(a.ceil_mode),
    )


def _maximum_pool(b: Builder, a: Arguments) -> Result:
    if len(b.expected) == 1:
        return win.maximum_pool(b, a.x, _pool(a))
    if a.storage_order:
        raise NotLoweredError("places counted by columns")
    values, places = win.maximum_pool_with_indices(b, a.x, _pool(a))
    planes = a.x.shape[0] * a.x.shape[1]
    offset = s.reshape(b, b("iota", size=planes), (*a.x.shape[:2], *[1] * (a.x.ndim - 2)))
    return values, places + offset * math.prod(a.x.shape[2:])


def _average_pool(b: Builder, a: Arguments) -> Term:
    return win.average_pool(b, a.x, _pool(a), count_padding=bool(a.count_include_pad))


def _power_pool(b: Builder, a: Arguments) -> Term:
    return win.power_pool(b, b("abs", a.x), _pool(a), float(a.p))


def _spatial(x: Term) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _batch_norm(b: Builder, a: Arguments) -> Term:
    if a.training_mode:
        raise NotLoweredError("running statistics as outputs")
    return norms.batch_norm(b, a.x, (a.mean, a.var), (a.scale, a.bias), a.epsilon)


def _layer_norm(b: Builder, a: Arguments) -> Result:
    count = a.x.ndim - s.axis_of(b, a.axis, a.x.ndim)
    result = norms.layer_norm(b, a.x, count, (a.scale, a.bias), a.epsilon)
    if len(b.expected) == 1:
        return result
    centre, _, variance = s.moments(b, a.x, tuple(range(a.x.ndim - count, a.x.ndim)))
    return result, centre, 1.0 / b("sqrt", variance + float(a.epsilon))


def _rms_norm(b: Builder, a: Arguments) -> Term:
    count = a.x.ndim - s.axis_of(b, a.axis, a.x.ndim)
    return norms.rms_norm(b, a.x, count, (a.scale, None), a.epsilon)


def _power_norm(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    size = norms.vector_norm(b, a.x, a.p, (axis,), keepdims=True)
    return b("where", b("equal", size, 0.0), 0.0, a.x / size)


def _mean_variance(b: Builder, a: Arguments) -> Term:
    _, rest, variance = s.moments(b, a.x, s.axes_of(b, a.axes, a.x.ndim))
    return rest / (b("sqrt", variance) + 1e-9)


def _losses(b: Builder, a: Arguments) -> loss.CrossEntropy:
    return loss.CrossEntropy(
        weight=a.weight,
        ignore=-(2**62) if a.ignore_index is None else a.ignore_index,
        reduction=a.reduction,
    )


def _softmax_loss(b: Builder, a: Arguments) -> Result:
    result = loss.cross_entropy(b, a.x, a.target, _losses(b, a))
    return (result, b("log_softmax", a.x, axis=1))[: len(b.expected)]


def _grid_sample(b: Builder, a: Arguments) -> Term:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(a.mode, a.mode)
    return sampling.grid_sample(
        b, a.x, a.grid, mode=mode, padding=a.padding_mode, align_corners=bool(a.align_corners)
    )


def _affine_grid(b: Builder, a: Arguments) -> Term:
    size = s.integers(b, a.size)
    return sampling.affine_grid(b, a.theta, size, align_corners=bool(a.align_corners))


def _columns(b: Builder, a: Arguments) -> Term:
    sizes, kernel = s.integers(b, a.sizes), s.integers(b, a.kernel)
    count = len(kernel)
    pads = a.pads or (0,) * (2 * count)
    pool = win.Pool(
        kernel=kernel,
        stride=a.strides or (1,) * count,
        padding=tuple((pads[axis], pads[axis + count]) for axis in range(count)),
        dilation=a.dilations or (1,) * count,
    )
    return win.fold(b, a.x, sizes, pool)


def _heads(b: Builder, x: Term, count: Any) -> Term:
    if x.ndim == 4:  # noqa: PLR2004
        return x
    batch, length, width = x.shape
    return s.transpose(b, s.reshape(b, x, (batch, length, count, width // count)), (0, 2, 1, 3))


def _attention(b: Builder, a: Arguments) -> Term:
    if a.past_key is not None or a.nonpad is not None or len(b.expected) > 1:
        raise NotLoweredError("keys of earlier steps, or scores as outputs")
    if a.left_window_size is not None or a.right_window_size is not None:
        raise NotLoweredError("windows of keys")
    if a.softcap or a.is_causal:
        raise NotLoweredError("capped scores, or a causal mask that counts earlier keys")
    query = _heads(b, a.query, a.q_num_heads)
    key, value = _heads(b, a.key, a.kv_num_heads), _heads(b, a.value, a.kv_num_heads)
    mask = a.mask
    if mask is not None and mask.shape[-1] != key.shape[2]:
        raise NotLoweredError("a mask for fewer keys")
    result = attention(b, (query, key, value), mask, scale=a.scale, grouped=True)
    if a.query.ndim == 4:  # noqa: PLR2004
        return result
    batch, length = a.query.shape[:2]
    return s.reshape(b, s.transpose(b, result, (0, 2, 1, 3)), (batch, length, -1))


def _resize(b: Builder, a: Arguments) -> Term:
    how = (a.coordinate_transformation_mode, a.mode)
    plain = {("half_pixel", "linear"), ("half_pixel", "cubic"), ("align_corners", "linear"),
             ("align_corners", "cubic"), ("asymmetric", "linear")}  # fmt: skip
    if how not in plain or a.antialias or a.exclude_outside or a.axes is not None:
        raise NotLoweredError(f"resizing by {how}")
    if a.keep_aspect_ratio_policy != "stretch":
        raise NotLoweredError("resizing that keeps the aspect")
    x = a.x
    if how[0] == "align_corners" and a.scales is not None and a.scales.spec.count:
        raise NotLoweredError("corners of a size that is no integer")
    scales = None if a.scales is None or not a.scales.spec.count else b.static(a.scales)
    for axis, size in enumerate(b.expected[0].shape):
        if size == x.shape[axis]:
            continue
        x = sampling.resample(b, x, sampling.Resampling(
            axis=axis, size=size, mode=a.mode, align_corners=how[0] == "align_corners",
            step=None if scales is None else 1 / float(scales[axis]), cubic=a.cubic_coeff_a,
            half_pixel=how[0] == "half_pixel"))  # fmt: skip
    return x


_WINDOW = "auto_pad='NOTSET', dilations=None, pads=None, strides=None"

ROWS: tuple[Row, ...] = (
    row("MatMul", "x, y", lambda b, a: matmul(b, a.x, a.y)),
    row("Gemm", "x, y, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0", _gemm),
    row("Einsum", "*inputs, equation", lambda b, a: einsum(b, a.equation, a.inputs)),
    row("Det", "x", lambda b, a: b("determinant", a.x)),
    row("Conv", f"x, weight, bias=None, *, group=1, kernel_shape=None, {_WINDOW}", _convolution),
    row(
        "ConvTranspose",
        "x, weight, bias=None, *, group=1, kernel_shape=None, "
        f"output_padding=None, output_shape=None, {_WINDOW}",
        _transposed,
    ),
    row("MaxPool", f"x, *, kernel_shape, ceil_mode=0, storage_order=0, {_WINDOW}", _maximum_pool),
    row(
        "AveragePool",
        f"x, *, kernel_shape, ceil_mode=0, count_include_pad=0, {_WINDOW}",
        _average_pool,
    ),
    row("LpPool", f"x, *, kernel_shape, ceil_mode=0, p=2, {_WINDOW}", _power_pool),
    row("GlobalAveragePool", "x", lambda b, a: s.mean(b, a.x, _spatial(a.x), keepdims=True)),
    row("GlobalMaxPool", "x", lambda b, a: b("amax", a.x, axes=_spatial(a.x), keepdims=True)),
    row(
        "BatchNormalization",
        "x, scale, bias, mean, var, *, epsilon=1e-05, momentum=0.9, training_mode=0",
        _batch_norm,
    ),
    row(
        "InstanceNormalization",
        "x, scale, bias, *, epsilon=1e-05",
        lambda b, a: norms.group_norm(b, a.x, a.x.shape[1], (a.scale, a.bias), a.epsilon),
    ),
    row(
        "GroupNormalization",
        "x, scale, bias, *, epsilon=1e-05, num_groups, stash_type=1",
        lambda b, a: norms.group_norm(b, a.x, a.num_groups, (a.scale, a.bias), a.epsilon),
    ),
    row(
        "LayerNormalization",
        "x, scale, bias=None, *, axis=-1, epsilon=1e-05, stash_type=1",
        _layer_norm,
    ),
    row("RMSNormalization", "x, scale, *, axis=-1, epsilon=1e-05, stash_type=1", _rms_norm),
    row(
        "LRN",
        "x, *, alpha=0.0001, beta=0.75, bias=1.0, size",
        lambda b, a: norms.local_response_norm(b, a.x, a.size, a.alpha, a.beta, a.bias),
    ),
    row("LpNormalization", "x, *, axis=-1, p=2", _power_norm),
    row("MeanVarianceNormalization", "x, *, axes=(0, 2, 3)", _mean_variance),
    row(
        "NegativeLogLikelihoodLoss",
        "x, target, weight=None, *, ignore_index=None, reduction='mean'",
        lambda b, a: loss.negative_log_likelihood(b, a.x, a.target, _losses(b, a)),
    ),
    row(
        "SoftmaxCrossEntropyLoss",
        "x, target, weight=None, *, ignore_index=None, reduction='mean'",
        _softmax_loss,
    ),
    row(
        "GridSample",
        "x, grid, *, align_corners=0, mode='linear', padding_mode='zeros'",
        _grid_sample,
    ),
    row("AffineGrid", "theta, size, *, align_corners=0", _affine_grid),
    row("Col2Im", "x, sizes, kernel, *, dilations=None, pads=None, strides=None", _columns),
    row(
        "Attention",
        "query, key, value, mask=None, past_key=None, past_value=None, nonpad=None, "
        "*, is_causal=0, q_num_heads=None, kv_num_heads=None, qk_matmul_output_mode=0, "
        "scale=None, softcap=0.0, softmax_precision=None, left_window_size=None, "
        "right_window_size=None",
        _attention,
    ),
    row(
        "Resize",
        "x, roi=None, scales=None, sizes=None, *, antialias=0, axes=None, "
        "coordinate_transformation_mode='half_pixel', cubic_coeff_a=-0.75, exclude_outside=0, "
        "extrapolation_value=0.0, keep_aspect_ratio_policy='stretch', mode='nearest', "
        "nearest_mode='round_prefer_floor'",
        _resize,
    ),
)
