"""Operators of Paddle that reduce, scan, sort or look for places."""

from __future__ import annotations

import math
from typing import Any

from padiff.program.graph import Dtype
from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import norms, ordering
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.indexing import masked_count
from padiff.program.lowering.composites.losses import reduced
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind


def _axes(b: Builder, a: Arguments) -> tuple[int, ...]:
    return s.axes_of(b, a.axis, a.x.ndim)


def kind_of(dtype: Any, otherwise: Kind) -> Kind:
    """Return the kind of a dtype that may be undefined."""
    name = dtype.name if isinstance(dtype, Dtype) else dtype
    if name is None or not isinstance(name, str) or name.lower() == "undefined":
        return otherwise
    return Kind.of_dtype(name.lower())


def _sum(b: Builder, a: Arguments) -> Term:
    kind = Kind.INT if a.x.kind is Kind.BOOL else a.x.kind
    x = s.as_kind(b, a.x, kind_of(a.dtype, kind))
    return b("sum", x, axes=_axes(b, a), keepdims=bool(a.keepdim))


def _mean(b: Builder, a: Arguments) -> Term:
    return s.mean(b, a.x, _axes(b, a), keepdims=bool(a.keepdim))


def _mean_all(b: Builder, a: Arguments) -> Term:
    return s.mean(b, a.x, tuple(range(a.x.ndim)), keepdims=False)


def _reduced(name: str) -> Rule:
    return lambda b, a: b(name, a.x, axes=_axes(b, a), keepdims=bool(a.keepdim))


def _product(b: Builder, a: Arguments) -> Term:
    axes = tuple(range(a.x.ndim)) if a.reduce_all else _axes(b, a)
    return b("prod", a.x, axes=axes, keepdims=bool(a.keepdim))


def _logical(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = s.as_kind(b, a.x, Kind.BOOL)
        return b(name, x, axes=_axes(b, a), keepdims=bool(a.keepdim))

    return rule


def _place(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        whole = a.axis is None or not a.x.ndim
        x = s.reshape(b, a.x, (-1,)) if whole else a.x
        axis = s.axis_of(b, 0 if whole else a.axis, x.ndim)
        result = b(name, x, axis=axis)
        gone = range(a.x.ndim) if whole else [axis]
        sizes = [(1 if place in gone else size) for place, size in enumerate(a.x.shape)]
        if not a.keepdim:
            sizes = [size for place, size in enumerate(a.x.shape) if place not in gone]
        return s.reshape(b, result, sizes)

    return rule


def _scan(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = s.reshape(b, a.x, (-1,)) if getattr(a, "flatten", False) else a.x
        shape = x.shape
        x, axis = s.with_axis(b, x, a.axis)
        if a.exclusive:
            raise NotLoweredError("an exclusive scan")
        x = b("flip", x, axes=(axis,)) if a.reverse else x
        x = b(name, x, axis=axis)
        x = b("flip", x, axes=(axis,)) if a.reverse else x
        return s.reshape(b, x, shape)

    return rule


def _extreme_scan(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Result:
        return b.many(name, a.x, axis=s.axis_of(b, a.axis, a.x.ndim))

    return rule


def _logsumexp(b: Builder, a: Arguments) -> Term:
    axes = tuple(range(a.x.ndim)) if a.reduce_all is True else _axes(b, a)
    return b("logsumexp", a.x, axes=axes, keepdims=bool(a.keepdim))


def _argsort(b: Builder, a: Arguments) -> Result:
    x, axis = s.with_axis(b, a.x, a.axis)
    parts = b.many("sort", x, axis=axis, descending=bool(a.descending))
    return [s.reshape(b, part, a.x.shape) for part in parts]


def _topk(b: Builder, a: Arguments) -> Result:
    x, axis = s.with_axis(b, a.x, a.axis)
    parts = b.many("sort", x, axis=axis, descending=bool(a.largest))
    count = s.integer(b, a.k)
    return [s.narrow(b, part, axis, 0, count) for part in parts]


def _kthvalue(b: Builder, a: Arguments) -> Result:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    parts = b.many("sort", a.x, axis=axis, descending=False)
    result = [s.narrow(b, part, axis, a.k - 1, a.k) for part in parts]
    return result if a.keepdim else [s.squeeze(b, part, (axis,)) for part in result]


def _p_norm(b: Builder, a: Arguments) -> Term:
    x = s.reshape(b, a.x, (-1,)) if a.asvector else a.x
    axes = (0,) if a.asvector else (s.axis_of(b, a.axis, x.ndim),)
    result = norms.vector_norm(b, x, a.porder, axes, keepdims=bool(a.keepdim))
    return s.reshape(b, result, [1] * a.x.ndim) if a.asvector and a.keepdim else result


def _frobenius(b: Builder, a: Arguments) -> Term:
    axes = tuple(range(a.x.ndim)) if a.reduce_all else _axes(b, a)
    return norms.vector_norm(b, a.x, 2, axes, keepdims=bool(a.keep_dim))


def _squared_norm(b: Builder, a: Arguments) -> Term:
    total = b("sum", a.x * a.x, axes=tuple(range(a.x.ndim)), keepdims=False)
    return s.reshape(b, total, (1,))


def _distance(b: Builder, a: Arguments) -> Term:
    apart = a.x - a.y
    return norms.vector_norm(b, apart, a.p, tuple(range(apart.ndim)), keepdims=False)


def _variance(b: Builder, a: Arguments) -> Term:
    result, _ = s.variance(b, a.x, _axes(b, a), a.correction)
    return result if a.keepdim else s.squeeze(b, result, _axes(b, a))


def _std(b: Builder, a: Arguments) -> Term:
    return b("sqrt", _variance(b, a))


def _joined(b: Builder, a: Arguments) -> tuple[Term, list[int]]:
    """Return the value with the axes to reduce as its last one, and the shape of the result."""
    axes = _axes(b, a)
    kept = [axis for axis in range(a.x.ndim) if axis not in axes]
    x = s.transpose(b, a.x, [*kept, *axes])
    shape = [a.x.shape[axis] for axis in kept]
    x = s.reshape(b, x, [*shape, math.prod(a.x.shape[axis] for axis in axes)])
    if a.keepdim:
        shape = [1 if axis in axes else size for axis, size in enumerate(a.x.shape)]
    return x, shape


def _median(b: Builder, a: Arguments) -> Result:
    """Return the mean of both middles, or the lower one; nan if there is one."""
    x, shape = _joined(b, a)
    last, size = x.ndim - 1, x.shape[-1]
    low = ordering.at_rank(b, x, last, (size - 1) // 2)[0]
    if a.mode == "avg":
        low = s.as_float(b, low)
        low = (low + s.as_float(b, ordering.at_rank(b, x, last, size // 2)[0])) * 0.5
    if x.kind is Kind.FLOAT:
        low = b("where", b("any", b("isnan", x), axes=(last,), keepdims=True), math.nan, low)
    return [s.reshape(b, low, shape), *[None] * (len(b.expected) - 1)]


def _median_of_numbers(b: Builder, a: Arguments) -> Result:
    """Return the median of what is not nan; sorting puts nan behind all numbers."""
    x, shape = _joined(b, a)
    last = x.ndim - 1
    count = b("sum", b("not", b("isnan", x)), axes=(last,), keepdims=True)
    ordered = b("sort", x, axis=last, descending=False)
    ranks = [b("floor_divide", count - 1, 2), b("floor_divide", count, 2)]
    middles = [b("gather", ordered, act.clamp(b, rank, 0, x.shape[-1] - 1), axis=last)
               for rank in ranks[: 2 if a.mode == "avg" else 1]]  # fmt: skip
    result = s.as_float(b, middles[0])
    if a.mode == "avg":
        result = (result + middles[1]) * 0.5
    return [s.reshape(b, result, shape), *[None] * (len(b.expected) - 1)]


def _mode(b: Builder, a: Arguments) -> Result:
    result = ordering.mode(b, a.x, s.axis_of(b, a.axis, a.x.ndim))
    axis = s.axis_of(b, a.axis, a.x.ndim)
    return result if a.keepdim else [s.squeeze(b, part, (axis,)) for part in result]


def _sum_of_numbers(b: Builder, a: Arguments) -> Term:
    x = b("where", b("isnan", a.x), 0.0, a.x) if a.x.kind is Kind.FLOAT else a.x
    x = s.as_kind(b, x, kind_of(a.dtype, x.kind))
    return b("sum", x, axes=_axes(b, a), keepdims=bool(a.keepdim))


def _summed_like(b: Builder, a: Arguments) -> Term:
    """Sum over what broadcasting added."""
    extra = a.x.ndim - a.target.ndim
    sizes = (1,) * extra + a.target.shape
    axes = tuple(axis for axis, size in enumerate(sizes) if size == 1 and a.x.shape[axis] != 1)
    x = b("sum", a.x, axes=axes, keepdims=True) if axes else a.x
    return s.reshape(b, x, a.target.shape)


def _unique(b: Builder, a: Arguments) -> Result:
    if a.axis or a.return_index:
        raise NotLoweredError("unique rows, or first places")
    values, inverse, counts = b.many("unique", a.x, count=b.expected[0].count)
    inverse = s.reshape(b, inverse, (-1,))
    extra = [inverse if a.return_inverse else None, counts if a.return_counts else None]
    if len(b.expected) == 4:  # noqa: PLR2004 - also those that nobody asked for
        return [values, None, *extra]
    return [values, *(part for part in extra if part is not None)]


def _search(b: Builder, a: Arguments) -> Term:
    return b("search", a.sorted_sequence, a.values, right=bool(a.right))


def _bincount(b: Builder, a: Arguments) -> Term:
    weights = s.filled(b, a.x.shape, 1, Kind.INT) if a.weights is None else a.weights
    return b("bincount", a.x, weights, size=b.expected[0].count)


def _histogram(b: Builder, a: Arguments) -> Term:
    """Count elements in bins of one width; the last bin has its upper end."""
    if a.weight is not None or a.density:
        raise NotLoweredError("weights, or shares")
    x = s.reshape(b, s.as_float(b, a.input), (-1,))
    low: Any = float(a.min)
    high: Any = float(a.max)
    if low == high:  # limits are those of the elements
        low, high = (b(name, x, axes=(0,), keepdims=False) for name in ("amin", "amax"))
    place = b("floor", (x - low) * (a.bins / (high - low)))
    place = s.as_kind(b, act.clamp(b, place, 0.0, float(a.bins - 1)), Kind.INT)
    inside = b("and", x >= low, x <= high)
    return b("bincount", place, s.as_kind(b, inside, Kind.INT), size=a.bins)


def _nonzero(b: Builder, a: Arguments) -> Term:
    return b("nonzero", a.condition, count=masked_count(b, a.condition))


def _summed_loss(b: Builder, a: Arguments) -> Term:
    names = {0: "sum", 1: "mean", 2: "none", "sum": "sum", "mean": "mean", "none": "none"}
    return reduced(b, a.x, names[a.reduction])


def _normalised(b: Builder, a: Arguments) -> Result:
    """Divide by the root of the sum of squares, which is the second result."""
    axis = s.axis_of(b, a.axis, a.x.ndim)
    total = b("sum", a.x * a.x, axes=(axis,), keepdims=True)
    size = b("sqrt", total + float(a.epsilon))
    return [a.x / size, size][: len(b.expected)]


def _renormalised(b: Builder, a: Arguments) -> Term:
    """Shrink each part along an axis whose norm is beyond the largest one."""
    axes = tuple(axis for axis in range(a.x.ndim) if axis != s.axis_of(b, a.axis, a.x.ndim))
    norm = norms.vector_norm(b, a.x, a.p, axes, keepdims=True)
    return b("where", norm > float(a.max_norm), a.x * (float(a.max_norm) / (norm + 1e-7)), a.x)


def _clipped(b: Builder, a: Arguments) -> Term:
    norm = norms.vector_norm(b, a.x, 2, tuple(range(a.x.ndim)), keepdims=False)
    return b("where", norm > float(a.max_norm), a.x * (float(a.max_norm) / norm), a.x)


_SINGLE = 1e-6
"""Of operators that compute, or have settings, in float32 only: some sixteen roundings."""
_REDUCED = "x, axis=(), keepdim=False"

ROWS: tuple[Row, ...] = (
    row("sum", "x, axis=(), dtype=None, keepdim=False", _sum),
    row("mean", _REDUCED, _mean),
    row("mean_all", "x", _mean_all),
    row("max amax", _REDUCED, _reduced("amax")),
    row("min amin", _REDUCED, _reduced("amin")),
    row("prod", "x, axis, keepdim, reduce_all", _product),
    row("all", _REDUCED, _logical("all")),
    row("any", _REDUCED, _logical("any")),
    row("argmax", "x, axis=None, keepdim=False, dtype=None", _place("argmax")),
    row("argmin", "x, axis=None, keepdim=False, dtype=None", _place("argmin")),
    row("var", "x, axis=(), keepdim=False, unbiased=True, correction=1", _variance),
    row("std", "x, axis=(), keepdim=False, unbiased=True, correction=1", _std),
    row("median", "x, axis=(), keepdim=True, mode='avg'", _median),
    row("nanmedian", "x, axis=(), keepdim=True, mode='avg'", _median_of_numbers),
    row("mode", "x, axis=-1, keepdim=False", _mode),
    row("nansum", "x, axis=(), dtype=None, keepdim=False", _sum_of_numbers),
    row("reduce_as", "x, target", _summed_like),
    row("unique", "x, return_index, return_inverse, return_counts, axis=(), dtype=None, "
        "is_sorted=True", _unique),
    row("searchsorted", "sorted_sequence, values, out_int32=False, right=False", _search),
    row("bincount", "x, weights=None, minlength=0", _bincount),
    row("histogram", "input, weight=None, bins=100, min=0.0, max=0.0, density=False", _histogram),
    row("nonzero", "condition", _nonzero),
    row("identity_loss identity_loss_", "x, reduction=1", _summed_loss),
    row("l1_norm l1_norm_", "x",
        lambda b, a: b("sum", b("abs", a.x), axes=tuple(range(a.x.ndim)), keepdims=False),
        tolerance=_SINGLE),
    row("norm", "x, axis, epsilon, is_test", _normalised),
    row("renorm renorm_", "x, p, axis, max_norm", _renormalised, tolerance=_SINGLE),
    row("clip_by_norm", "x, max_norm", _clipped, tolerance=_SINGLE),
    row("cumsum cumsum_", "x, axis=-1, flatten=False, exclusive=False, reverse=False",
        _scan("cumsum")),
    row("cumprod cumprod_", "x, axis, exclusive=False, reverse=False", _scan("cumprod")),
    row("logcumsumexp", "x, axis=-1, flatten=False, exclusive=False, reverse=False",
        _scan("logcumsumexp")),
    row("cummax", "x, axis=-1, dtype=None", _extreme_scan("cummax")),
    row("cummin", "x, axis=-1, dtype=None", _extreme_scan("cummin")),
    row("logsumexp", "x, axis=(), keepdim=False, reduce_all=False", _logsumexp),
    row("argsort", "x, axis=-1, descending=False, stable=False", _argsort),
    row("topk", "x, k=1, axis=-1, largest=True, sorted=True", _topk),
    row("kthvalue", "x, k=1, axis=-1, keepdim=False", _kthvalue),
    # one over the order is a float32
    row("p_norm", "x, porder=2, axis=-1, epsilon=1e-12, keepdim=False, asvector=False", _p_norm,
        tolerance=1e-7),
    row("frobenius_norm", "x, axis, keep_dim, reduce_all", _frobenius),
    row("squared_l2_norm", "x", _squared_norm),
    row("dist", "x, y, p=2.0", _distance),
)  # fmt: skip
