"""Convolution, pooling, resampling and multi-head attention of torch."""

from __future__ import annotations

import math
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import attention as attend
from padiff.program.lowering.composites import resampling as sampling
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites import windows as win
from padiff.program.lowering.composites.activations import dropout
from padiff.program.lowering.composites.matrices import linear
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind


def _batched(b: Builder, x: Term, dimensions: int) -> Term:
    """Return a value with an axis of the batch."""
    return s.unsqueeze(b, x, 0) if x.ndim == dimensions + 1 else x


def _unbatched(b: Builder, x: Term, original: Term) -> Term:
    return s.reshape(b, x, x.shape[1:]) if original.ndim < x.ndim else x


def _padding(b: Builder, a: Arguments, kernel: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    count = len(kernel)
    if a.padding == "valid":
        return ((0, 0),) * count
    if a.padding == "same":
        spread = s.tuple_of(b, a.dilation, count)
        totals = [each * (size - 1) for each, size in zip(spread, kernel, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    return tuple((width, width) for width in s.tuple_of(b, a.padding, count))


def _convolution(b: Builder, a: Arguments) -> Term:
    dimensions = a.weight.ndim - 2
    x = _batched(b, a.input, dimensions)
    result = b(
        "convolution",
        x,
        a.weight,
        stride=s.tuple_of(b, a.stride, dimensions),
        padding=_padding(b, a, a.weight.shape[2:]),
        dilation=s.tuple_of(b, a.dilation, dimensions),
        groups=a.groups,
    )
    return _unbatched(b, s.with_bias(b, result, a.bias), a.input)


def _transposed(b: Builder, a: Arguments) -> Term:
    dimensions = a.weight.ndim - 2
    x = _batched(b, a.input, dimensions)
    extra = s.tuple_of(b, a.output_padding, dimensions)
    padding = s.tuple_of(b, a.padding, dimensions)
    result = b(
        "convolution_transposed",
        x,
        a.weight,
        stride=s.tuple_of(b, a.stride, dimensions),
        padding=tuple((width, width - more) for width, more in zip(padding, extra, strict=True)),
        dilation=s.tuple_of(b, a.dilation, dimensions),
        groups=a.groups,
    )
    return _unbatched(b, s.with_bias(b, result, a.bias), a.input)


def _any_convolution(b: Builder, a: Arguments) -> Term:
    return _transposed(b, a) if a.transposed else _convolution(b, a)


def _pool(b: Builder, a: Arguments, dimensions: int, dilation: Any = 1) -> win.Pool:
    kernel = s.tuple_of(b, a.kernel_size, dimensions)
    absent = a.stride is None or a.stride == ()
    padding = s.tuple_of(b, a.padding, dimensions)
    return win.Pool(
        kernel=kernel,
        stride=kernel if absent else s.tuple_of(b, a.stride, dimensions),
        padding=tuple((width, width) for width in padding),
        dilation=s.tuple_of(b, dilation, dimensions),
        ceil=bool(a.ceil_mode),
    )


def _maximum_pool(dimensions: int, *, indices: bool = False) -> Rule:
    def rule(b: Builder, a: Arguments) -> Result:
        pool = _pool(b, a, dimensions, a.dilation)
        if indices or a.return_indices:
            return win.maximum_pool_with_indices(b, a.input, pool)
        return win.maximum_pool(b, a.input, pool)

    return rule


def _average_pool(dimensions: int) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        pool = _pool(b, a, dimensions)
        count_padding, divisor = bool(a.count_include_pad), a.divisor_override
        return win.average_pool(b, a.input, pool, count_padding=count_padding, divisor=divisor)

    return rule


def _power_pool(dimensions: int) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x, order = a.input, float(a.norm_type)
        pool = _pool(b, a, dimensions)
        return win.power_pool(b, x, pool, order)

    return rule


def _sizes(a: Arguments, dimensions: int) -> tuple[int | None, ...]:
    sizes = a.output_size
    if isinstance(sizes, tuple | list):
        return tuple(sizes) * (dimensions if len(sizes) == 1 else 1)
    return (sizes,) * dimensions


def _adaptive_average(dimensions: int) -> Rule:
    return lambda b, a: win.adaptive_average(b, a.input, _sizes(a, dimensions))


def _adaptive_maximum(dimensions: int) -> Rule:
    def rule(b: Builder, a: Arguments) -> Result:
        if a.return_indices:
            return win.adaptive_maximum_with_indices(b, a.input, _sizes(a, dimensions))
        return win.adaptive_maximum(b, a.input, _sizes(a, dimensions))

    return rule


def _unpool(dimensions: int) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        shape = b.expected[0].shape
        first = len(shape) - dimensions
        return win.unpool(b, a.input, a.indices, shape, first)

    return rule


def _columns(b: Builder, a: Arguments) -> win.Pool:
    return win.Pool(
        kernel=s.tuple_of(b, a.kernel_size, 2),
        stride=s.tuple_of(b, a.stride, 2),
        padding=tuple((width, width) for width in s.tuple_of(b, a.padding, 2)),
        dilation=s.tuple_of(b, a.dilation, 2),
    )


def _unfold(b: Builder, a: Arguments) -> Term:
    result = win.unfold(b, _batched(b, a.input, 2), _columns(b, a))
    return s.reshape(b, result, result.shape[1:]) if a.input.ndim < 4 else result  # noqa: PLR2004


def _fold(b: Builder, a: Arguments) -> Term:
    x = a.input if a.input.ndim > 2 else s.unsqueeze(b, a.input, 0)  # noqa: PLR2004
    result = win.fold(b, x, s.tuple_of(b, a.output_size, 2), _columns(b, a))
    return s.reshape(b, result, result.shape[1:]) if a.input.ndim < 3 else result  # noqa: PLR2004


_MODES = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _interpolate(b: Builder, a: Arguments) -> Term:
    x = a.input
    count = x.ndim - 2
    if a.antialias:
        raise NotLoweredError("antialias")
    sizes = list(b.expected[0].shape[2:])
    if a.mode == "area":
        return win.adaptive_average(b, x, sizes)
    factors: list[float | None] = [None] * count
    if a.scale_factor is not None and not a.recompute_scale_factor:
        given = a.scale_factor
        factors = list(given) if isinstance(given, tuple | list) else [given] * count
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True)):
        if size == x.shape[2 + axis] and factor in {None, 1}:
            continue
        how = sampling.Resampling(
            axis=2 + axis,
            size=size,
            mode=_MODES.get(a.mode, a.mode),
            align_corners=bool(a.align_corners),
            step=None if factor is None else 1 / factor,
        )
        x = sampling.resample(b, x, how)
    return x


def _upsample(mode: str) -> Rule:
    """Return the rule of a mode of interpolation; scales stand last, or in one list."""

    def rule(b: Builder, a: Arguments) -> Term:
        scales = a.scales[0] if a.scales and isinstance(a.scales[0], tuple) else a.scales
        factor = None if None in scales or not scales else scales
        how = {"mode": mode, "scale_factor": factor, "align_corners": a.align_corners}
        fixed = {"input": a.input, "antialias": False, "recompute_scale_factor": False}
        return _interpolate(b, Arguments({**fixed, **how}))

    return rule


_SAMPLINGS, _OUTSIDE = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
"""By the numbers that ATen has for them."""


def _numbered_grid_sample(b: Builder, a: Arguments) -> Term:
    return sampling.grid_sample(
        b,
        a.input,
        a.grid,
        mode=_SAMPLINGS[a.interpolation_mode],
        padding=_OUTSIDE[a.padding_mode],
        align_corners=bool(a.align_corners),
    )


def _grid_sample(b: Builder, a: Arguments) -> Term:
    return sampling.grid_sample(
        b,
        a.input,
        a.grid,
        mode=a.mode,
        padding=a.padding_mode,
        align_corners=bool(a.align_corners),
    )


def _affine_grid(b: Builder, a: Arguments) -> Term:
    return sampling.affine_grid(
        b, a.theta, s.integers(b, a.size), align_corners=bool(a.align_corners)
    )


def _projected(b: Builder, a: Arguments) -> list[Term]:
    """Return queries, keys and values."""
    width = a.embed_dim_to_check
    if a.use_separate_proj_weight:
        weights = [a.q_proj_weight, a.k_proj_weight, a.v_proj_weight]
    else:
        weights = s.split(b, a.in_proj_weight, 0, [width] * 3)
    biases: list[Term | None] = [None] * 3
    if a.in_proj_bias is not None:
        biases = list(s.split(b, a.in_proj_bias, 0, [width] * 3))
    operands = (a.query, a.key, a.value)
    return [linear(b, *each) for each in zip(operands, weights, biases, strict=True)]


def _heads(b: Builder, x: Term, heads: int) -> Term:
    """Return (batch, head, position, feature) of (position, batch, feature)."""
    length, batch, width = x.shape
    return s.transpose(b, s.reshape(b, x, (length, batch, heads, width // heads)), (1, 2, 0, 3))


def _mask(b: Builder, a: Arguments, shape: tuple[int, ...]) -> Term | None:
    """Return what is added to the scores: both masks, as floats."""
    mask = a.attn_mask
    if mask is not None:
        if mask.ndim == 3:  # noqa: PLR2004
            mask = s.reshape(b, mask, shape)
        mask = _added(b, mask)
    if a.key_padding_mask is not None:
        keys = a.key_padding_mask
        keys = keys if keys.ndim > 1 else s.unsqueeze(b, keys, 0)
        keys = _added(b, s.reshape(b, keys, (keys.shape[0], 1, 1, keys.shape[1])))
        mask = keys if mask is None else mask + keys
    return mask


def _added(b: Builder, mask: Term) -> Term:
    return b("where", mask, -math.inf, 0.0) if mask.kind is Kind.BOOL else mask


def _multi_head(b: Builder, a: Arguments) -> Result:
    extra = (a.bias_k, a.bias_v, a.static_k, a.static_v)
    if any(each is not None for each in extra) or a.add_zero_attn:
        raise NotLoweredError("keys beside the sequence")
    if a.query.ndim != 3:  # noqa: PLR2004
        raise NotLoweredError("a sequence without a batch")
    query, key, value = (_heads(b, x, a.num_heads) for x in _projected(b, a))
    mask = _mask(b, a, (*query.shape[:3], key.shape[2]))
    scores = (query * (1 / math.sqrt(query.shape[-1]))) @ s.swap(b, key, -1, -2)
    scores = attend.masked_scores(b, scores, mask)
    soft = b("softmax", scores, axis=3) if a.need_weights else attend.safe_softmax(b, scores)
    if a.training and a.dropout_p:
        soft = dropout(b, soft, a.drawn, a.dropout_p)
    joined = s.reshape(b, s.transpose(b, soft @ value, (2, 0, 1, 3)), a.query.shape)
    result = linear(b, joined, a.out_proj_weight, a.out_proj_bias)
    if not a.need_weights:
        return result
    if a.average_attn_weights:
        return result, s.mean(b, soft, (1,), keepdims=False)
    return result, b("cast", soft, kind=soft.kind.value)  # a view, with a gradient of its own


_ALSO = " aten.adaptive_avg_pool{0}d _adaptive_avg_pool{0}d"
_CONV = "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1"
_TRANSPOSED = (
    "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1"
)
_MAX = (
    "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False"
)
_PLAIN_MAX = (
    "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, "
    "return_indices=False"
)
_AVG = (
    "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, "
    "divisor_override=None"
)
_POWER = "input, norm_type, kernel_size, stride=None, ceil_mode=False, *, padding=0"

ROWS: tuple[Row, ...] = (
    row("F.conv1d F.conv2d F.conv3d", _CONV, _convolution),
    row("F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d", _TRANSPOSED, _transposed),
    row(
        "convolution",
        "input, weight, bias, stride, padding, dilation, transposed, output_padding, groups",
        _any_convolution,
    ),
    *(row(f"F.max_pool{n}d", _MAX, _maximum_pool(n)) for n in (1, 2, 3)),
    *(row(f"max_pool{n}d", _PLAIN_MAX, _maximum_pool(n)) for n in (1, 2, 3)),
    *(
        row(f"F.max_pool{n}d_with_indices{also}", _MAX, _maximum_pool(n, indices=True))
        for n, also in (
            (1, ""),
            (2, " aten.max_pool2d_with_indices"),
            (3, " aten.max_pool3d_with_indices"),
        )
    ),
    *(row(f"F.avg_pool{n}d", _AVG, _average_pool(n)) for n in (1, 2, 3)),
    *(row(f"F.lp_pool{n}d", _POWER, _power_pool(n)) for n in (1, 2, 3)),
    *(
        row(f"F.adaptive_avg_pool{n}d{also}", "input, output_size", _adaptive_average(n))
        for n, also in ((1, ""), (2, _ALSO.format(2)), (3, _ALSO.format(3)))
    ),
    *(
        row(
            f"F.adaptive_max_pool{n}d",
            "input, output_size, return_indices=False",
            _adaptive_maximum(n),
        )
        for n in (1, 2, 3)
    ),
    *(
        row(
            f"F.adaptive_max_pool{n}d_with_indices {also}",
            "input, output_size, *, return_indices=True",
            _adaptive_maximum(n),
        )
        for n, also in (
            (1, "adaptive_max_pool1d"),
            (2, "aten.adaptive_max_pool2d"),
            (3, "aten.adaptive_max_pool3d"),
        )
    ),
    *(
        row(
            f"F.max_unpool{n}d",
            "input, indices, kernel_size, stride=None, padding=0, output_size=None",
            _unpool(n),
        )
        for n in (1, 2, 3)
    ),
    row("F.unfold aten.im2col", "input, kernel_size, dilation=1, padding=0, stride=1", _unfold),
    row(
        "F.fold aten.col2im",
        "input, output_size, kernel_size, dilation=1, padding=0, stride=1",
        _fold,
    ),
    row(
        "F.interpolate F.upsample",
        "input, size=None, scale_factor=None, mode='nearest', "
        "align_corners=None, recompute_scale_factor=None, antialias=False",
        _interpolate,
    ),
    row(
        "F.grid_sample",
        "input, grid, mode='bilinear', padding_mode='zeros', align_corners=None",
        _grid_sample,
    ),
    row(
        "grid_sampler grid_sampler_2d grid_sampler_3d",
        "input, grid, interpolation_mode, padding_mode, align_corners",
        _numbered_grid_sample,
    ),
    row("F.affine_grid affine_grid_generator", "theta, size, align_corners=None", _affine_grid),
    *(
        row(
            " ".join(f"aten.{name}{n}d" for n in axes),
            "input, output_size, *scales, align_corners=False",
            _upsample(mode),
        )
        for name, mode, axes in (
            ("upsample_nearest", "nearest", (1, 2, 3)),
            ("_upsample_nearest_exact", "nearest-exact", (1, 2, 3)),
        )
    ),
    *(
        row(
            f"aten.upsample_{mode}{n}d",
            "input, output_size, align_corners, *scales",
            _upsample(mode),
        )
        for mode, n in (("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2))
    ),
    row(
        "F.multi_head_attention_forward",
        "query, key, value, embed_dim_to_check, num_heads, "
        "in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p, "
        "out_proj_weight, out_proj_bias, training=True, key_padding_mask=None, "
        "need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, "
        "k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None, "
        "average_attn_weights=True, is_causal=False, *, drawn=None",
        _multi_head,
    ),
)
