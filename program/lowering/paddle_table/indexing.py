"""Operators of Paddle that read or write by indices."""

from __future__ import annotations

import math

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import indexing as at
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, row
from padiff.program.primitives import Kind


def _embedding(b: Builder, a: Arguments) -> Term:
    """Look rows up; the one that stands for padding is zero, and gets no gradient."""
    if a.padding_idx == -1:
        return b("take", a.weight, a.x, axis=0)
    result = b("take", a.weight, a.x, axis=0, held=a.padding_idx)
    return b("where", s.unsqueeze(b, b("equal", a.x, a.padding_idx), -1), 0.0, result)


def _gather(b: Builder, a: Arguments) -> Term:
    return at.index_along(b, a.x, a.axis, a.index)


def _gather_nd(b: Builder, a: Arguments) -> Term:
    parts = s.unbind(b, a.index, a.index.ndim - 1)
    return b("pick", a.x, *parts)


def _take_along(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.axis, a.arr.ndim)
    return at.gather(b, a.arr, axis, a.indices)


def _put_along(b: Builder, a: Arguments) -> Term:
    names = {"assign": "set", "add": "add", "mul": "mul", "multiply": "mul", "amax": "amax",
             "amin": "amin"}  # fmt: skip
    if a.reduce not in names or not a.include_self:
        raise NotLoweredError(f"reduction {a.reduce!r} without its own element")
    source = s.expand(b, s.as_kind(b, a.values, a.arr.kind), a.indices.shape)
    axis = s.axis_of(b, a.axis, a.arr.ndim)
    return b("scatter", a.arr, a.indices, source, axis=axis, reduce=names[a.reduce])


def _one_hot(b: Builder, a: Arguments) -> Term:
    return at.one_hot(b, a.x, s.integer(b, a.num_classes), Kind.FLOAT)


def _index_put(b: Builder, a: Arguments) -> Term:
    return at.set_item(b, a.x, tuple(a.indices), a.value, accumulate=bool(a.accumulate))


def _sequence_mask(b: Builder, a: Arguments) -> Term:
    """Return which places are before each length: as many as the longest one says, or a number."""
    size = b.expected[0].shape[-1]
    before = b("less", s.positions(b, size, a.x.ndim + 1, a.x.ndim), s.unsqueeze(b, a.x, -1))
    return s.as_kind(b, before, b.expected[0].kind)


def _masked_select(b: Builder, a: Arguments) -> Term:
    return at.get_item(b, a.x, s.expand(b, a.mask, a.x.shape))


def _scatter(b: Builder, a: Arguments) -> Term:
    """Write rows, or add them up where rows were cleared first."""
    index = s.reshape(b, a.index, (-1,))
    if a.overwrite:
        return b("put", a.x, a.updates, index, reduce="set")
    cleared = b("put", a.x, s.as_kind(b, b.term(0), a.x.kind), index, reduce="set")
    return b("put", cleared, a.updates, index, reduce="add")


def _add_at(b: Builder, a: Arguments) -> Term:
    parts = s.unbind(b, a.index, a.index.ndim - 1)
    return b("put", a.x, a.updates, *parts, reduce="add")


def _index_of(b: Builder, a: Arguments) -> tuple[object, ...]:
    """Return the index that slices of some axes and dropped axes spell."""
    if a.none_axes:
        raise NotLoweredError("new axes")
    index: list[object] = [slice(None)] * a.x.ndim
    bounds = zip(
        a.axes, s.integers(b, a.starts), s.integers(b, a.ends), s.integers(b, a.steps), strict=True
    )
    for axis, start, stop, step in bounds:
        index[axis] = start if axis in a.decrease_axes else slice(start, stop, step)
    return tuple(index)


def _set_numbers(b: Builder, a: Arguments) -> Term:
    value = b.literal(np.array(a.values, a.x.kind.dtype).reshape(tuple(a.shape)))
    return at.set_item(b, a.x, _index_of(b, a), value)


def _set_tensor(b: Builder, a: Arguments) -> Term:
    return at.set_item(b, a.x, _index_of(b, a), a.values)


def _multiplex(b: Builder, a: Arguments) -> Term:
    """Return row after row from one of several values."""
    joined = s.stack(b, a.inputs, 0)
    rows = b("iota", size=joined.shape[1])
    return b("pick", joined, s.reshape(b, a.index, (-1,)), rows)


def _shard_index(b: Builder, a: Arguments) -> Term:
    size = -(-a.index_num // a.nshards)
    own = b("equal", b("floor_divide", a.input, size), a.shard_id)
    return b("where", own, b("modulo", a.input, size), a.ignore_value)


def _segments(b: Builder, a: Arguments) -> Result:
    """Reduce the rows of each segment; segments without rows are zero."""
    result = _reduced(b, a.x, a.segment_ids, a.pooltype)
    return [result, *[None] * (len(b.expected) - 1)]


def _reduced(b: Builder, rows: Term, places: Term, how: str) -> Term:
    """Reduce the rows that go to each place; places without rows are zero."""
    shape = b.expected[0].shape
    start = {"SUM": 0.0, "MEAN": 0.0, "MAX": -math.inf, "MIN": math.inf}[how]
    reduce = {"SUM": "add", "MEAN": "add", "MAX": "amax", "MIN": "amin"}[how]
    if rows.kind is not Kind.FLOAT:
        raise NotLoweredError("integers")
    total = b("put", s.filled(b, shape, start, Kind.FLOAT), rows, places, reduce=reduce)
    ones = s.filled(b, places.shape, 1.0, Kind.FLOAT)
    count = b("put", s.filled(b, shape[:1], 0.0, Kind.FLOAT), ones, places, reduce="add")
    count = s.reshape(b, count, (-1, *[1] * (len(shape) - 1)))
    if how == "MEAN":
        total = total / b("maximum", count, 1.0)
    return b("where", b("equal", count, 0.0), 0.0, total)


_MESSAGES = {"ADD": "add", "MUL": "mul"}
"""Differences and quotients reach the kernel as sums and products."""


def _received(b: Builder, a: Arguments) -> Result:
    """Send rows along edges, and reduce them where they go."""
    sent = b("take", a.x, a.src_index, axis=0)
    result = _reduced(b, sent, a.dst_index, a.reduce_op)
    return [result, *[None] * (len(b.expected) - 1)]


def _received_with_edges(b: Builder, a: Arguments) -> Result:
    """Send rows along edges, each with what the edge holds, and reduce them where they go."""
    sent = b(_MESSAGES[a.message_op], b("take", a.x, a.src_index, axis=0), a.y)
    result = _reduced(b, sent, a.dst_index, a.reduce_op)
    return [result, *[None] * (len(b.expected) - 1)]


def _sent(b: Builder, a: Arguments) -> Term:
    """Join the rows at both ends of each edge."""
    ends = b("take", a.x, a.src_index, axis=0), b("take", a.y, a.dst_index, axis=0)
    return b(_MESSAGES[a.message_op], *ends)


ROWS: tuple[Row, ...] = (
    row(".__getitem__", "x, index", lambda b, a: at.get_item(b, a.x, a.index)),
    row(".__setitem__", "x, index, value",
        lambda b, a: at.set_item(b, a.x, a.index, a.value)),
    row("embedding", "x, weight, padding_idx=-1, sparse=False", _embedding),
    row("gather", "x, index, axis=0", _gather),
    row("index_select", "x, index, axis=0", _gather),
    row("gather_nd", "x, index", _gather_nd),
    row("index_sample", "x, index", lambda b, a: at.gather(b, a.x, 1, a.index)),
    row("take_along_axis", "arr, indices, axis", _take_along),
    row("put_along_axis put_along_axis_",
        "arr, indices, values, axis, reduce='assign', include_self=True", _put_along),
    row("index_put index_put_", "x, indices, value, accumulate=False", _index_put),
    row("index_add index_add_", "x, index, add_value, axis=0",
        lambda b, a: at.put_along(b, a.x, a.axis, a.index, a.add_value, "add")),
    row("scatter scatter_", "x, index, updates, overwrite=True", _scatter),
    row("scatter_nd_add", "x, index, updates", _add_at),
    row("set_value set_value_",
        "x, starts, ends, steps, axes, decrease_axes, none_axes, shape, values", _set_numbers),
    row("set_value_with_tensor set_value_with_tensor_",
        "x, values, starts, ends, steps, axes, decrease_axes, none_axes", _set_tensor),
    row("multiplex", "inputs, index", _multiplex),
    row("shard_index", "input, index_num, nshards, shard_id, ignore_value=-1", _shard_index),
    row("segment_pool", "x, segment_ids, pooltype='SUM'", _segments),
    row("send_u_recv", "x, src_index, dst_index, reduce_op='SUM', out_size=(0,)", _received),
    row("send_ue_recv", "x, y, src_index, dst_index, message_op, reduce_op, out_size=(0,)",
        _received_with_edges),
    row("send_uv", "x, y, src_index, dst_index, message_op='ADD'", _sent),
    row("masked_select", "x, mask", _masked_select),
    row("sequence_mask", "x, maxlen, out_dtype=None", _sequence_mask),
    row("one_hot", "x, num_classes", _one_hot),
)  # fmt: skip
