"""Operators of MindSpore that make, reshape, join, cut or look up."""

from __future__ import annotations

from typing import Any

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import indexing as at
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind

from .elementwise import kind_of


def _plain(shape: Any) -> Any:
    """Return a shape that was given as one argument or as several."""
    one = isinstance(shape, tuple) and len(shape) == 1 and isinstance(shape[0], (tuple, Term))
    return shape[0] if one else shape


def _reshape(b: Builder, a: Arguments) -> Term:
    return s.reshape(b, a.x, s.integers(b, _plain(a.shape)))


def _transpose(b: Builder, a: Arguments) -> Term:
    order = s.integers(b, _plain(a.order))
    order = order or tuple(range(a.x.ndim))[::-1]
    return s.transpose(b, a.x, [axis % a.x.ndim for axis in order])


def _swap(b: Builder, a: Arguments) -> Term:
    return s.swap(b, a.x, a.first, a.second)


def _transposed(b: Builder, a: Arguments) -> Term:
    """Exchange two axes, as torch does, or order all, as numpy does."""
    order = s.integers(b, _plain(a.order))
    two = len(order) == 2 and a.x.ndim != 2  # noqa: PLR2004
    return s.swap(b, a.x, *order) if two else _transpose(b, a)


def _squeeze(b: Builder, a: Arguments) -> Term:
    chosen = () if a.axis is None else a.axis
    axes = s.axes_of(b, chosen, a.x.ndim)
    shape = [size for axis, size in enumerate(a.x.shape) if size != 1 or axis not in axes]
    return s.reshape(b, a.x, shape)


def _flatten(b: Builder, a: Arguments) -> Term:
    return s.flatten(b, a.x, a.start, a.stop)


def _rows(b: Builder, a: Arguments) -> Term:
    return s.reshape(b, a.x, (a.x.shape[0], -1))


def _expand(b: Builder, a: Arguments) -> Term:
    shape = s.integers(b, _plain(a.shape))
    before = len(shape) - a.x.ndim
    sizes = [a.x.shape[axis - before] if size == -1 else size for axis, size in enumerate(shape)]
    return s.expand(b, a.x, sizes)


def _concat(b: Builder, a: Arguments) -> Term:
    return b("concat", *a.tensors, axis=s.axis_of(b, a.axis, a.tensors[0].ndim))


def _split_evenly(b: Builder, a: Arguments) -> Result:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    return s.split(b, a.x, axis, [a.x.shape[axis] // a.output_num] * a.output_num)


def _split(b: Builder, a: Arguments) -> Result:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    if not isinstance(a.sizes, int):
        return s.split(b, a.x, axis, s.integers(b, a.sizes))
    size, whole = a.sizes, a.x.shape[axis]
    return s.split(b, a.x, axis, [min(size, whole - start) for start in range(0, whole, size)])


def _chunk(b: Builder, a: Arguments) -> Result:
    whole = a.x.shape[s.axis_of(b, a.axis, a.x.ndim)]
    return _split(b, Arguments({"x": a.x, "axis": a.axis, "sizes": -(-whole // a.chunks)}))


def _narrow(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    start = s.integer(b, a.start) % a.x.shape[axis]
    return s.narrow(b, a.x, axis, start, start + a.length)


def _slice(b: Builder, a: Arguments) -> Term:
    x: Term = a.x
    for axis, (start, size) in enumerate(
        zip(s.integers(b, a.begin), s.integers(b, a.size), strict=True)
    ):
        x = s.narrow(b, x, axis, start, x.shape[axis] if size == -1 else start + size)
    return x


def _slice_along(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    start, stop, step = slice(a.start, a.end, a.step).indices(a.x.shape[axis])
    return s.narrow(b, a.x, axis, start, stop, step)


def _strided(b: Builder, a: Arguments) -> Term:
    """Cut with steps; only those masks are known that leave axes or bounds as they are."""
    if a.ellipsis_mask or a.new_axis_mask:
        raise NotLoweredError("an index with new axes or an ellipsis")
    x: Term = a.x
    dropped = []
    bounds = zip(*(s.integers(b, each) for each in (a.begin, a.end, a.strides)), strict=True)
    for axis, (start, stop, step) in enumerate(bounds):
        if step < 0:
            raise NotLoweredError("steps back")
        bit = 1 << axis
        if a.shrink_axis_mask & bit:
            place = start % x.shape[axis]
            x = s.narrow(b, x, axis, place, place + 1)
            dropped.append(axis)
            continue
        first = None if a.begin_mask & bit else start
        last = None if a.end_mask & bit else stop
        x = s.narrow(b, x, axis, *slice(first, last, step).indices(x.shape[axis]))
    return s.squeeze(b, x, tuple(dropped)) if dropped else x


def _gather(b: Builder, a: Arguments) -> Term:
    if a.batch_dims:
        raise NotLoweredError("indices for each part of a batch")
    return at.index_along(b, a.x, s.integer(b, a.axis), a.index)


def _embedding(b: Builder, a: Arguments) -> Term:
    if a.max_norm is not None:
        raise NotLoweredError("rows that are shrunk")
    return at.index_along(b, a.weight, 0, a.x)


def _one_hot(b: Builder, a: Arguments) -> Term:
    kind = b.expected[0].kind
    made = at.one_hot(b, a.x, s.integer(b, a.depth), Kind.INT)
    if a.axis not in (-1, made.ndim - 1):
        raise NotLoweredError("classes along another axis than the last")
    on, off = s.number(b, a.on), s.number(b, a.off)
    number = float if kind is Kind.FLOAT else int
    return b("where", b("equal", made, 1), number(on), number(off))


def _full(b: Builder, a: Arguments) -> Term:
    value = s.number(b, a.value)
    return s.filled(b, s.integers(b, a.shape), value, kind_of(a.dtype, b.expected[0].kind))


def _constant(value: int) -> Rule:
    return lambda b, a: s.filled(b, s.integers(b, a.shape), value, b.expected[0].kind)


def _constant_like(value: int) -> Rule:
    return lambda b, a: s.filled(b, a.x.shape, value, kind_of(a.dtype, a.x.kind))


def _arange(b: Builder, a: Arguments) -> Term:
    start, stop, step = (s.number(b, each) for each in (a.start, a.end, a.step))
    return s.ranged(b, start, stop, step, b.expected[0].kind)


def _triangle(name: str) -> Rule:
    return lambda b, a: b(name, a.x, offset=a.diagonal)


def _pad(b: Builder, a: Arguments) -> Term:
    """Pad; widths begin with the last axis."""
    if a.mode != "constant":
        raise NotLoweredError(f"padding {a.mode!r}")
    numbers = s.integers(b, a.padding)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
    widths = ((0, 0),) * (a.x.ndim - len(pairs)) + tuple(pairs)
    value = 0.0 if a.value is None else float(s.number(b, a.value))
    return b("pad", a.x, widths=widths, mode="constant", value=value)


def _pad_all(b: Builder, a: Arguments) -> Term:
    return b("pad", a.x, widths=tuple(map(tuple, a.paddings)), mode="constant", value=0.0)


def _get(b: Builder, a: Arguments) -> Term:
    return at.get_item(b, a.x, a.index)


def _put(b: Builder, a: Arguments) -> Term:
    return at.set_item(b, a.x, a.index, a.value)


def _tensor(b: Builder, a: Arguments) -> Term:
    """Write numbers down, or copy a tensor."""
    if isinstance(a.x, Term):
        return b("cast", a.x, kind=b.expected[0].kind.value)
    return b.literal(np.asarray(a.x, b.expected[0].kind.dtype))


ROWS: tuple[Row, ...] = (
    row("Reshape View", "x, shape", _reshape),
    row(".reshape .view", "x, *shape", _reshape),
    row("Transpose TransposeView Permute", "x, order", _transpose),
    row(".permute", "x, *order", _transpose),
    row(".transpose", "x, *order", _transposed),
    row("TransposeExtView SwapAxes", "x, first, second", _swap),
    row(".t", "x", lambda b, a: s.swap(b, a.x, 0, 1) if a.x.ndim > 1 else a.x),
    row("ExpandDims ExpandDimsView Unsqueeze .unsqueeze", "x, axis",
        lambda b, a: s.unsqueeze(b, a.x, *s.integers(b, a.axis))),
    row("Squeeze .squeeze", "x, axis=()", _squeeze),
    row("Flatten", "x", _rows),
    row("FlattenExt", "x, start=0, stop=-1", _flatten),
    row("BroadcastTo .broadcast_to BroadcastToView", "x, shape", _expand),
    row(".expand_as", "x, y", lambda b, a: s.expand(b, a.x, a.y.shape)),
    row("Tile .tile", "x, counts", lambda b, a: s.tile(b, a.x, s.integers(b, a.counts))),
    row("Concat", "tensors, axis=0", _concat),
    row("Stack StackExt", "tensors, axis=0", lambda b, a: s.stack(b, a.tensors, a.axis)),
    row("Split", "x, axis=0, output_num=1", _split_evenly),
    row("SplitTensor SplitTensorView SplitWithSize SplitWithSizeView .split", "x, sizes, axis=0",
        _split),
    row("Chunk ChunkView .chunk", "x, chunks, axis=0", _chunk),
    row("Narrow NarrowView .narrow", "x, axis, start, length", _narrow),
    row("Slice", "x, begin, size", _slice),
    row("SliceExt SliceExtView", "x, axis, start, end, step=1", _slice_along),
    row("StridedSlice", "x, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, "
        "new_axis_mask=0, shrink_axis_mask=0", _strided),
    row(".__getitem__", "x, index", _get),
    row(".__setitem__", "x, index, value", _put),
    row("Gather", "x, index, axis, batch_dims=0", _gather),
    row("GatherD", "x, axis, index", lambda b, a: at.gather(b, a.x, a.axis, a.index)),
    row(".gather IndexSelect .index_select", "x, axis, index",
        lambda b, a: at.index_along(b, a.x, s.integer(b, a.axis), a.index)),
    row("Embedding", "x, weight, padding_idx=None, max_norm=None, norm_type=2.0, "
        "scale_grad_by_freq=False", _embedding),
    row("OneHot OneHotExt", "x, depth, on, off, axis=-1", _one_hot),
    row("FillScalar FillTensor FillV2", "shape, value, dtype=None", _full),
    row("Fill", "dtype, shape, value", _full),
    row("Zeros", "shape, dtype=None", _constant(0)),
    row("Ones", "shape, dtype=None", _constant(1)),
    row("ZerosLike ZerosLikeExt", "x, dtype=None", _constant_like(0)),
    row("OnesLike OnesLikeExt", "x, dtype=None", _constant_like(1)),
    row("Range", "start, end, step=1, maxlen=1000000", _arange),
    row("Arange", "start, end, step=1, dtype=None", _arange),
    row("Tril TrilExt .tril", "x, diagonal=0", _triangle("tril")),
    row("Triu .triu", "x, diagonal=0", _triangle("triu")),
    row("ConstantPadND", "x, padding, value=0.0, mode='constant'", _pad),
    row("PadV3", "x, padding, value=None, mode='constant', paddings_contiguous=True", _pad),
    row("Pad", "x, paddings", _pad_all),
    row("ScalarToTensor TupleToTensor ListToTensor", "x, dtype=None", _tensor),
    row("mindspore.tensor", "x=None, dtype=None, shape=None, init=None, const_arg=False, "
        "device=None", _tensor),
    row("ReverseV2", "x, axis", lambda b, a: b("flip", a.x, axes=s.axes_of(b, a.axis, a.x.ndim))),
)  # fmt: skip
