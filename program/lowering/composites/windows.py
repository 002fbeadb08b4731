"""Pooling, unfolding and folding: windows along the spatial axes, which are the last ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.primitives import Kind

from .shaping import as_float, expand, filled, mean, narrow, positions, reshape, transpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """How windows move over the last axes."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    ceil: bool = False
    """Whether a last window may stick out, if it begins inside the value or its left padding."""

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return how many windows fit along each axis."""
        return tuple(self._count(axis, size) for axis, size in enumerate(sizes))

    def _count(self, axis: int, size: int) -> int:
        before, after = self.padding[axis]
        step = self.stride[axis]
        room = size + before + after - self.dilation[axis] * (self.kernel[axis] - 1) - 1
        if room < 0 and not self.ceil:
            raise NotLoweredError("a window larger than the padded value")
        count = (room + (step - 1 if self.ceil else 0)) // step + 1
        if self.ceil and (count - 1) * step >= size + before:
            count -= 1
        if count < 1:
            raise NotLoweredError("no window fits")
        return count

    def reach(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return what has to be added behind each axis for the last window (may be negative)."""
        result = []
        for axis, count in enumerate(self.counts(sizes)):
            last = (count - 1) * self.stride[axis] + self.dilation[axis] * (self.kernel[axis] - 1)
            result.append(last + 1 - sizes[axis] - self.padding[axis][0])
        return tuple(result)


def _spatial(x: Term, pool: Pool) -> int:
    first = x.ndim - len(pool.kernel)
    if first < 0:
        raise NotLoweredError("fewer axes than the kernel has")
    return first


def _padded(b: Builder, x: Term, pool: Pool, value: float | int) -> Term:
    first = _spatial(x, pool)
    behind = pool.reach(x.shape[first:])
    widths = [(0, 0)] * first
    widths += [(before, after) for (before, _), after in zip(pool.padding, behind, strict=True)]
    if not any(map(any, widths)):
        return x
    return b("pad", x, widths=tuple(widths), mode="constant", value=value)


def _reduced(b: Builder, x: Term, pool: Pool, name: str) -> Term:
    """Reduce windows one axis after the other."""
    first = _spatial(x, pool)
    for axis, size in enumerate(pool.kernel):
        x = b("windows", x, axis=first + axis, size=size, step=pool.stride[axis],
              dilation=pool.dilation[axis])  # fmt: skip
        x = b(name, x, axes=(x.ndim - 1,), keepdims=False)
    return x


def _lowest(x: Term) -> float | int:
    return -(2**63) if x.kind is Kind.INT else -math.inf


def maximum_pool(b: Builder, x: Term, pool: Pool) -> Term:
    """Return the largest element of each window; padding never counts."""
    return _reduced(b, _padded(b, x, pool, _lowest(x)), pool, "amax")


def maximum_pool_with_indices(b: Builder, x: Term, pool: Pool) -> tuple[Term, Term]:
    """Return the largest elements and where they stand in the flattened spatial axes."""
    first, count = _spatial(x, pool), len(pool.kernel)
    shape = x.shape[first:]
    wide = _padded(b, x, pool, _lowest(x))
    for axis, size in enumerate(pool.kernel):
        wide = b("windows", wide, axis=first + axis, size=size, step=pool.stride[axis],
                 dilation=pool.dilation[axis])  # fmt: skip
    flat = reshape(b, wide, (*wide.shape[:-count], math.prod(pool.kernel)))
    values = b("amax", flat, axes=(flat.ndim - 1,), keepdims=False)
    place = b("argmax", flat, axis=flat.ndim - 1)
    total: Term | None = None
    for axis in range(count):
        inner = math.prod(pool.kernel[axis + 1 :])
        within = b("modulo", b("floor_divide", place, inner), pool.kernel[axis])
        start = positions(b, values.shape[first + axis], values.ndim, first + axis)
        at = start * pool.stride[axis] - pool.padding[axis][0] + within * pool.dilation[axis]
        total = at if total is None else total * shape[axis] + at
    assert total is not None
    return values, expand(b, total, values.shape)


def average_pool(
    b: Builder, x: Term, pool: Pool, *, count_padding: bool, divisor: int | None = None
) -> Term:
    """Return the mean of each window.

    Args:
        b: The builder.
        x: Any leading axes, then the spatial ones.
        pool: The windows.
        count_padding: Whether padding counts as elements; what sticks out beyond never does.
        divisor: What sums are divided by instead of the number of elements.
    """
    total = _reduced(b, _padded(b, as_float(b, x), pool, 0.0), pool, "sum")
    if divisor is not None:
        return b("div", total, float(divisor))
    sizes = x.shape[_spatial(x, pool) :]
    sticks_out = any(
        behind > after for behind, (_, after) in zip(pool.reach(sizes), pool.padding, strict=True)
    )
    padded = any(map(any, pool.padding))
    if not sticks_out and (count_padding or not padded):
        return b("div", total, float(math.prod(pool.kernel)))
    return b("div", total, _element_counts(b, pool, sizes, total.ndim, count_padding=count_padding))


def _element_counts(
    b: Builder, pool: Pool, sizes: Sequence[int], ndim: int, *, count_padding: bool
) -> Term:
    result: Term | None = None
    first = ndim - len(sizes)
    for axis, (size, behind) in enumerate(zip(sizes, pool.reach(sizes), strict=True)):
        before, after = pool.padding[axis]
        ones = filled(b, (size + before + after if count_padding else size,), 1.0, Kind.FLOAT)
        missing = (0, behind - after) if count_padding else (before, behind)
        ones = b("pad", ones, widths=(missing,), mode="constant", value=0.0)
        ones = b("windows", ones, axis=0, size=pool.kernel[axis], step=pool.stride[axis],
                 dilation=pool.dilation[axis])  # fmt: skip
        count = b("sum", ones, axes=(1,), keepdims=False)
        shape = [1] * ndim
        shape[first + axis] = count.shape[0]
        count = reshape(b, count, shape)
        result = count if result is None else result * count
    assert result is not None
    return result


def power_pool(b: Builder, x: Term, pool: Pool, power: float) -> Term:
    """Return the power-average of each window."""
    total = _reduced(b, b("pow", x, float(power)), pool, "sum")
    return b("pow", b("maximum", total, 0.0), 1.0 / power)


def _bins(b: Builder, x: Term, axis: int, count: int) -> tuple[Term, Term, list[int]]:
    """Return the elements of each adaptive bin in a new axis, which of them count, and sizes."""
    size = x.shape[axis]
    starts = [place * size // count for place in range(count)]
    stops = [-(-(place + 1) * size // count) for place in range(count)]
    longest = max(stop - start for start, stop in zip(starts, stops, strict=True))
    start, stop = b.literal(np.array(starts)), b.literal(np.array(stops))
    places = reshape(b, start, (-1, 1)) + positions(b, longest, 2, 1)
    inside = places < reshape(b, stop, (-1, 1))
    taken = b("take", x, b("minimum", places, size - 1), axis=axis)
    mask = reshape(b, inside, (count, longest, *[1] * (x.ndim - axis - 1)))
    sizes = [stop - start for start, stop in zip(starts, stops, strict=True)]
    return taken, mask, sizes


def adaptive_average(b: Builder, x: Term, sizes: Sequence[int | None]) -> Term:
    """Return the means of as many bins along each of the last axes; None keeps an axis."""
    x = as_float(b, x)
    first = x.ndim - len(sizes)
    if all(count == 1 for count in sizes):
        return mean(b, x, tuple(range(first, x.ndim)), keepdims=True)
    for axis, count in enumerate(sizes, first):
        if count is None or count == x.shape[axis]:
            continue
        if x.shape[axis] % count == 0:
            shape = (*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :])
            x = mean(b, reshape(b, x, shape), (axis + 1,), keepdims=False)
            continue
        taken, mask, lengths = _bins(b, x, axis, count)
        total = b("sum", b("where", mask, taken, 0.0), axes=(axis + 1,), keepdims=False)
        divisor = b.literal(np.array(lengths, float))
        x = total / reshape(b, divisor, (count, *[1] * (x.ndim - axis - 1)))
    return x


def adaptive_maximum(b: Builder, x: Term, sizes: Sequence[int | None]) -> Term:
    """Return the largest elements of as many bins along each of the last axes."""
    first = x.ndim - len(sizes)
    for axis, count in enumerate(sizes, first):
        if count is None or count == x.shape[axis]:
            continue
        taken, mask, _ = _bins(b, x, axis, count)
        x = b("amax", b("where", mask, taken, _lowest(x)), axes=(axis + 1,), keepdims=False)
    return x


def adaptive_maximum_with_indices(
    b: Builder, x: Term, sizes: Sequence[int | None]
) -> tuple[Term, Term]:
    """Return the largest elements of bins and where they stand in the flattened spatial axes."""
    first, count = x.ndim - len(sizes), len(sizes)
    shape = x.shape[first:]
    counts = [size if wanted is None else wanted for size, wanted in zip(shape, sizes, strict=True)]
    wide, inside = x, b.literal(np.ones((1,) * (x.ndim + count), bool))
    for axis, bins in enumerate(counts):
        wide, mask, _ = _bins(b, wide, first + 2 * axis, bins)
        rest = 2 * (count - axis - 1)
        inside = b("and", inside, reshape(b, mask, (*mask.shape[:2], *[1] * rest)))
    order = (*range(first), *range(first, wide.ndim, 2), *range(first + 1, wide.ndim, 2))
    wide = transpose(b, b("where", inside, wide, _lowest(x)), order)
    longest = wide.shape[first + count :]
    flat = reshape(b, wide, (*wide.shape[: first + count], -1))
    values = b("amax", flat, axes=(flat.ndim - 1,), keepdims=False)
    place = b("argmax", flat, axis=flat.ndim - 1)
    total: Term | None = None
    for axis, (size, bins) in enumerate(zip(shape, counts, strict=True)):
        within = b("floor_divide", place, math.prod(longest[axis + 1 :]))
        start = b("floor_divide", positions(b, bins, values.ndim, first + axis) * size, bins)
        at = start + b("modulo", within, longest[axis])
        total = at if total is None else total * size + at
    assert total is not None
    return values, total


def unpool(b: Builder, x: Term, indices: Term, shape: Sequence[int], first: int) -> Term:
    """Return zeros of a shape with elements at places in its flattened axes from ``first`` on."""
    outer = (*x.shape[:first], -1)
    flat, places = (reshape(b, each, outer) for each in (x, indices))
    whole = filled(b, (*shape[:first], math.prod(shape[first:])), 0.0, Kind.FLOAT)
    result = b("scatter", whole, places, flat, axis=first, reduce="set")
    return reshape(b, result, shape)


def unfold(b: Builder, x: Term, pool: Pool) -> Term:
    """Return windows as columns: (batch, channel · kernel, place)."""
    wide = _padded(b, x, pool, 0.0)
    count = len(pool.kernel)
    for axis, size in enumerate(pool.kernel):
        wide = b("windows", wide, axis=2 + axis, size=size, step=pool.stride[axis],
                 dilation=pool.dilation[axis])  # fmt: skip
    order = (0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count))
    channels = x.shape[1] * math.prod(pool.kernel)
    return reshape(b, transpose(b, wide, order), (x.shape[0], channels, -1))


def fold(b: Builder, x: Term, sizes: Sequence[int], pool: Pool) -> Term:
    """Add columns up where windows overlap: the reverse of ``unfold``."""
    places = pool.counts(sizes)
    count = len(pool.kernel)
    batch, channels = x.shape[0], x.shape[1] // math.prod(pool.kernel)
    x = reshape(b, x, (batch, channels, *pool.kernel, *places))
    order = (0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count))
    x = transpose(b, x, order)
    for axis in reversed(range(count)):
        whole = sizes[axis] + sum(pool.padding[axis])
        x = b("overlap", x, axis=2 + axis, size=whole, step=pool.stride[axis],
              dilation=pool.dilation[axis])  # fmt: skip
    for axis in range(count):
        before = pool.padding[axis][0]
        x = narrow(b, x, 2 + axis, before, before + sizes[axis])
    return x
