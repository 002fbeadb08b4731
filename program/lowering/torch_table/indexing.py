"""Operators of torch that read or write by indices."""

from __future__ import annotations

import math

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import indexing as at
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind, broadcast


def _index_put(b: Builder, a: Arguments) -> Term:
    index = tuple(slice(None, None, None) if each is None else each for each in a.indices)
    return at.set_item(b, a.input, index, a.values, accumulate=bool(a.accumulate))


def _index(b: Builder, a: Arguments) -> Term:
    return at.get_item(b, a.input, tuple(slice(None) if one is None else one for one in a.indices))


def _slice(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    return at.get_item(b, a.input, (*[slice(None)] * axis, slice(a.start, a.end, a.step)))


def _with_axes(b: Builder, x: Term) -> Term:
    return x if x.ndim else s.reshape(b, x, (1,))


def _index_rows(reduce: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        source = s.as_kind(b, a.source, a.input.kind)
        if a.alpha != 1:
            source = source * a.alpha
        return at.put_along(b, a.input, a.dim, _with_axes(b, a.index), source, reduce)

    return rule


def _index_fill(b: Builder, a: Arguments) -> Term:
    value = s.as_kind(b, b.term(a.value), a.input.kind)
    return at.put_along(b, a.input, a.dim, _with_axes(b, a.index), value)


def _index_select(b: Builder, a: Arguments) -> Term:
    return at.index_along(b, a.input, a.dim, _with_axes(b, a.index))


def _scatter(b: Builder, a: Arguments) -> Term:
    reduce = {None: "set", "add": "add", "multiply": "mul"}[a.reduce]
    source = a.src if a.src is not None else a.value
    return _scattered(b, a.input, a.dim, a.index, source, reduce)


def _scattered(
    b: Builder, x: Term, axis: int, index: Term, source: Term | float, reduce: str
) -> Term:
    source = s.as_kind(b, b.term(source), x.kind)
    if source.ndim:
        for place, size in enumerate(index.shape):
            source = s.narrow(b, source, place, 0, size)
    source = s.expand(b, source, index.shape)
    axis = s.axis_of(b, axis, x.ndim)
    return b("scatter", x, index, source, axis=axis, reduce=reduce)


def _scatter_add(b: Builder, a: Arguments) -> Term:
    return _scattered(b, a.input, a.dim, a.index, a.src, "add")


def _scatter_reduce(b: Builder, a: Arguments) -> Term:
    names = {"sum": "add", "prod": "mul", "amax": "amax", "amin": "amin", "mean": "add"}
    start = a.input
    if not a.include_self:
        neutral = {"sum": 0, "prod": 1, "mean": 0, "amax": -math.inf, "amin": math.inf}[a.reduce]
        empty = s.filled(b, start.shape, float(neutral), start.kind)
        touched = _touched(b, a)
        start = b("where", touched, empty, start)
    result = _scattered(b, start, a.dim, a.index, a.src, names[a.reduce])
    if a.reduce != "mean":
        return result
    ones = s.filled(b, a.index.shape, 1.0, Kind.FLOAT)
    zero = s.filled(b, start.shape, float(a.include_self), Kind.FLOAT)
    count = _scattered(b, zero, a.dim, a.index, ones, "add")
    return result / b("maximum", count, 1.0)


def _index_reduce(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    shape = [-1 if place == axis else 1 for place in range(a.input.ndim)]
    index = s.expand(b, s.reshape(b, a.index, shape), a.source.shape)
    named = {"input": a.input, "dim": axis, "index": index, "src": a.source}
    same = {"reduce": a.reduce, "include_self": a.include_self}
    return _scatter_reduce(b, Arguments({**named, **same}))


def _touched(b: Builder, a: Arguments) -> Term:
    nothing = s.filled(b, a.input.shape, 0, Kind.INT)
    ones = s.filled(b, a.index.shape, 1, Kind.INT)
    return b("less", 0, _scattered(b, nothing, a.dim, a.index, ones, "add"))


def _masked_select(b: Builder, a: Arguments) -> Term:
    sizes = broadcast(a.input.shape, a.mask.shape)
    flat = s.reshape(b, s.expand(b, a.mask, sizes), (-1,))
    wide = s.reshape(b, s.expand(b, a.input, sizes), (-1,))
    places = b("nonzero", flat, count=at.masked_count(b, flat))
    return b("take", wide, s.reshape(b, places, (-1,)), axis=0)


def _nonzero(b: Builder, a: Arguments) -> Result:
    count = at.masked_count(b, a.input)
    places = b("nonzero", a.input, count=count)
    return s.unbind(b, places, 1) if a.as_tuple else places


def _masked_scatter(b: Builder, a: Arguments) -> Term:
    mask = s.expand(b, a.mask, a.input.shape)
    return b("masked_put", a.input, mask, s.as_kind(b, a.source, a.input.kind))


def _take(b: Builder, a: Arguments) -> Term:
    return b("take", s.reshape(b, a.input, (-1,)), a.index, axis=0)


def _put(b: Builder, a: Arguments) -> Term:
    flat = s.reshape(b, a.input, (-1,))
    index, source = s.reshape(b, a.index, (-1,)), s.reshape(b, a.source, (-1,))
    reduce = "add" if a.accumulate else "set"
    return s.reshape(b, b("put", flat, source, index, reduce=reduce), a.input.shape)


def _select(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    return at.get_item(b, a.input, (*[slice(None)] * axis, s.integer(b, a.index)))


def _select_scatter(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    return at.set_item(b, a.input, (*[slice(None)] * axis, a.index), a.src)


def _slice_scatter(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    index = (*[slice(None)] * axis, slice(a.start, a.end, a.step))
    return at.set_item(b, a.input, index, a.src)


def _one_hot(b: Builder, a: Arguments) -> Term:
    count = a.num_classes if a.num_classes != -1 else b.expected[0].shape[-1]
    return at.one_hot(b, a.input, count)


def _embedding(b: Builder, a: Arguments) -> Term:
    """Look rows up; the one that stands for padding gets no gradient."""
    count = a.weight.shape[0]
    padding = None if a.padding_idx is None else a.padding_idx % count
    return _looked_up(b, a, padding)


def _plain_embedding(b: Builder, a: Arguments) -> Term:
    return _looked_up(b, a, None if a.padding_idx == -1 else a.padding_idx)


def _looked_up(b: Builder, a: Arguments, padding: int | None) -> Term:
    if a.max_norm is not None:
        raise NotLoweredError("rows are renormalised in place")
    if a.scale_grad_by_freq:
        raise NotLoweredError("gradients of rows are divided by how often they are read")
    if padding is None:
        return b("take", a.weight, a.input, axis=0)
    return b("take", a.weight, a.input, axis=0, held=padding)


def _embedding_bag(b: Builder, a: Arguments) -> Term:
    if a.max_norm is not None or a.scale_grad_by_freq:
        raise NotLoweredError("rows are renormalised in place, or their gradients are scaled")
    padding = None if a.padding_idx is None else a.padding_idx % a.weight.shape[0]
    held = {} if padding is None else {"held": padding}
    rows = b("take", a.weight, a.input, axis=0, **held)
    if a.per_sample_weights is not None:
        rows = rows * s.unsqueeze(b, a.per_sample_weights, -1)
    if a.offsets is not None:
        return _bags(b, a, rows, padding)
    if padding is not None:
        raise NotLoweredError("bags of one size with padding")
    if a.mode == "mean":
        return s.mean(b, rows, (1,), keepdims=False)
    return b("sum" if a.mode == "sum" else "amax", rows, axes=(1,), keepdims=False)


def _bags(b: Builder, a: Arguments, rows: Term, padding: int | None) -> Term:
    """Add the rows of each bag up; a bag begins where the offsets say, and padding is in none."""
    if a.mode not in {"sum", "mean"}:
        raise NotLoweredError("the largest elements of bags of different sizes")
    offsets, count = a.offsets, a.offsets.shape[0] - bool(a.include_last_offset)
    bag = b("search", s.narrow(b, offsets, 0, 0, count), b("iota", size=rows.shape[0]), right=True)
    inside = s.filled(b, (rows.shape[0], 1), 1.0, Kind.FLOAT)
    if padding is not None:
        is_padding = s.unsqueeze(b, b("equal", a.input, padding), 1)
        rows, inside = (b("where", is_padding, 0.0, each) for each in (rows, inside))
    total, sizes = (
        at.put_along(
            b, s.filled(b, (count, each.shape[1]), 0.0, Kind.FLOAT), 0, bag - 1, each, "add"
        )
        for each in (rows, inside)
    )
    return total / b("maximum", sizes, 1.0) if a.mode == "mean" else total


def _numbered_bags(b: Builder, a: Arguments) -> Result:
    """Return the sums of bags; nothing but the backward pass reads what stands beside them."""
    padding = None if a.padding_idx is None or a.padding_idx < 0 else a.padding_idx
    mode = ("sum", "mean", "max")[a.mode]
    named = {name: getattr(a, name) for name in _OF_BAGS}
    found = Arguments({**named, "max_norm": None, "mode": mode, "padding_idx": padding})
    return [_embedding_bag(b, found), *(None for _ in b.expected[1:])]


_OF_BAGS = (
    *("input", "weight", "offsets", "scale_grad_by_freq", "per_sample_weights"),
    "include_last_offset",
)

ROWS: tuple[Row, ...] = (
    row(".__getitem__", "input, index", lambda b, a: at.get_item(b, a.input, a.index)),
    row(
        ".__setitem__",
        "input, index, value",
        lambda b, a: at.set_item(b, a.input, a.index, a.value),
    ),
    row("aten.index _unsafe_index", "input, indices", _index),
    row("aten.slice slice_copy", "input, dim=0, start=None, end=None, step=1", _slice),
    row(
        "index_put .index_put .index_put_ _unsafe_index_put",
        "input, indices, values, accumulate=False",
        _index_put,
    ),
    row("index_select .index_select", "input, dim, index", _index_select),
    row(
        "index_add .index_add .index_add_",
        "input, dim, index, source, *, alpha=1",
        _index_rows("add"),
    ),
    row(
        "index_copy .index_copy .index_copy_",
        "input, dim, index, source, *, alpha=1",
        _index_rows("set"),
    ),
    row("index_fill .index_fill .index_fill_", "input, dim, index, value", _index_fill),
    row(
        "gather .gather",
        "input, dim, index, *, sparse_grad=False",
        lambda b, a: at.gather(b, a.input, a.dim, a.index),
    ),
    row(
        "scatter .scatter .scatter_",
        "input, dim, index, src=None, *, value=None, reduce=None",
        _scatter,
    ),
    row("scatter_add .scatter_add .scatter_add_", "input, dim, index, src", _scatter_add),
    row(
        "scatter_reduce .scatter_reduce .scatter_reduce_",
        "input, dim, index, src, reduce, *, include_self=True",
        _scatter_reduce,
    ),
    row(
        "index_reduce .index_reduce .index_reduce_",
        "input, dim, index, source, reduce, *, include_self=True",
        _index_reduce,
    ),
    row("masked_select .masked_select", "input, mask", _masked_select),
    row("masked_scatter .masked_scatter .masked_scatter_", "input, mask, source", _masked_scatter),
    row("nonzero .nonzero", "input, *, as_tuple=False", _nonzero),
    row("argwhere .argwhere", "input, *, as_tuple=False", _nonzero),
    row("take .take", "input, index", _take),
    row(".put_ .put put", "input, index, source, accumulate=False", _put),
    row("select .select select_copy", "input, dim, index", _select),
    row("select_scatter .select_scatter", "input, src, dim, index", _select_scatter),
    row(
        "slice_scatter .slice_scatter",
        "input, src, dim=0, start=None, end=None, step=1",
        _slice_scatter,
    ),
    row("F.one_hot", "input, num_classes=-1", _one_hot),
    row(
        "F.embedding",
        "input, weight, padding_idx=None, max_norm=None, norm_type=2.0, "
        "scale_grad_by_freq=False, sparse=False",
        _embedding,
    ),
    row(
        "embedding",
        "weight, input, padding_idx=-1, scale_grad_by_freq=False, sparse=False, *, max_norm=None",
        _plain_embedding,
    ),
    row(
        "F.embedding_bag",
        "input, weight, offsets=None, max_norm=None, norm_type=2, "
        "scale_grad_by_freq=False, mode='mean', sparse=False, per_sample_weights=None, "
        "include_last_offset=False, padding_idx=None",
        _embedding_bag,
    ),
    row(
        "embedding_bag _embedding_bag _embedding_bag_forward_only",
        "weight, input, offsets, scale_grad_by_freq=False, mode=0, sparse=False, "
        "per_sample_weights=None, include_last_offset=False, padding_idx=None",
        _numbered_bags,
    ),
)
