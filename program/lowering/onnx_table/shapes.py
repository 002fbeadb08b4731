"""Shapes, indexing, casts and constants of ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.indexing import gather
from padiff.program.lowering.rules import Arguments, Result, Row, row
from padiff.program.primitives import Kind


def _reshape(b: Builder, a: Arguments) -> Term:
    sizes = s.integers(b, a.shape)
    if not a.allowzero:
        sizes = tuple(size or a.x.shape[axis] for axis, size in enumerate(sizes))
    return s.reshape(b, a.x, sizes)


def _transpose(b: Builder, a: Arguments) -> Term:
    return s.transpose(b, a.x, range(a.x.ndim)[::-1] if a.perm is None else a.perm)


def _flatten(b: Builder, a: Arguments) -> Term:
    axis = a.axis % a.x.ndim if a.axis < 0 else a.axis
    return s.reshape(b, a.x, (math.prod(a.x.shape[:axis]), math.prod(a.x.shape[axis:])))


def _squeeze(b: Builder, a: Arguments) -> Term:
    axes = None if a.axes is None else s.axes_of(b, a.axes, a.x.ndim)
    return s.squeeze(b, a.x, axes)


def _unsqueeze(b: Builder, a: Arguments) -> Term:
    axes = s.integers(b, a.axes)
    ndim = a.x.ndim + len(axes)
    return s.unsqueeze(b, a.x, *sorted(axis % ndim for axis in axes))


def _expand(b: Builder, a: Arguments) -> Term:
    shape = np.broadcast_shapes(a.x.shape, s.integers(b, a.shape))
    return s.expand(b, a.x, shape)


def _split(b: Builder, a: Arguments) -> list[Term]:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    if a.split is not None:
        return s.split(b, a.x, axis, s.integers(b, a.split))
    count = a.num_outputs or len(b.expected)
    size = -(-a.x.shape[axis] // count)
    sizes = [size] * (count - 1) + [a.x.shape[axis] - size * (count - 1)]
    return s.split(b, a.x, axis, sizes)


def _slice(b: Builder, a: Arguments) -> Term:
    x = a.x
    starts, ends = s.integers(b, a.starts), s.integers(b, a.ends)
    axes = range(len(starts)) if a.axes is None else s.integers(b, a.axes)
    steps = (1,) * len(starts) if a.steps is None else s.integers(b, a.steps)
    for start, stop, axis_, step in zip(starts, ends, axes, steps, strict=True):
        axis = s.axis_of(b, axis_, x.ndim)
        if step < 0:
            places = np.arange(x.shape[axis])[start:stop:step]
            x = b("take", x, b.literal(places), axis=axis)
        else:
            x = s.narrow(b, x, axis, start, stop, step)
    return x


def _pad(b: Builder, a: Arguments) -> Term:
    pads = s.integers(b, a.pads)
    axes = tuple(range(a.x.ndim)) if a.axes is None else s.integers(b, a.axes)
    widths = [(0, 0)] * a.x.ndim
    for place, axis in enumerate(axes):
        widths[axis % a.x.ndim] = (pads[place], pads[place + len(axes)])
    value: Any = 0 if a.value is None else s.number(b, a.value)
    return b("pad", a.x, widths=tuple(widths), mode=a.mode, value=value)


def _trilu(b: Builder, a: Arguments) -> Term:
    offset = 0 if a.k is None else s.integer(b, a.k)
    return b("triu" if a.upper else "tril", a.x, offset=offset)


def _depth_to_space(b: Builder, a: Arguments) -> Term:
    n, c, h, w = a.x.shape
    size = a.blocksize
    if a.mode == "CRD":
        x = s.reshape(b, a.x, (n, c // size**2, size, size, h, w))
        x = s.transpose(b, x, (0, 1, 4, 2, 5, 3))
    else:
        x = s.reshape(b, a.x, (n, size, size, c // size**2, h, w))
        x = s.transpose(b, x, (0, 3, 4, 1, 5, 2))
    return s.reshape(b, x, (n, c // size**2, h * size, w * size))


def _space_to_depth(b: Builder, a: Arguments) -> Term:
    if a.mode != "DCR":
        raise NotLoweredError(f"order {a.mode!r}")
    n, c, h, w = a.x.shape
    size = a.blocksize
    x = s.reshape(b, a.x, (n, c, h // size, size, w // size, size))
    return s.reshape(b, s.transpose(b, x, (0, 3, 5, 1, 2, 4)), b.expected[0].shape)


def _shape(b: Builder, a: Arguments) -> Term:
    return b.literal(np.array(a.x.shape[a.start : a.end], np.int64))


def _of_shape(b: Builder, a: Arguments) -> Term:
    value = 0.0 if a.value is None else a.value
    value = value[0] if isinstance(value, tuple) else value
    return s.filled(b, s.integers(b, a.shape), value, b.expected[0].kind)


def _cast(b: Builder, a: Arguments) -> Term:
    return s.as_kind(b, a.x, b.expected[0].kind)


def _eye(b: Builder, a: Arguments) -> Term:
    rows, columns = a.x.shape
    same = b("equal", s.positions(b, rows, 2, 0) + a.k, s.positions(b, columns, 2, 1))
    return s.as_kind(b, same, b.expected[0].kind)


def _gather_nd(b: Builder, a: Arguments) -> Term:
    if a.batch_dims:
        raise NotLoweredError("batches of coordinates")
    last = a.indices.ndim - 1
    return b("pick", a.x, *s.unbind(b, a.indices, last))


def _scatter_nd(b: Builder, a: Arguments) -> Term:
    reduce = {"none": "set", "add": "add", "mul": "mul", "max": "amax", "min": "amin"}
    parts = s.unbind(b, a.indices, a.indices.ndim - 1)
    return b("put", a.x, a.updates, *parts, reduce=reduce[a.reduction])


def _scatter(b: Builder, a: Arguments) -> Term:
    reduce = {"none": "set", "add": "add", "mul": "mul", "max": "amax", "min": "amin"}
    axis = s.axis_of(b, a.axis, a.x.ndim)
    return b("scatter", a.x, a.indices, a.updates, axis=axis, reduce=reduce[a.reduction])


def _one_hot(b: Builder, a: Arguments) -> Term:
    depth = s.integer(b, a.depth)
    index = s.as_kind(b, a.indices, Kind.INT)
    axis = s.axis_of(b, a.axis, index.ndim + 1)
    index = b("where", index < 0, index + depth, index)
    places = s.positions(b, depth, index.ndim + 1, axis)
    off, on = s.unbind(b, a.values, 0)
    return b("where", b("equal", s.unsqueeze(b, index, axis), places), on, off)


def _topk(b: Builder, a: Arguments) -> list[Term]:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    count = s.integer(b, a.k)
    parts = b.many("sort", a.x, axis=axis, descending=bool(a.largest))
    return [s.narrow(b, part, axis, 0, count) for part in parts]


def _nonzero(b: Builder, a: Arguments) -> Term:
    return s.swap(b, b("nonzero", a.x, count=b.expected[0].shape[1]), 0, 1)


def _compress(b: Builder, a: Arguments) -> Term:
    x = s.reshape(b, a.x, (-1,)) if a.axis is None else a.x
    axis = 0 if a.axis is None else s.axis_of(b, a.axis, x.ndim)
    places = b("nonzero", a.condition, count=b.expected[0].shape[axis])
    return b("take", x, s.reshape(b, places, (-1,)), axis=axis)


def _unique(b: Builder, a: Arguments) -> Result:
    if a.axis is not None or not a.sorted or len(b.expected) > 1:
        raise NotLoweredError("unique rows, unsorted or with places")
    return b.many("unique", a.x, count=b.expected[0].count)[0]


ROWS: tuple[Row, ...] = (
    row("Reshape", "x, shape, *, allowzero=0", _reshape),
    row("Transpose", "x, *, perm=None", _transpose),
    row("Flatten", "x, *, axis=1", _flatten),
    row("Squeeze", "x, axes=None", _squeeze),
    row("Unsqueeze", "x, axes", _unsqueeze),
    row("Expand", "x, shape", _expand),
    row("Concat", "*inputs, axis", lambda b, a: b("concat", *a.inputs, axis=a.axis)),
    row("Split", "x, split=None, *, axis=0, num_outputs=None", _split),
    row("Slice", "x, starts, ends, axes=None, steps=None", _slice),
    row("Pad", "x, pads, value=None, axes=None, *, mode='constant'", _pad),
    row("Tile", "x, repeats", lambda b, a: s.tile(b, a.x, s.integers(b, a.repeats))),
    row("Trilu", "x, k=None, *, upper=1", _trilu),
    row("DepthToSpace", "x, *, blocksize, mode='DCR'", _depth_to_space),
    row("SpaceToDepth", "x, *, blocksize, mode='DCR'", _space_to_depth),
    row("Shape", "x, *, start=0, end=None", _shape),
    row("Size", "x", lambda b, a: b.term(a.x.spec.count)),
    row("ConstantOfShape", "shape, *, value=None", _of_shape),
    row(
        "Range",
        "start, limit, delta",
        lambda b, a: s.ranged(b, a.start, a.limit, a.delta, b.expected[0].kind),
    ),
    row("EyeLike", "x, *, dtype=None, k=0", _eye),
    row("Cast", "x, *, to, saturate=1, round_mode='up'", _cast),
    row("CastLike", "x, like, *, saturate=1, round_mode='up'", _cast),
    row("Gather", "x, indices, *, axis=0", lambda b, a: b("take", a.x, a.indices, axis=a.axis)),
    row("GatherElements", "x, indices, *, axis=0", lambda b, a: gather(b, a.x, a.axis, a.indices)),
    row("GatherND", "x, indices, *, batch_dims=0", _gather_nd),
    row("ScatterND", "x, indices, updates, *, reduction='none'", _scatter_nd),
    row("ScatterElements Scatter", "x, indices, updates, *, axis=0, reduction='none'", _scatter),
    row("OneHot", "indices, depth, values, *, axis=-1", _one_hot),
    row("TopK", "x, k, *, axis=-1, largest=1, sorted=1", _topk),
    row("NonZero", "x", _nonzero),
    row("Compress", "x, condition, *, axis=None", _compress),
    row("Unique", "x, *, axis=None, sorted=1", _unique),
)
