"""Primitives that make, move, repeat or leave away elements and compute nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .spec import (
    Array,
    Kind,
    Primitive,
    Spec,
    axis_of,
    broadcast,
    check,
    normal_axes,
    promote,
)


def _sizes(shape: Any) -> tuple[int, ...]:
    check(isinstance(shape, tuple), "a tuple of sizes", shape)
    assert isinstance(shape, tuple)
    return shape


def _reshape_spec(x: Spec, *, shape: object) -> Spec:
    result = Spec(x.kind, _sizes(shape))
    check(result.count == x.count, "as many elements", x.shape, shape)
    return result


def _transpose_spec(x: Spec, *, order: object) -> Spec:
    axes = normal_axes(order, x.ndim)
    check(len(axes) == x.ndim, "an order of all axes", order)
    return Spec(x.kind, tuple(x.shape[axis] for axis in axes))


def _expand_spec(x: Spec, *, shape: object) -> Spec:
    sizes = _sizes(shape)
    check(broadcast(x.shape, sizes) == sizes, "a shape to broadcast to", x.shape, sizes)
    return Spec(x.kind, sizes)


def _slice_spec(x: Spec, *, axis: object, start: Any, stop: Any, step: Any) -> Spec:
    """A slice in Python's normal form: 0 ≤ start ≤ stop ≤ size, step ≥ 1."""
    axis = axis_of(axis, x.ndim)
    check(all(type(part) is int for part in (start, stop, step)), "integers", start, stop, step)
    check(x.ndim > 0 and step >= 1, "an axis and a positive step", x.shape, step)
    check(0 <= start <= stop <= x.shape[axis], "bounds inside", start, stop, x.shape[axis])
    return Spec(x.kind, _with_size(x.shape, axis, len(range(start, stop, step))))


def _slice(x: Array, *, axis: int, start: int, stop: int, step: int) -> Array:
    return x[(slice(None),) * (axis % x.ndim) + (slice(start, stop, step),)]


def _with_size(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _flip_spec(x: Spec, *, axes: object) -> Spec:
    normal_axes(axes, x.ndim)
    return x


def _flip(x: Array, *, axes: tuple[int, ...]) -> Array:
    return np.flip(x, axes)


def _roll_spec(x: Spec, *, axis: object, shift: object) -> Spec:
    axis_of(axis, x.ndim)
    check(x.ndim > 0 and type(shift) is int, "an axis and an integer", x.shape, shift)
    return x


def _roll(x: Array, *, axis: int, shift: int) -> Array:
    return np.roll(x, shift % max(x.shape[axis], 1), axis)


def _concat_spec(*parts: Spec, axis: object) -> Spec:
    first = parts[0]
    axis = axis_of(axis, first.ndim)
    check(first.ndim > 0, "an axis", first.shape)
    for part in parts:
        check(part.ndim == first.ndim, "as many axes", first.shape, part.shape)
        others = _with_size(part.shape, axis, 0) == _with_size(first.shape, axis, 0)
        check(others, "equal sizes of other axes", first.shape, part.shape)
    size = sum(part.shape[axis] for part in parts)
    return Spec(promote(*parts), _with_size(first.shape, axis, size))


def _concat(*parts: Array, axis: int) -> Array:
    return np.concatenate(parts, axis)


def _pad_spec(x: Spec, *, widths: Any, mode: object, value: object) -> Spec:
    """Add to both ends of each axis; negative widths, for constants only, leave elements away."""
    check(isinstance(widths, tuple) and len(widths) == x.ndim, "widths of all axes", widths)
    check(mode in {"constant", "reflect", "edge", "wrap"}, "a known mode", mode)
    check(isinstance(value, bool | int | float | complex), "a number", value)
    sizes = []
    for size, width in zip(x.shape, widths, strict=True):
        check(isinstance(width, tuple) and len(width) == 2, "two widths", width)  # noqa: PLR2004
        before, after = width
        check(type(before) is int and type(after) is int, "integers", width)
        if mode != "constant":
            least, most = 0, max(size - 1, 0) if mode == "reflect" else size
            most = most if mode != "edge" or not size else LARGEST_PAD
            check(least <= min(width) <= max(width) <= most, f"widths for {mode}", width, size)
        check(before + size + after >= 0, "a size from 0 on", width, size)
        check(min(width) >= -size, "no more left away than there is", width, size)
        sizes.append(before + size + after)
    return Spec(x.kind, tuple(sizes))


LARGEST_PAD = 2**40
"""Any width is allowed for repeating an edge; the executor's limits see to the rest."""


def _pad(x: Array, *, widths: tuple[tuple[int, int], ...], mode: str, value: complex) -> Array:
    if mode != "constant":
        return np.pad(x, widths, mode=mode)  # type: ignore[call-overload]
    kept = tuple(
        slice(max(-before, 0), size - max(-after, 0))
        for size, (before, after) in zip(x.shape, widths, strict=True)
    )
    x = x[kept]
    grown = [(max(before, 0), max(after, 0)) for before, after in widths]
    shape = [size + sum(width) for size, width in zip(x.shape, grown, strict=True)]
    result = np.full(shape, value, x.dtype)
    inside = tuple(
        slice(before, before + size) for size, (before, _) in zip(x.shape, grown, strict=True)
    )
    result[inside] = x
    return result


def _diagonal_spec(x: Spec, *, offset: Any) -> Spec:
    """The diagonal of the last two axes."""
    check(x.ndim >= 2 and type(offset) is int, "two axes and an offset", x.shape, offset)  # noqa: PLR2004
    rows, columns = x.shape[-2:]
    size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    return Spec(x.kind, (*x.shape[:-2], size))


def _diagonal(x: Array, *, offset: int) -> Array:
    return np.diagonal(x, offset, -2, -1)


def _triangle_spec(x: Spec, *, offset: object) -> Spec:
    check(x.ndim >= 2 and type(offset) is int, "two axes and an offset", x.shape, offset)  # noqa: PLR2004
    return x


def _tril(x: Array, *, offset: int) -> Array:
    return np.tril(x, _clipped(x, offset))


def _triu(x: Array, *, offset: int) -> Array:
    return np.triu(x, _clipped(x, offset))


def _clipped(x: Array, offset: int) -> int:
    return max(-x.shape[-2] - 1, min(offset, x.shape[-1] + 1))


def _full_spec(*, shape: object, value: object, kind: object) -> Spec:
    check(isinstance(value, bool | int | float | complex), "a number", value)
    if Kind(str(kind)) is Kind.INT:
        check(type(value) is int and -(2**63) <= value < 2**63, "a 64-bit integer", value)
    return Spec(Kind(str(kind)), _sizes(shape))


def _full(*, shape: tuple[int, ...], value: complex, kind: str) -> Array:
    return np.broadcast_to(np.array(value, Kind(kind).dtype), shape)


def _iota_spec(*, size: Any) -> Spec:
    check(type(size) is int and size >= 0, "a size", size)
    return Spec(Kind.INT, (size,))


def _iota(*, size: int) -> Array:
    return np.arange(size)


def _literal_spec(*, values: Any, shape: object, kind: object) -> Spec:
    check(isinstance(values, tuple) and len(values) <= LARGEST_LITERAL, "few values", kind)
    check(all(isinstance(value, bool | int | float | complex) for value in values), "numbers")
    spec = Spec(Kind(str(kind)), _sizes(shape))
    check(len(values) == spec.count, "as many values", len(values), shape)
    return spec


LARGEST_LITERAL = 2**16
"""Numbers that one operator may write down."""


def _literal(*, values: tuple[complex, ...], shape: tuple[int, ...], kind: str) -> Array:
    return np.array(values, Kind(kind).dtype).reshape(shape)


def _windows_spec(x: Spec, *, axis: object, size: Any, step: Any, dilation: Any) -> Spec:
    """All windows along one axis, as a view; the place inside the window is the last axis."""
    axis = axis_of(axis, x.ndim)
    parts = (size, step, dilation)
    check(x.ndim > 0 and all(type(part) is int and part >= 1 for part in parts), "sizes", parts)
    reach = dilation * (size - 1) + 1
    count = max(0, (x.shape[axis] - reach) // step + 1)
    return Spec(x.kind, (*_with_size(x.shape, axis, count), size))


def _windows(x: Array, *, axis: int, size: int, step: int, dilation: int) -> Array:
    axis %= x.ndim
    count = max(0, (x.shape[axis] - dilation * (size - 1) - 1) // step + 1)
    stride = x.strides[axis]
    return np.lib.stride_tricks.as_strided(
        x,
        (*_with_size(x.shape, axis, count), size),
        (*_with_size(x.strides, axis, stride * step), stride * dilation),
        writeable=False,
    )


def _overlap_spec(x: Spec, *, axis: object, size: Any, step: Any, dilation: Any) -> Spec:
    """Windows added up where they overlap: what ``windows`` took apart, into ``size`` places."""
    check(x.ndim >= 2 and x.kind is not Kind.BOOL, "numbers with two axes", x)  # noqa: PLR2004
    axis = axis_of(axis, x.ndim - 1)
    parts = (size, step, dilation)
    check(all(type(part) is int and part >= 1 for part in parts), "sizes from 1", parts)
    reach = dilation * (x.shape[-1] - 1) + 1
    fits = not x.shape[axis] or reach + (x.shape[axis] - 1) * step <= size
    check(fits, "windows inside the size", x.shape, parts)
    return Spec(x.kind, _with_size(x.shape[:-1], axis, size))


def _overlap(x: Array, *, axis: int, size: int, step: int, dilation: int) -> Array:
    axis %= x.ndim - 1
    count = x.shape[axis]
    result = np.zeros(_with_size(x.shape[:-1], axis, size), x.dtype)
    for place in range(x.shape[-1]):
        start = place * dilation
        where = (slice(None),) * axis + (slice(start, start + (count - 1) * step + 1, step),)
        if count:
            result[where] += x[..., place]
    return result


def _reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def _transpose(x: Array, *, order: tuple[int, ...]) -> Array:
    return x.transpose(order)


def _expand(x: Array, *, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(x, shape)


def _rank_work(*specs: Spec, **_: object) -> int:
    return 2 * max((spec.count for spec in specs), default=1)


_MANY = 2**20

PRIMITIVES: tuple[Primitive, ...] = (
    Primitive(name="reshape", arity=(1, 1), infer=_reshape_spec, run=_reshape),
    Primitive(name="transpose", arity=(1, 1), infer=_transpose_spec, run=_transpose),
    Primitive(name="expand", arity=(1, 1), infer=_expand_spec, run=_expand),
    Primitive(name="slice", arity=(1, 1), infer=_slice_spec, run=_slice),
    Primitive(name="flip", arity=(1, 1), infer=_flip_spec, run=_flip),
    Primitive(name="roll", arity=(1, 1), infer=_roll_spec, run=_roll),
    Primitive(name="concat", arity=(1, _MANY), infer=_concat_spec, run=_concat),
    Primitive(name="pad", arity=(1, 1), infer=_pad_spec, run=_pad),
    Primitive(name="diagonal", arity=(1, 1), infer=_diagonal_spec, run=_diagonal),
    Primitive(name="tril", arity=(1, 1), infer=_triangle_spec, run=_tril),
    Primitive(name="triu", arity=(1, 1), infer=_triangle_spec, run=_triu),
    Primitive(name="full", arity=(0, 0), infer=_full_spec, run=_full),
    Primitive(name="literal", arity=(0, 0), infer=_literal_spec, run=_literal),
    Primitive(name="iota", arity=(0, 0), infer=_iota_spec, run=_iota),
    Primitive(name="windows", arity=(1, 1), infer=_windows_spec, run=_windows),
    Primitive(name="overlap", arity=(1, 1), infer=_overlap_spec, run=_overlap, work=_rank_work),
)
