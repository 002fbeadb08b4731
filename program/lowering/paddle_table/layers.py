"""Convolution, pooling and unfolding of Paddle."""

from __future__ import annotations

from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites import windows as win
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row

from .layout import as_before, channels_first

Widths = tuple[tuple[int, int], ...]


def _widths(b: Builder, paddings: Any, count: int) -> Widths:
    """Return what is added before and behind each axis; one number serves both."""
    numbers = s.integers(b, paddings)
    if len(numbers) == 2 * count:
        return tuple(zip(numbers[::2], numbers[1::2], strict=True))
    return tuple((width, width) for width in s.tuple_of(b, numbers, count))


def _padding(
    b: Builder, a: Arguments, sizes: tuple[int, ...], kernel: tuple[int, ...], steps: Any
) -> Widths:
    """Return the padding of an algorithm; the same size divided by the step is kept by ``SAME``."""
    if a.padding_algorithm == "VALID":
        return ((0, 0),) * len(kernel)
    if a.padding_algorithm == "EXPLICIT":
        return _widths(b, a.paddings, len(kernel))
    if a.padding_algorithm != "SAME":
        raise NotLoweredError(f"padding {a.padding_algorithm!r}")
    totals = [
        max((-(-size // step) - 1) * step + reach - size, 0)
        for size, reach, step in zip(sizes, kernel, steps, strict=True)
    ]
    return tuple((total // 2, total - total // 2) for total in totals)


def _reaches(kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(step * (size - 1) + 1 for size, step in zip(kernel, dilation, strict=True))


def _convolution(b: Builder, a: Arguments) -> Term:
    """Convolve; ``SAME`` counts the dilation, which Paddle 3.3 leaves out there (a defect)."""
    count = a.filter.ndim - 2
    x = channels_first(b, a.input, a.data_format)
    kernel = a.filter.shape[2:]
    stride, dilation = (s.tuple_of(b, each, count) for each in (a.strides, a.dilations))
    padding = _padding(b, a, x.shape[2:], _reaches(kernel, dilation), stride)
    result = b(
        "convolution", x, a.filter, stride=stride, padding=padding, dilation=dilation,
        groups=a.groups,
    )  # fmt: skip
    return as_before(b, result, a.data_format)


def _transposed(b: Builder, a: Arguments) -> Term:
    """Convolve the other way; a wanted size or what is added to it only cuts less off."""
    count = a.filter.ndim - 2
    x = channels_first(b, a.x, a.data_format)
    kernel = a.filter.shape[2:]
    stride, dilation = (s.tuple_of(b, each, count) for each in (a.strides, a.dilations))
    if a.padding_algorithm == "SAME" and set(dilation) != {1}:
        raise NotLoweredError("a dilation that the padding leaves out")
    padding = _padding(b, a, x.shape[2:], kernel, stride)
    extra = _extra(b, a, x.shape[2:], _reaches(kernel, dilation), stride, padding)
    result = b(
        "convolution_transposed",
        x,
        a.filter,
        stride=stride,
        padding=tuple(
            (before, after - more) for (before, after), more in zip(padding, extra, strict=True)
        ),
        dilation=dilation,
        groups=a.groups,
    )
    return as_before(b, result, a.data_format)


def _extra(
    b: Builder,
    a: Arguments,
    sizes: tuple[int, ...],
    reaches: tuple[int, ...],
    stride: tuple[int, ...],
    padding: Widths,
) -> tuple[int, ...]:
    """Return how much larger than usual each axis of the result is."""
    wanted = s.integers(b, a.output_size)
    if not wanted:
        added = s.integers(b, a.output_padding)
        return s.tuple_of(b, added, len(sizes)) if added else (0,) * len(sizes)
    usual = [
        (size - 1) * step + reach - sum(widths)
        for size, step, reach, widths in zip(sizes, stride, reaches, padding, strict=True)
    ]
    wanted = s.tuple_of(b, wanted, len(sizes))
    return tuple(size - least for size, least in zip(wanted, usual, strict=True))


def _bins(b: Builder, a: Arguments, x: Term, count: int) -> tuple[int | None, ...]:
    """Return the sizes of an adaptive result; -1 keeps an axis."""
    sizes = s.tuple_of(b, a.kernel_size, count)
    return tuple(x.shape[2 + axis] if size < 1 else size for axis, size in enumerate(sizes))


def _windows(b: Builder, a: Arguments, x: Term, count: int) -> win.Pool:
    sizes = x.shape[2:]
    kernel = sizes if a.global_pooling else s.tuple_of(b, a.kernel_size, count)
    stride = s.tuple_of(b, a.strides, count)
    padding = _padding(b, a, sizes, kernel, stride)
    if a.global_pooling:
        padding = ((0, 0),) * count
    return win.Pool(
        kernel=kernel, stride=stride, padding=padding, dilation=(1,) * count, ceil=bool(a.ceil_mode)
    )


def _pool(count: int) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = channels_first(b, a.x, a.data_format)
        is_maximum = a.pooling_type == "max"
        if a.adaptive and is_maximum:
            raise NotLoweredError("adaptive maxima without their places")
        if a.adaptive:
            return as_before(b, win.adaptive_average(b, x, _bins(b, a, x, count)), a.data_format)
        pool = _windows(b, a, x, count)
        if is_maximum:
            result = win.maximum_pool(b, x, pool)
        else:
            result = win.average_pool(b, x, pool, count_padding=not a.exclusive)
        return as_before(b, result, a.data_format)

    return rule


def _power_pool(b: Builder, a: Arguments) -> Term:
    if a.adaptive:
        raise NotLoweredError("adaptive bins")
    x = channels_first(b, a.x, a.data_format)
    result = win.power_pool(b, x, _windows(b, a, x, 2), float(a.norm_type))
    return as_before(b, result, a.data_format)


def _pool_with_places(count: int) -> Rule:
    def rule(b: Builder, a: Arguments) -> Result:
        if a.adaptive:
            return win.adaptive_maximum_with_indices(b, a.x, _bins(b, a, a.x, count))
        return win.maximum_pool_with_indices(b, a.x, _windows(b, a, a.x, count))

    return rule


def _unpool(b: Builder, a: Arguments) -> Term:
    """Put elements where they were; Paddle's own sizes stand in the recorded result."""
    if not a.data_format.startswith("NC"):
        raise NotLoweredError("channels at the end")
    return win.unpool(b, a.x, a.indices, b.expected[0].shape, 2)


def _columns(b: Builder, a: Arguments) -> win.Pool:
    numbers = s.integers(b, a.paddings)
    # widths of four: top, left, bottom, right
    pairs = tuple(zip(numbers[:2], numbers[2:], strict=True)) if len(numbers) > 2 else (  # noqa: PLR2004
        tuple((width, width) for width in s.tuple_of(b, numbers, 2)))  # fmt: skip
    return win.Pool(
        kernel=s.tuple_of(b, a.kernel_sizes, 2),
        stride=s.tuple_of(b, a.strides, 2),
        padding=pairs,
        dilation=s.tuple_of(b, a.dilations, 2),
    )


def _maxout(b: Builder, a: Arguments) -> Term:
    """Return the largest of neighbouring channels, as many as there are groups."""
    axis = s.axis_of(b, a.axis, a.x.ndim)
    shape = (*a.x.shape[:axis], -1, a.groups, *a.x.shape[axis + 1 :])
    return b("amax", s.reshape(b, a.x, shape), axes=(axis + 1,), keepdims=False)


def _temporal_shift(b: Builder, a: Arguments) -> Term:
    """Take some channels from the segment before and some from the one after."""
    x = channels_first(b, a.x, a.data_format)
    channels = x.shape[1]
    first, second = int(channels * a.shift_ratio), int(channels * 2 * a.shift_ratio)
    parts = s.split(b, s.reshape(b, x, (-1, a.seg_num, *x.shape[1:])), 2,
                    [first, second - first, channels - second])  # fmt: skip
    shifted = [_moved(b, parts[0], 1), _moved(b, parts[1], -1), parts[2]]
    joined = b("concat", *shifted, axis=2)
    return as_before(b, s.reshape(b, joined, x.shape), a.data_format)


def _moved(b: Builder, x: Term, steps: int) -> Term:
    """Move segments (axis 1) on by a place; zeros take their place."""
    widths = [(0, 0)] * x.ndim
    widths[1] = (steps, -steps)
    return b("pad", x, widths=tuple(widths), mode="constant", value=0.0)


def _strides(ones: str) -> str:
    return f"strides={ones}, paddings={ones.replace('1', '0')}, padding_algorithm='EXPLICIT'"


_TRANSPOSED = (
    "x, filter, strides={0}, paddings={1}, output_padding=(), output_size=(), "
    "padding_algorithm='EXPLICIT', groups=1, dilations={0}, data_format='NCHW'"
)
_POOL = (
    "x, kernel_size, strides, paddings, ceil_mode, exclusive, data_format, pooling_type, "
    "global_pooling, adaptive, padding_algorithm"
)
_PLACES = (
    "x, kernel_size, strides=(1, 1), paddings=(0, 0), global_pooling=False, adaptive=False, "
    "ceil_mode=False, padding_algorithm='EXPLICIT'"
)

ROWS: tuple[Row, ...] = (
    row("conv2d",
        f"input, filter, {_strides('(1, 1)')}, dilations=(1, 1), groups=1, data_format='NCHW'",
        _convolution),
    row("depthwise_conv2d",
        f"input, filter, {_strides('(1, 1)')}, groups=1, dilations=(1, 1), data_format='NCHW'",
        _convolution),
    row("conv3d",
        f"input, filter, {_strides('(1, 1, 1)')}, groups=1, dilations=(1, 1, 1), "
        "data_format='NCDHW'", _convolution),
    row("conv2d_transpose depthwise_conv2d_transpose",
        _TRANSPOSED.format("(1, 1)", "(0, 0)"), _transposed),
    row("conv3d_transpose", _TRANSPOSED.format("(1, 1, 1)", "(0, 0, 0)"), _transposed),
    *(row(f"pool{count}d", _POOL, _pool(count)) for count in (2, 3)),
    *(row(f"max_pool{count}d_with_index", _PLACES, _pool_with_places(count)) for count in (2, 3)),
    # one over the order is a float32
    row("lp_pool2d",
        "x, kernel_size, strides=(1, 1), paddings=(0, 0), ceil_mode=False, exclusive=True, "
        "data_format='NCHW', pooling_type='', global_pooling=False, adaptive=False, "
        "padding_algorithm='EXPLICIT', norm_type=0.0", _power_pool, tolerance=1e-6),
    row("unpool", "x, indices, ksize, strides, padding, output_size, data_format", _unpool),
    row("unpool3d",
        "x, indices, ksize, strides=(1, 1, 1), paddings=(0, 0, 0), output_size=(0, 0, 0), "
        "data_format='NCDHW'", _unpool),
    row("unfold", "x, kernel_sizes, strides, paddings, dilations",
        lambda b, a: win.unfold(b, a.x, _columns(b, a))),
    row("fold", "x, output_sizes, kernel_sizes, strides, paddings, dilations",
        lambda b, a: win.fold(b, a.x, s.tuple_of(b, a.output_sizes, 2), _columns(b, a))),
    row("maxout", "x, groups, axis=1", _maxout),
    row("temporal_shift", "x, seg_num, shift_ratio=0.25, data_format='NCHW'", _temporal_shift),
)  # fmt: skip
