"""Operators of Paddle that read or write by indices."""

from __future__ import annotations

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import indexing as at
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Row, row
from padiff.program.primitives import Kind

__all__ = ["ROWS"]


def _embedding(b: Builder, a: Arguments) -> Term:
    """Look rows up; the one that stands for padding is zero, whatever the weight holds."""
    result = b("take", a.weight, a.x, axis=0)
    if a.padding_idx == -1:
        return result
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
    names = {"assign": "set", "add": "add", "mul": "mul", "multiply": "mul"}
    if a.reduce not in names or not a.include_self:
        raise NotLoweredError(f"reduction {a.reduce!r} without its own element")
    source = s.expand(b, s.as_kind(b, a.values, a.arr.kind), a.indices.shape)
    axis = s.axis_of(b, a.axis, a.arr.ndim)
    return b("scatter", a.arr, a.indices, source, axis=axis, reduce=names[a.reduce])


def _one_hot(b: Builder, a: Arguments) -> Term:
    return at.one_hot(b, a.x, s.integer(b, a.num_classes), Kind.FLOAT)


def _index_put(b: Builder, a: Arguments) -> Term:
    return at.set_item(b, a.x, tuple(a.indices), a.value, accumulate=bool(a.accumulate))


def _masked_select(b: Builder, a: Arguments) -> Term:
    return at.get_item(b, a.x, s.expand(b, a.mask, a.x.shape))


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
    row("masked_select", "x, mask", _masked_select),
    row("one_hot", "x, num_classes", _one_hot),
)  # fmt: skip
