"""Reductions, scans, sorting and selection of torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from padiff.program.graph import Dtype
from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import norms, ordering
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.indexing import gather
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind


def _cast(b: Builder, x: Term, dtype: Any) -> Term:
    return s.as_kind(b, x, Kind.of_dtype(dtype.name)) if isinstance(dtype, Dtype) else x


def _sum(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        axes = s.axes_of(b, a.dim, a.input.ndim)
        return b(name, _cast(b, a.input, a.dtype), axes=axes, keepdims=bool(a.keepdim))

    return rule


def _nansum(b: Builder, a: Arguments) -> Term:
    x = b("where", b("isnan", a.input), 0, a.input)
    return b("sum", x, axes=s.axes_of(b, a.dim, x.ndim), keepdims=bool(a.keepdim))


def _mean(b: Builder, a: Arguments) -> Term:
    x = _cast(b, a.input, a.dtype)
    return s.mean(b, x, s.axes_of(b, a.dim, x.ndim), keepdims=bool(a.keepdim))


def _nanmean(b: Builder, a: Arguments) -> Term:
    missing = b("isnan", a.input)
    axes, keep = s.axes_of(b, a.dim, a.input.ndim), bool(a.keepdim)
    total = b("sum", b("where", missing, 0.0, a.input), axes=axes, keepdims=keep)
    return total / b("sum", b("cast", b("not", missing), kind="float"), axes=axes, keepdims=keep)


def _prod(b: Builder, a: Arguments) -> Term:
    x = _cast(b, a.input, a.dtype)
    axes = tuple(range(x.ndim)) if a.dim is None else (s.axis_of(b, a.dim, x.ndim),)
    return b("prod", x, axes=axes, keepdims=bool(a.keepdim))


def _extreme(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        return b(name, a.input, axes=s.axes_of(b, a.dim, a.input.ndim), keepdims=bool(a.keepdim))

    return rule


def _logical(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = s.as_kind(b, a.input, Kind.BOOL)
        return b(name, x, axes=s.axes_of(b, a.dim, x.ndim), keepdims=bool(a.keepdim))

    return rule


def _with_places(name: str, binary: str) -> Rule:
    """Reduce to the extreme, to extremes with their places, or to the extreme of two tensors."""

    def rule(b: Builder, a: Arguments) -> Result:
        other = a.dim if isinstance(a.dim, Term) else a.other
        if other is not None:
            return b(binary, a.input, other)
        if a.dim is None:
            return b(f"a{name}", a.input, axes=tuple(range(a.input.ndim)), keepdims=False)
        x, axis = s.with_axis(b, a.input, a.dim)
        keep = bool(a.keepdim) and a.input.ndim > 0
        values = b(f"a{name}", x, axes=(axis,), keepdims=keep)
        places = b(f"arg{name}", x, axis=axis)
        return values, s.unsqueeze(b, places, axis) if keep else places

    return rule


def _place(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        if a.dim is None:
            place = b(name, s.reshape(b, a.input, (-1,)), axis=0)
            return s.reshape(b, place, (1,) * a.input.ndim) if a.keepdim else place
        x, axis = s.with_axis(b, a.input, a.dim)
        place = b(name, x, axis=axis)
        return s.unsqueeze(b, place, axis) if a.keepdim and a.input.ndim else place

    return rule


def _aminmax(b: Builder, a: Arguments) -> Result:
    axes = s.axes_of(b, a.dim, a.input.ndim)
    keep = bool(a.keepdim)
    return [b(name, a.input, axes=axes, keepdims=keep) for name in ("amin", "amax")]


def _variance(b: Builder, a: Arguments) -> tuple[Term, Term]:
    biased = a.dim is False or a.unbiased is False
    correction = 0 if biased else a.correction
    axes = s.axes_of(b, None if isinstance(a.dim, bool) else a.dim, a.input.ndim)
    correction = 1 if correction is None else correction
    variance, centre = s.variance(b, a.input, axes, correction)
    if a.keepdim:
        return variance, centre
    shape = [size for axis, size in enumerate(a.input.shape) if axis not in axes]
    return s.reshape(b, variance, shape), s.reshape(b, centre, shape)


def _std(b: Builder, a: Arguments) -> Term:
    return b("sqrt", _variance(b, a)[0])


def _scan(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x, axis = s.with_axis(b, _cast(b, a.input, a.dtype), a.dim)
        return s.reshape(b, b(name, x, axis=axis), a.input.shape)

    return rule


def _extreme_scan(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Result:
        x, axis = s.with_axis(b, a.input, a.dim)
        return [s.reshape(b, each, a.input.shape) for each in b.many(name, x, axis=axis)]

    return rule


def _logsumexp(b: Builder, a: Arguments) -> Term:
    axes = s.axes_of(b, a.dim, a.input.ndim)
    return b("logsumexp", a.input, axes=axes, keepdims=bool(a.keepdim))


def _sorted(b: Builder, a: Arguments) -> list[Term]:
    x, axis = s.with_axis(b, a.input, a.dim)
    result = b.many("sort", x, axis=axis, descending=bool(a.descending))
    return [s.reshape(b, each, a.input.shape) for each in result]


def _argsort(b: Builder, a: Arguments) -> Term:
    return _sorted(b, a)[1]


def _topk(b: Builder, a: Arguments) -> Result:
    x, axis = s.with_axis(b, a.input, a.dim)
    parts = b.many("sort", x, axis=axis, descending=bool(a.largest))
    count = s.integer(b, a.k)
    return [_like(b, s.narrow(b, part, axis, 0, count), a.input) for part in parts]


def _like(b: Builder, x: Term, original: Term) -> Term:
    return x if original.ndim else s.reshape(b, x, ())


def _at_rank(b: Builder, x: Term, axis: int, rank: int, *, keepdim: bool) -> list[Term]:
    parts = ordering.at_rank(b, x, axis, rank)
    return parts if keepdim else [s.squeeze(b, part, (axis,)) for part in parts]


def _kthvalue(b: Builder, a: Arguments) -> Result:
    x, axis = s.with_axis(b, a.input, a.dim)
    return [
        _like(b, part, a.input) for part in _at_rank(b, x, axis, a.k - 1, keepdim=bool(a.keepdim))
    ]


def _median(b: Builder, a: Arguments) -> Result:
    """Return the lower middle; nan if there is one (nan sorts last, so it is looked for)."""
    x = a.input if a.dim is not None else s.reshape(b, a.input, (-1,))
    x, axis = s.with_axis(b, x, a.dim or 0)
    rank = (x.shape[axis] - 1) // 2
    values, places = _at_rank(b, x, axis, rank, keepdim=bool(a.keepdim) and a.dim is not None)
    if x.kind is Kind.FLOAT:
        keep = bool(a.keepdim) and a.dim is not None
        missing = b("any", b("isnan", x), axes=(axis,), keepdims=keep)
        values = b("where", missing, math.nan, values)
        first = b("argmax", b("isnan", x), axis=axis)
        places = b("where", missing, s.unsqueeze(b, first, axis) if keep else first, places)
    return values if a.dim is None else [_like(b, values, a.input), _like(b, places, a.input)]


def _quantile(b: Builder, a: Arguments) -> Term:
    x = a.input if a.dim is not None else s.reshape(b, a.input, (-1,))
    x, axis = s.with_axis(b, x, a.dim or 0)
    ordered = b("sort", x, axis=axis, descending=False)
    quantiles = s.static_array(b, a.q)
    size = x.shape[axis]
    parts = [
        _between(b, ordered, axis, quantile * (size - 1), a.interpolation)
        for quantile in quantiles.reshape(-1).tolist()
    ]
    result = s.stack(b, parts, 0)
    if not a.keepdim:
        result = s.squeeze(b, result, (axis + 1,))
    elif a.dim is None:
        result = s.reshape(b, result, (-1, *[1] * a.input.ndim))
    return result if quantiles.ndim else s.reshape(b, result, result.shape[1:])


def _between(b: Builder, ordered: Term, axis: int, place: float, how: str) -> Term:
    low = math.floor(place)
    high = min(low + 1, ordered.shape[axis] - 1)
    beyond = float(place > low)
    weights = {"linear": place - low, "lower": 0.0, "higher": beyond, "midpoint": beyond / 2}
    weight = weights.get(how, float(round(place) - low))
    first = s.narrow(b, ordered, axis, low, low + 1)
    if not weight:
        return first
    return first + (s.narrow(b, ordered, axis, high, high + 1) - first) * float(weight)


def _vector_norm(b: Builder, a: Arguments) -> Term:
    x = _cast(b, a.input, a.dtype)
    return norms.vector_norm(b, x, a.ord, s.axes_of(b, a.dim, x.ndim), keepdims=bool(a.keepdim))


def _norm(b: Builder, a: Arguments) -> Term:
    order = a.p
    if order in {"fro", None}:
        order = 2
    if not isinstance(order, int | float):
        raise NotLoweredError(f"norm {order!r}")
    axes = s.axes_of(b, a.dim, a.input.ndim)
    return norms.vector_norm(b, a.input, order, axes, keepdims=bool(a.keepdim))


def _linalg_norm(b: Builder, a: Arguments) -> Term:
    if a.ord is None:
        axes = s.axes_of(b, a.dim, a.input.ndim)
        return norms.vector_norm(b, a.input, 2, axes, keepdims=bool(a.keepdim))
    if a.input.ndim == 1 or isinstance(a.dim, int):
        return _vector_norm(b, a)
    dim = (-2, -1) if a.dim is None else a.dim
    if len(dim) == 1:
        return _vector_norm(b, a)
    return _matrix(b, a.input, a.ord, dim, keepdim=bool(a.keepdim))


def _matrix_norm(b: Builder, a: Arguments) -> Term:
    return _matrix(b, a.input, a.ord, a.dim, keepdim=bool(a.keepdim))


def _matrix(b: Builder, x: Term, order: Any, dim: Any, *, keepdim: bool) -> Term:
    rows, columns = (s.axis_of(b, axis, x.ndim) for axis in dim)
    if order == "fro":
        return norms.vector_norm(b, x, 2, (rows, columns), keepdims=keepdim)
    if order in {"nuc", 2, -2}:
        moved = s.move_axis(b, x, [rows, columns], [x.ndim - 2, x.ndim - 1])
        values = b("singular_values", moved)
        name = {"nuc": "sum", 2: "amax", -2: "amin"}[order]
        result = b(name, values, axes=(values.ndim - 1,), keepdims=False)
    else:
        summed, kept = (rows, columns) if abs(order) == 1 else (columns, rows)
        total = b("sum", b("abs", x), axes=(summed,), keepdims=False)
        kept -= kept > summed
        result = b("amax" if order > 0 else "amin", total, axes=(kept,), keepdims=False)
    if keepdim:
        shape = [1 if axis in {rows, columns} else size for axis, size in enumerate(x.shape)]
        return s.reshape(b, result, shape)
    return result


def _counted(b: Builder, a: Arguments) -> Term:
    holds = s.as_kind(b, a.input, Kind.BOOL)
    return b("sum", holds, axes=s.axes_of(b, a.dim, holds.ndim), keepdims=False)


def _unique(b: Builder, a: Arguments) -> Result:
    if a.dim is not None:
        raise NotLoweredError("unique rows")
    values, inverse, counts = b.many("unique", a.input, count=b.expected[0].count)
    result = [values]
    if a.return_inverse:
        result.append(inverse)
    if a.return_counts:
        result.append(counts)
    return result


def _search(b: Builder, a: Arguments) -> Term:
    x = b.term(a.input)
    right = bool(a.right) or a.side == "right"
    sequence = a.sorted_sequence
    if a.sorter is not None:
        sequence = b("gather", sequence, a.sorter, axis=sequence.ndim - 1)
    return b("search", sequence, x, right=right)


def _bucketize(b: Builder, a: Arguments) -> Term:
    return b("search", a.boundaries, b.term(a.input), right=bool(a.right))


def _bincount(b: Builder, a: Arguments) -> Term:
    weights = a.weights
    if weights is None:
        weights = s.filled(b, a.input.shape, 1, Kind.INT)
    return b("bincount", a.input, weights, size=b.expected[0].count)


def _histogram(b: Builder, a: Arguments) -> Term:
    """Count elements in ranges of one width; those outside of all do not count."""
    low, high, x = a.min, a.max, s.reshape(b, a.input, (-1,))
    if low == high:  # between the elements' own ends
        low, high = (b(name, x, axes=(0,), keepdims=False) for name in ("amin", "amax"))
    place = b("floor", (x - low) / (high - low) * a.bins)
    place = b("maximum", b("minimum", place, a.bins - 1), 0)
    inside = s.as_kind(b, b("and", x >= low, x <= high), a.input.kind)
    return b("bincount", s.as_kind(b, place, Kind.INT), inside, size=a.bins)


def _diff(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.input.ndim)
    parts = [part for part in (a.prepend, a.input, a.append) if part is not None]
    x = b("concat", *parts, axis=axis) if len(parts) > 1 else a.input
    for _ in range(a.n):
        first = s.narrow(b, x, axis, 0, x.shape[axis] - 1)
        x = s.narrow(b, x, axis, 1, x.shape[axis])
        x = b("xor", x, first) if x.kind is Kind.BOOL else x - first
    return x


def _trapezoid(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.y.ndim)
    return b("sum", _strips(b, a, axis), axes=(axis,), keepdims=False)


def _strips(b: Builder, a: Arguments, axis: int) -> Term:
    """Return the area below each line between two neighbours."""
    low, high = s.narrow(b, a.y, axis, 0, -1), s.narrow(b, a.y, axis, 1, a.y.shape[axis])
    if a.x is None:
        return (low + high) * (0.5 * a.dx)
    if a.x.ndim != a.y.ndim:
        raise NotLoweredError("places of fewer axes")
    step = s.narrow(b, a.x, axis, 1, a.x.shape[axis]) - s.narrow(b, a.x, axis, 0, -1)
    return (low + high) * step * 0.5


def _running_trapezoid(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.dim, a.y.ndim)
    return b("cumsum", _strips(b, a, axis), axis=axis)


def _distance(b: Builder, a: Arguments) -> Term:
    apart = a.input - a.other
    return norms.vector_norm(b, apart, a.p, tuple(range(apart.ndim)), keepdims=False)


def _shortened(b: Builder, a: Arguments) -> Term:
    """Scale the parts along an axis whose norm is above the largest down to it."""
    axis = s.axis_of(b, a.dim, a.input.ndim)
    rest = tuple(place for place in range(a.input.ndim) if place != axis)
    size = norms.vector_norm(b, a.input, a.p, rest, keepdims=True)
    factor = b("where", size > a.maxnorm, a.maxnorm / (size + _GUARD), 1.0)
    return a.input * factor


def _membership(b: Builder, a: Arguments) -> Term:
    elements, test = b.term(a.elements), s.reshape(b, b.term(a.test_elements), (-1,))
    same = b("equal", s.unsqueeze(b, elements, -1), test)
    found = b("any", same, axes=(same.ndim - 1,), keepdims=False)
    return b("not", found) if a.invert else found


def _mode(b: Builder, a: Arguments) -> Result:
    x, axis = s.with_axis(b, a.input, a.dim)
    result = ordering.mode(b, x, axis)
    if not a.keepdim or not a.input.ndim:
        result = [s.squeeze(b, part, (axis,)) for part in result]
    return result


def _take_along(b: Builder, a: Arguments) -> Term:
    if a.dim is None:
        return gather(b, s.reshape(b, a.input, (-1,)), 0, s.reshape(b, a.indices, (-1,)))
    axis = s.axis_of(b, a.dim, a.input.ndim)
    shapes = [list(each.shape) for each in (a.input, a.indices)]
    shared = list(np.broadcast_shapes(*([*sh[:axis], 1, *sh[axis + 1 :]] for sh in shapes)))
    x, index = (
        s.expand(b, each, [*shared[:axis], each.shape[axis], *shared[axis + 1 :]])
        for each in (a.input, a.indices)
    )
    return gather(b, x, axis, index)


def _covariance(b: Builder, a: Arguments) -> Term:
    if a.fweights is not None or a.aweights is not None:
        raise NotLoweredError("weights of observations")
    x = a.input if a.input.ndim > 1 else s.reshape(b, a.input, (1, -1))
    _, rest, _ = s.moments(b, x, (1,))
    result = (rest @ s.swap(b, rest, 0, 1)) / float(x.shape[1] - a.correction)
    return result if a.input.ndim > 1 else s.reshape(b, result, ())


def _correlation(b: Builder, a: Arguments) -> Term:
    x = _covariance(
        b, Arguments({"input": a.input, "correction": 1, "fweights": None, "aweights": None})
    )
    scale = b("sqrt", b("diagonal", x, offset=0))
    result = x / s.unsqueeze(b, scale, 1) / s.unsqueeze(b, scale, 0)
    return b("minimum", b("maximum", result, -1.0), 1.0)


_GUARD = 1e-7
"""What torch.renorm adds to a norm before it divides by it."""
_REDUCED = "input, dim=None, keepdim=False, *, dtype=None"

ROWS: tuple[Row, ...] = (
    row("sum .sum", _REDUCED, _sum("sum")),
    row("nansum .nansum", _REDUCED, _nansum),
    row("mean .mean", _REDUCED, _mean),
    row("nanmean .nanmean", _REDUCED, _nanmean),
    row("prod .prod", _REDUCED, _prod),
    row("amax .amax", "input, dim=(), keepdim=False", _extreme("amax")),
    row("amin .amin", "input, dim=(), keepdim=False", _extreme("amin")),
    row("aminmax .aminmax", "input, *, dim=None, keepdim=False", _aminmax),
    row(
        "max .max", "input, dim=None, keepdim=False, *, other=None", _with_places("max", "maximum")
    ),
    row(
        "min .min", "input, dim=None, keepdim=False, *, other=None", _with_places("min", "minimum")
    ),
    row("argmax .argmax", "input, dim=None, keepdim=False", _place("argmax")),
    row("argmin .argmin", "input, dim=None, keepdim=False", _place("argmin")),
    row("all .all", "input, dim=None, keepdim=False", _logical("all")),
    row("any .any", "input, dim=None, keepdim=False", _logical("any")),
    row("_is_all_true", "input, dim=None, keepdim=False", _logical("all")),
    row("_is_any_true", "input, dim=None, keepdim=False", _logical("any")),
    row(
        "var .var",
        "input, dim=None, unbiased=None, keepdim=False, *, correction=None",
        lambda b, a: _variance(b, a)[0],
    ),
    row("std .std", "input, dim=None, unbiased=None, keepdim=False, *, correction=None", _std),
    row("var_mean", "input, dim=None, unbiased=None, keepdim=False, *, correction=None", _variance),
    row(
        "std_mean",
        "input, dim=None, unbiased=None, keepdim=False, *, correction=None",
        lambda b, a: (_std(b, a), _variance(b, a)[1]),
    ),
    row("cumsum .cumsum .cumsum_", "input, dim, *, dtype=None", _scan("cumsum")),
    row("cumprod .cumprod .cumprod_", "input, dim, *, dtype=None", _scan("cumprod")),
    row("logcumsumexp .logcumsumexp", "input, dim, *, dtype=None", _scan("logcumsumexp")),
    row("cummax .cummax", "input, dim", _extreme_scan("cummax")),
    row("cummin .cummin", "input, dim", _extreme_scan("cummin")),
    row("logsumexp .logsumexp special.logsumexp", "input, dim, keepdim=False", _logsumexp),
    row("sort .sort", "input, dim=-1, descending=False, *, stable=False", _sorted),
    row("msort .msort", "input, *, dim=0, descending=False", lambda b, a: _sorted(b, a)[0]),
    row("argsort .argsort", "input, dim=-1, descending=False, *, stable=False", _argsort),
    row("topk .topk", "input, k, dim=-1, largest=True, sorted=True", _topk),
    row("kthvalue .kthvalue", "input, k, dim=-1, keepdim=False", _kthvalue),
    row("median .median", "input, dim=None, keepdim=False", _median),
    row("mode .mode", "input, dim=-1, keepdim=False", _mode),
    row(
        "quantile .quantile",
        "input, q, dim=None, keepdim=False, *, interpolation='linear'",
        _quantile,
    ),
    row("linalg.vector_norm", "input, ord=2, dim=None, keepdim=False, *, dtype=None", _vector_norm),
    row("norm .norm aten.norm", "input, p='fro', dim=None, keepdim=False, dtype=None", _norm),
    row("linalg.norm", "input, ord=None, dim=None, keepdim=False, *, dtype=None", _linalg_norm),
    row(
        "linalg.matrix_norm",
        "input, ord='fro', dim=(-2, -1), keepdim=False, *, dtype=None",
        _matrix_norm,
    ),
    row("count_nonzero .count_nonzero", "input, dim=None", _counted),
    row(
        "unique .unique",
        "input, sorted=True, return_inverse=False, return_counts=False, dim=None",
        _unique,
    ),
    row(
        "searchsorted",
        "sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None",
        _search,
    ),
    row("bucketize", "input, boundaries, *, out_int32=False, right=False", _bucketize),
    row("bincount .bincount", "input, weights=None, minlength=0", _bincount),
    row("histc .histc", "input, bins=100, min=0, max=0", _histogram),
    row("diff .diff", "input, n=1, dim=-1, prepend=None, append=None", _diff),
    row("trapezoid trapz", "y, x=None, *, dx=1, dim=-1", _trapezoid),
    row("cumulative_trapezoid", "y, x=None, *, dx=1, dim=-1", _running_trapezoid),
    row("dist .dist", "input, other, p=2", _distance),
    row("renorm .renorm .renorm_", "input, p, dim, maxnorm", _shortened),
    row("isin", "elements, test_elements, *, assume_unique=False, invert=False", _membership),
    row("take_along_dim .take_along_dim", "input, indices, dim=None", _take_along),
    row("cov .cov", "input, *, correction=1, fweights=None, aweights=None", _covariance),
    row("corrcoef .corrcoef", "input", _correlation),
)
