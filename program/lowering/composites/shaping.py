"""Shapes: what every framework says in its own words, in the words of the primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.primitives import Kind


def integer(b: Builder, value: Any) -> int:
    """Return an integer that may have been recorded as a tensor."""
    if isinstance(value, Term):
        value = b.static(value).item()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise NotLoweredError(f"expected an integer, found {value!r}")
    return int(value)


def number(b: Builder, value: Any) -> Any:
    """Return a number that may have been recorded as a tensor."""
    return b.static(value).item() if isinstance(value, Term) else value


def integers(b: Builder, values: Any) -> tuple[int, ...]:
    """Return integers from a sequence, a tensor of them, or one alone."""
    if isinstance(values, Term):
        return tuple(int(value) for value in b.static(values).reshape(-1))
    if isinstance(values, tuple | list):
        return tuple(integer(b, value) for value in values)
    return (integer(b, values),)


def tuple_of(b: Builder, values: Any, count: int) -> tuple[int, ...]:
    """Return one integer for each of some axes; a single one serves all."""
    result = integers(b, values)
    if len(result) == 1:
        return result * count
    if len(result) != count:
        raise NotLoweredError(f"expected {count} integers, found {result}")
    return result


def axis_of(b: Builder, axis: Any, ndim: int) -> int:
    """Return an axis counted from the front."""
    axis = integer(b, axis)
    if not -max(ndim, 1) <= axis < max(ndim, 1):
        raise NotLoweredError(f"expected an axis of {ndim}, found {axis}")
    return axis % max(ndim, 1)


def axes_of(b: Builder, axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from the front, sorted; None and () are all."""
    if axes is None or axes == ():
        return tuple(range(ndim))
    found = {axis_of(b, axis, ndim) for axis in integers(b, axes)}
    return tuple(sorted(found)) if ndim else ()


def with_axis(b: Builder, x: Term, axis: Any) -> tuple[Term, int]:
    """Return a value with at least one axis, and the axis counted from the front."""
    x = x if x.ndim else reshape(b, x, (1,))
    return x, axis_of(b, axis, x.ndim)


def as_kind(b: Builder, x: Term, kind: Kind) -> Term:
    """Return the term with that kind of number."""
    return x if x.kind is kind else b("cast", x, kind=kind.value)


def as_float(b: Builder, x: Term) -> Term:
    """Return the term as floats, unless it is complex."""
    return x if x.kind is Kind.COMPLEX else as_kind(b, x, Kind.FLOAT)


def reshape(b: Builder, x: Term, shape: Sequence[Any]) -> Term:
    """Reshape; one size may be -1."""
    sizes = [integer(b, size) for size in shape]
    if -1 in sizes:
        rest = -math.prod(sizes)
        if rest <= 0 or x.spec.count % rest:
            raise NotLoweredError(f"shape {sizes} does not fit {x.shape}")
        sizes[sizes.index(-1)] = x.spec.count // rest
    return x if tuple(sizes) == x.shape else b("reshape", x, shape=tuple(sizes))


def with_bias(b: Builder, x: Term, bias: Term | None) -> Term:
    """Add a number to each channel; axes (batch, channel, ...)."""
    return x if bias is None else x + reshape(b, bias, (-1, *[1] * (x.ndim - 2)))


def transpose(b: Builder, x: Term, order: Sequence[int]) -> Term:
    """Put axes into another order."""
    order = tuple(axis_of(b, axis, x.ndim) for axis in order)
    return x if order == tuple(range(x.ndim)) else b("transpose", x, order=order)


def swap(b: Builder, x: Term, axis: Any, other: Any) -> Term:
    """Exchange two axes."""
    order = list(range(x.ndim))
    if not order:
        return x
    i, j = axis_of(b, axis, x.ndim), axis_of(b, other, x.ndim)
    order[i], order[j] = order[j], order[i]
    return transpose(b, x, order)


def move_axis(b: Builder, x: Term, sources: Sequence[int], targets: Sequence[int]) -> Term:
    """Move axes to new places; the others keep their order."""
    sources = [axis_of(b, axis, x.ndim) for axis in sources]
    targets = [axis_of(b, axis, x.ndim) for axis in targets]
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source)
    return transpose(b, x, order)


def unsqueeze(b: Builder, x: Term, *axes: int) -> Term:
    """Insert axes of size one, one after the other; each counts in the result so far."""
    shape = list(x.shape)
    for axis in axes:
        place = axis if axis >= 0 else axis + len(shape) + 1
        if not 0 <= place <= len(shape):
            raise NotLoweredError(f"no place for an axis at {axis}")
        shape.insert(place, 1)
    return reshape(b, x, shape)


def squeeze(b: Builder, x: Term, axes: tuple[int, ...] | None = None) -> Term:
    """Leave axes of size one away; those named that are larger stay."""
    gone = range(x.ndim) if axes is None else axes
    shape = [size for axis, size in enumerate(x.shape) if size != 1 or axis not in gone]
    return reshape(b, x, shape)


def flatten(b: Builder, x: Term, start: int = 0, stop: int = -1) -> Term:
    """Make one axis of neighbouring ones, both ends included."""
    if not x.ndim:
        return reshape(b, x, (1,))
    start, stop = axis_of(b, start, x.ndim), axis_of(b, stop, x.ndim)
    size = math.prod(x.shape[start : stop + 1])
    return reshape(b, x, (*x.shape[:start], size, *x.shape[stop + 1 :]))


def by_strides(
    b: Builder,
    x: Term,
    held: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    start: int,
) -> Term:
    """Read elements at regular distances in memory, as ``as_strided`` does.

    Args:
        b: Builds the primitives.
        x: What lies in memory without gaps, its axes in any order.
        held: Its strides, in elements; empty if its axes are in order.
        sizes: Of the result.
        strides: Of the result, in elements, from 0.
        start: The place of the result's first element, from that of the first one of ``x``.

    Raises:
        NotLoweredError: There are gaps, or something is read that ``x`` does not hold.
    """
    order = sorted(range(x.ndim), key=lambda axis: -held[axis]) if held else list(range(x.ndim))
    distance = 1
    for axis in reversed(order):
        if held and x.shape[axis] > 1 and held[axis] != distance:
            raise NotLoweredError("memory with gaps")
        distance *= x.shape[axis]
    ways = [axis for axis, size in enumerate(sizes) if size > 1 and strides[axis]]
    ways.sort(key=lambda axis: -strides[axis])
    reach = 1 + sum((sizes[axis] - 1) * strides[axis] for axis in ways)
    if start < 0 or start + reach > distance or min(strides, default=0) < 0:
        raise NotLoweredError("elements that the operand does not hold")
    x = reshape(b, transpose(b, x, order), (-1,))
    x = narrow(b, x, 0, start, start + reach)
    for axis in ways:
        reach -= (sizes[axis] - 1) * strides[axis]
        x = b("windows", x, axis=-1, size=reach, step=strides[axis], dilation=1)
    x = transpose(b, x, [*sorted(range(len(ways)), key=ways.__getitem__), len(ways)])
    x = reshape(b, x, [size if axis in ways else 1 for axis, size in enumerate(sizes)])
    return expand(b, x, sizes)


def expand(b: Builder, x: Term, shape: Sequence[Any]) -> Term:
    """Broadcast; -1 keeps a size."""
    sizes = [integer(b, size) for size in shape]
    offset = len(sizes) - x.ndim
    for axis, size in enumerate(sizes):
        if size == -1 and axis >= offset:
            sizes[axis] = x.shape[axis - offset]
    return x if tuple(sizes) == x.shape else b("expand", x, shape=tuple(sizes))


def narrow(b: Builder, x: Term, axis: int, start: int, stop: int, step: int = 1) -> Term:
    """Slice one axis as Python does: bounds may be negative or beyond the end."""
    size = x.shape[axis]
    start, stop, step = slice(start, stop, step).indices(size)
    if (start, step) == (0, 1) and stop >= size:
        return x
    stop = max(start, stop)
    return b("slice", x, axis=axis, start=start, stop=stop, step=step)


def split(b: Builder, x: Term, axis: int, sizes: Sequence[int]) -> list[Term]:
    """Cut into parts of those sizes."""
    result, start = [], 0
    if sum(sizes) != x.shape[axis]:
        raise NotLoweredError(f"parts {sizes} do not add up to {x.shape[axis]}")
    for size in sizes:
        result.append(narrow(b, x, axis, start, start + size))
        start += size
    return result


def unbind(b: Builder, x: Term, axis: int) -> list[Term]:
    """Return the parts along an axis, without it."""
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    return [
        reshape(b, narrow(b, x, axis, place, place + 1), shape) for place in range(x.shape[axis])
    ]


def stack(b: Builder, parts: Sequence[Term], axis: int) -> Term:
    """Join along a new axis."""
    axis = axis_of(b, axis, parts[0].ndim + 1)
    return b("concat", *(unsqueeze(b, part, axis) for part in parts), axis=axis)


def tile(b: Builder, x: Term, counts: Sequence[int]) -> Term:
    """Repeat the whole value along each axis."""
    ndim = max(len(counts), x.ndim)
    counts = (*[1] * (ndim - len(counts)), *counts)
    shape = (*[1] * (ndim - x.ndim), *x.shape)
    x = reshape(b, x, shape)
    wide = [size for pair in zip(counts, shape, strict=True) for size in pair]
    x = reshape(b, x, [size for pair in zip([1] * ndim, shape, strict=True) for size in pair])
    result = [count * size for count, size in zip(counts, shape, strict=True)]
    return reshape(b, expand(b, x, wide), result)


def repeat_each(b: Builder, x: Term, count: int, axis: int) -> Term:
    """Repeat each element (or row) along an axis, neighbours being equal."""
    shape = list(x.shape)
    x = unsqueeze(b, x, axis + 1)
    wide = [*shape[: axis + 1], count, *shape[axis + 1 :]]
    shape[axis] *= count
    return reshape(b, expand(b, x, wide), shape)


def positions(b: Builder, size: int, ndim: int = 1, axis: int = 0) -> Term:
    """Return 0, 1, 2 … along one of some axes."""
    return reshape(b, b("iota", size=size), [size if i == axis else 1 for i in range(ndim)])


def filled(b: Builder, shape: Sequence[Any], value: Any, kind: Kind) -> Term:
    """Return a value of equal elements; the number may be a tensor."""
    sizes = tuple(integer(b, size) for size in shape)
    if isinstance(value, Term):
        return expand(b, as_kind(b, reshape(b, value, ()), kind), sizes)
    value = {"bool": bool, "int": int, "float": float, "complex": complex}[kind](value)
    return b("full", shape=sizes, value=value, kind=kind.value)


def ranged(b: Builder, start: Any, stop: Any, step: Any, kind: Kind | None) -> Term:
    """Return start, start + step … below stop."""
    start, stop, step = number(b, start), number(b, stop), number(b, step)
    whole = all(isinstance(each, int) for each in (start, stop, step))
    count = max(0, math.ceil((stop - start) / step))
    result = b("iota", size=count) * step + start
    return as_kind(b, result, kind or (Kind.INT if whole else Kind.FLOAT))


def mean(b: Builder, x: Term, axes: tuple[int, ...], *, keepdims: bool) -> Term:
    """Return the mean along axes."""
    count = math.prod(x.shape[axis] for axis in axes) if x.ndim else 1
    total = b("sum", as_float(b, x), axes=axes, keepdims=keepdims)
    return b("div", total, float(count)) if count != 1 else total


def moments(b: Builder, x: Term, axes: tuple[int, ...]) -> tuple[Term, Term, Term]:
    """Return the mean, what deviates from it, and the biased variance, with their axes."""
    centre = mean(b, x, axes, keepdims=True)
    rest = x - centre
    squares = rest * rest if x.kind is not Kind.COMPLEX else _magnitude(b, rest)
    return centre, rest, mean(b, squares, axes, keepdims=True)


def variance(b: Builder, x: Term, axes: tuple[int, ...], correction: float) -> tuple[Term, Term]:
    """Return the variance and the mean, with their axes.

    Args:
        b: The builder.
        x: Real or complex numbers.
        axes: Those to go over.
        correction: What the divisor is less than the count.
    """
    count = math.prod(x.shape[axis] for axis in axes)
    centre, _, result = moments(b, x, axes)
    if correction:
        rest = max(count - correction, 0)
        result = result * (count / rest if rest else math.nan if count <= 1 else math.inf)
    return result, centre


def _magnitude(b: Builder, x: Term) -> Term:
    real, imag = b("real", x), b("imag", x)
    return real * real + imag * imag


def _holds_tensors(data: Any) -> bool:
    inside = data if isinstance(data, tuple | list) else ()
    return any(isinstance(one, Term) or _holds_tensors(one) for one in inside)


def written_down(b: Builder, data: Any, kind: Kind) -> Term:
    """Return numbers of nested sequences; tensors may stand among them."""
    if isinstance(data, Term):
        return as_kind(b, data, kind)
    if _holds_tensors(data):
        return stack(b, [written_down(b, one, kind) for one in data], 0)
    return as_kind(b, b.literal(np.asarray(data)), kind)


def static_array(b: Builder, value: Any) -> Any:
    """Return the elements of a tensor, or of nested sequences of numbers."""
    return b.static(value) if isinstance(value, Term) else np.asarray(value)
