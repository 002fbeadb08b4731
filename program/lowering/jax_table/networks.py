"""Products, convolutions and windows of JAX."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites import windows as win
from padiff.program.lowering.composites.einsum import einsum
from padiff.program.lowering.rules import Arguments, Row, row

from .shapes import with_gaps


def _dot(b: Builder, a: Arguments) -> Term:
    x, y = b.term(a.x), b.term(a.y)
    (of_x, of_y), (batch_x, batch_y) = a.dimension_numbers
    letters = iter(ascii_letters)
    left, right = [""] * x.ndim, [""] * y.ndim
    for one, other in zip((*batch_x, *of_x), (*batch_y, *of_y), strict=True):
        left[one] = right[other] = next(letters)
    batch = [left[axis] for axis in batch_x]
    free = [axis for axis, label in enumerate(left) if not label]
    also = [axis for axis, label in enumerate(right) if not label]
    for axis in free:
        left[axis] = next(letters)
    for axis in also:
        right[axis] = next(letters)
    result = [*batch, *(left[axis] for axis in free), *(right[axis] for axis in also)]
    return einsum(b, f"{''.join(left)},{''.join(right)}->{''.join(result)}", (x, y))


def _convolution(b: Builder, a: Arguments) -> Term:
    if a.batch_group_count != 1:
        raise NotLoweredError("groups of the batch")
    of_x, of_weight, of_result = a.dimension_numbers
    x, weight = s.transpose(b, a.x, of_x), s.transpose(b, a.weight, of_weight)
    for axis, gap in enumerate(a.lhs_dilation or (), 2):
        x = with_gaps(b, x, axis, gap - 1)
    count = x.ndim - 2
    result = b(
        "convolution",
        x,
        weight,
        stride=tuple(a.window_strides),
        padding=tuple(map(tuple, a.padding)),
        dilation=tuple(a.rhs_dilation or (1,) * count),
        groups=a.feature_group_count,
    )
    return s.transpose(b, result, _inverse(of_result))


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)


def _pool(a: Arguments) -> win.Pool:
    if any(gap != 1 for gap in a.base_dilation or ()):
        raise NotLoweredError("gaps between elements")
    count = len(a.window_dimensions)
    return win.Pool(
        kernel=tuple(a.window_dimensions),
        stride=tuple(a.window_strides),
        padding=tuple(map(tuple, a.padding)),
        dilation=tuple(a.window_dilation or (1,) * count),
    )


def _largest(b: Builder, a: Arguments) -> Term:
    return win.maximum_pool(b, a.x, _pool(a))


def _smallest(b: Builder, a: Arguments) -> Term:
    return -win.maximum_pool(b, -a.x, _pool(a))


def _total(b: Builder, a: Arguments) -> Term:
    return win.average_pool(b, a.x, _pool(a), count_padding=True, divisor=1)


_WINDOW = "window_dimensions, window_strides, padding, base_dilation=None, window_dilation=None"

ROWS: tuple[Row, ...] = (
    row(
        "dot_general",
        "x, y, *, dimension_numbers, precision=None, preferred_element_type=None",
        _dot,
    ),
    row(
        "conv_general_dilated",
        "x, weight, *, window_strides, padding, lhs_dilation=None, rhs_dilation=None, "
        "dimension_numbers, feature_group_count=1, batch_group_count=1, precision=None, "
        "preferred_element_type=None",
        _convolution,
    ),
    row("reduce_window_max", f"x, *, {_WINDOW}", _largest),
    row("reduce_window_min", f"x, *, {_WINDOW}", _smallest),
    row("reduce_window_sum", f"x, *, {_WINDOW}", _total),
)
