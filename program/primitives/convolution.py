"""Convolution of one to three dimensions and its transpose: windows, copied for BLAS.

Axes: values (batch, channel, *spatial); weights (out channel, channel of the group, *kernel),
for the transpose (channel, out channel of the group, *kernel).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .spec import Array, Kind, Primitive, Spec, check, promote

LARGEST_DIMENSIONS = 3


def _check_operands(x: Spec, weight: Spec, groups: Any) -> None:
    dimensions = x.ndim - 2
    check(1 <= dimensions <= LARGEST_DIMENSIONS, "one to three dimensions", x.shape)
    check(weight.ndim == x.ndim, "weights of as many axes", x.shape, weight.shape)
    check(type(groups) is int and groups >= 1, "groups from 1", groups)
    check(0 not in weight.shape, "weights with elements", weight.shape)
    check(promote(x, weight) is not Kind.BOOL, "numbers", x.kind)


def _check_sizes(name: str, sizes: Any, count: int, least: int) -> None:
    check(isinstance(sizes, tuple) and len(sizes) == count, f"{count} sizes as {name}", sizes)
    check(all(type(size) is int and size >= least for size in sizes), f"sizes as {name}", sizes)


def _check_padding(padding: Any, count: int) -> None:
    check(isinstance(padding, tuple) and len(padding) == count, "padding of each axis", padding)
    for widths in padding:
        _check_sizes("padding", widths, 2, -(2**40))


def _convolution_spec(
    x: Spec, weight: Spec, *, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Spec:
    _check_operands(x, weight, groups)
    dimensions = x.ndim - 2
    _check_sizes("stride", stride, dimensions, 1)
    _check_sizes("dilation", dilation, dimensions, 1)
    _check_padding(padding, dimensions)
    check(x.shape[1] == weight.shape[1] * groups, "channels that fit", x.shape, weight.shape)
    check(weight.shape[0] % groups == 0, "groups that divide", weight.shape, groups)
    sizes = []
    for axis in range(dimensions):
        room = x.shape[axis + 2] + sum(padding[axis])
        reach = dilation[axis] * (weight.shape[axis + 2] - 1) + 1
        check(room >= reach, "a kernel inside the padded value", x.shape, weight.shape)
        sizes.append((room - reach) // stride[axis] + 1)
    return Spec(promote(x, weight), (x.shape[0], weight.shape[0], *sizes))


def _transposed_spec(
    x: Spec, weight: Spec, *, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Spec:
    """The padding is what is cut off on both sides; negative widths add zeros."""
    _check_operands(x, weight, groups)
    dimensions = x.ndim - 2
    _check_sizes("stride", stride, dimensions, 1)
    _check_sizes("dilation", dilation, dimensions, 1)
    _check_padding(padding, dimensions)
    check(x.shape[1] == weight.shape[0], "channels that fit", x.shape, weight.shape)
    check(x.shape[1] % groups == 0, "groups that divide", x.shape, groups)
    sizes = []
    for axis in range(dimensions):
        reach = dilation[axis] * (weight.shape[axis + 2] - 1) + 1
        full = (x.shape[axis + 2] - 1) * stride[axis] + reach if x.shape[axis + 2] else 0
        check(full > sum(padding[axis]), "padding within the result", full, padding)
        sizes.append(full - sum(padding[axis]))
    return Spec(promote(x, weight), (x.shape[0], weight.shape[1] * groups, *sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """How a kernel moves."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    def places(self, size: tuple[int, ...]) -> Any:
        """Go through the kernel's places, each with the slices of its elements."""
        for place in np.ndindex(self.kernel):
            yield (
                place,
                tuple(
                    slice(at * spread, at * spread + (count - 1) * step + 1, step)
                    for at, spread, step, count in zip(
                        place, self.dilation, self.stride, size, strict=True
                    )
                ),
            )


def _padded(x: Array, padding: tuple[tuple[int, int], ...]) -> Array:
    """Add zeros around the spatial axes, or cut where widths are negative."""
    kept = tuple(
        slice(max(-before, 0), size - max(-after, 0))
        for size, (before, after) in zip(x.shape[2:], padding, strict=True)
    )
    x = x[(slice(None), slice(None), *kept)]
    widths = [(0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in padding)]
    return np.pad(x, widths) if any(map(sum, widths)) else x


def _numbers(x: Array, weight: Array) -> tuple[Array, Array]:
    dtype = np.result_type(x, weight)
    dtype = dtype if dtype.kind in "fc" else np.dtype(np.int64)
    return x.astype(dtype, copy=False), weight.astype(dtype, copy=False)


def _convolution(x: Array, weight: Array, **attributes: Any) -> Array:
    x, weight = _numbers(_padded(x, attributes["padding"]), weight)
    groups = attributes["groups"]
    window = _Window(
        kernel=weight.shape[2:], stride=attributes["stride"], dilation=attributes["dilation"]
    )
    size = tuple(
        (room - spread * (kernel - 1) - 1) // step + 1
        for room, kernel, step, spread in zip(
            x.shape[2:], window.kernel, window.stride, window.dilation, strict=True
        )
    )
    if weight.shape[1] == 1:
        return _depthwise(x, weight, window, size)
    result = np.empty((x.shape[0], groups, weight.shape[0] // groups, math.prod(size)), x.dtype)
    matrix = weight.reshape(groups, weight.shape[0] // groups, -1)
    for row, sample in enumerate(x):
        np.matmul(matrix, _columns(sample, groups, window, size), out=result[row])
    return result.reshape(x.shape[0], weight.shape[0], *size)


def _columns(sample: Array, groups: int, window: _Window, size: tuple[int, ...]) -> Array:
    """Return the windows of one sample as a matrix for each group."""
    channels = sample.shape[0]
    columns = np.empty((channels, *window.kernel, *size), sample.dtype)
    for place, where in window.places(size):
        columns[(slice(None), *place)] = sample[(slice(None), *where)]
    return columns.reshape(groups, channels // groups * math.prod(window.kernel), math.prod(size))


def _depthwise(x: Array, weight: Array, window: _Window, size: tuple[int, ...]) -> Array:
    """Convolve channels one by one: additions of shifted values, no products of matrices."""
    factor = weight.shape[0] // x.shape[1]
    spread = weight.reshape(x.shape[1], factor, *window.kernel)
    result = np.zeros((x.shape[0], x.shape[1], factor, *size), x.dtype)
    ones = (1,) * len(size)
    for place, where in window.places(size):
        taps = spread[(slice(None), slice(None), *place)].reshape(x.shape[1], factor, *ones)
        result += x[(slice(None), slice(None), None, *where)] * taps
    return result.reshape(x.shape[0], weight.shape[0], *size)


def _transposed(x: Array, weight: Array, **attributes: Any) -> Array:
    x, weight = _numbers(x, weight)
    groups, padding = attributes["groups"], attributes["padding"]
    window = _Window(
        kernel=weight.shape[2:], stride=attributes["stride"], dilation=attributes["dilation"]
    )
    size = x.shape[2:]
    whole = tuple(
        (count - 1) * step + spread * (kernel - 1) + 1
        for count, step, spread, kernel in zip(
            size, window.stride, window.dilation, window.kernel, strict=True
        )
    )
    out = weight.shape[1]
    matrix = weight.reshape(groups, x.shape[1] // groups, -1).swapaxes(1, 2)
    result = np.zeros((x.shape[0], groups * out, *whole), x.dtype)
    for row, sample in enumerate(x):
        product = matrix @ sample.reshape(groups, x.shape[1] // groups, -1)
        product = product.reshape(groups, out, *window.kernel, *size)
        target = result[row].reshape(groups, out, *whole)
        for place, where in window.places(size):
            target[(..., *where)] += product[(slice(None), slice(None), *place)]
    return _padded(result, tuple((-before, -after) for before, after in padding))


def _work(infer: Any) -> Any:
    def work(x: Spec, weight: Spec, **attributes: Any) -> int:
        result = infer(x, weight, **attributes)
        rows = max(result.count // max(result.shape[1], 1), x.count // max(x.shape[1], 1))
        return int(rows * weight.count)

    return work


def _column_bytes(x: Spec, weight: Spec, **attributes: Any) -> int:
    """Return what one sample needs, and the padded value."""
    result = _convolution_spec(x, weight, **attributes)
    places = result.count // max(result.shape[0] * result.shape[1], 1)
    padded = (
        x.shape[0]
        * x.shape[1]
        * math.prod(
            size + sum(map(abs, widths))
            for size, widths in zip(x.shape[2:], attributes["padding"], strict=True)
        )
    )
    return 16 * (places * x.shape[1] * math.prod(weight.shape[2:]) + padded + result.count)


def _product_bytes(x: Spec, weight: Spec, **attributes: Any) -> int:
    uncut = {**attributes, "padding": ((0, 0),) * (x.ndim - 2)}
    whole = _transposed_spec(x, weight, **uncut)
    places = x.count // max(x.shape[0] * x.shape[1], 1)
    product = places * whole.shape[1] * math.prod(weight.shape[2:])
    return 16 * (product + 2 * whole.count + x.count + weight.count)


PRIMITIVES: tuple[Primitive, ...] = (
    Primitive(
        name="convolution",
        arity=(2, 2),
        infer=_convolution_spec,
        run=_convolution,
        work=_work(_convolution_spec),
        workspace=_column_bytes,
    ),
    Primitive(
        name="convolution_transposed",
        arity=(2, 2),
        infer=_transposed_spec,
        run=_transposed,
        work=_work(_transposed_spec),
        workspace=_product_bytes,
    ),
)
