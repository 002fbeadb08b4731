"""Operators of Paddle that reduce, scan, sort or look for places."""

from __future__ import annotations

from typing import Any

from padiff.program.graph import Dtype
from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind

__all__ = ["ROWS"]


def _axes(b: Builder, a: Arguments) -> tuple[int, ...]:
    return s.axes_of(b, a.axis, a.x.ndim)


def kind_of(dtype: Any, otherwise: Kind) -> Kind:
    """Return the kind of a dtype that may be undefined."""
    undefined = not isinstance(dtype, Dtype) or dtype.name.lower() == "undefined"
    return otherwise if undefined else Kind.of_dtype(dtype.name)


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


def _reduced_all(name: str) -> Rule:
    """Reduce what has its own switch for all axes."""

    def rule(b: Builder, a: Arguments) -> Term:
        axes = tuple(range(a.x.ndim)) if a.reduce_all else _axes(b, a)
        return b(name, a.x, axes=axes, keepdims=bool(a.keepdim))

    return rule


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


def _with_axis(b: Builder, x: Term, axis: Any) -> tuple[Term, int]:
    x = x if x.ndim else s.reshape(b, x, (1,))
    return x, s.axis_of(b, axis, x.ndim)


def _scan(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = s.reshape(b, a.x, (-1,)) if getattr(a, "flatten", False) else a.x
        shape = x.shape
        x, axis = _with_axis(b, x, a.axis)
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
    axes = tuple(range(a.x.ndim)) if a.reduce_all else _axes(b, a)
    return b("logsumexp", a.x, axes=axes, keepdims=bool(a.keepdim))


def _argsort(b: Builder, a: Arguments) -> Result:
    x, axis = _with_axis(b, a.x, a.axis)
    parts = b.many("sort", x, axis=axis, descending=bool(a.descending))
    return [s.reshape(b, part, a.x.shape) for part in parts]


def _topk(b: Builder, a: Arguments) -> Result:
    x, axis = _with_axis(b, a.x, a.axis)
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


_REDUCED = "x, axis=(), keepdim=False"

ROWS: tuple[Row, ...] = (
    row("sum", "x, axis=(), dtype=None, keepdim=False", _sum),
    row("mean", _REDUCED, _mean),
    row("mean_all", "x", _mean_all),
    row("max amax", _REDUCED, _reduced("amax")),
    row("min amin", _REDUCED, _reduced("amin")),
    row("prod", "x, axis, keepdim, reduce_all", _reduced_all("prod")),
    row("all", _REDUCED, _logical("all")),
    row("any", _REDUCED, _logical("any")),
    row("argmax", "x, axis=None, keepdim=False, dtype=None", _place("argmax")),
    row("argmin", "x, axis=None, keepdim=False, dtype=None", _place("argmin")),
    row("cumsum", "x, axis=-1, flatten=False, exclusive=False, reverse=False", _scan("cumsum")),
    row("cumprod", "x, axis, exclusive=False, reverse=False", _scan("cumprod")),
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
