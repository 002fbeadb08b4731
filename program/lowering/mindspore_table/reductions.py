"""Operators of MindSpore that reduce along axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind

from .elementwise import kind_of

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term


def _axes(b: Builder, a: Arguments) -> tuple[int, ...]:
    axis = () if a.axis is None else a.axis
    return s.axes_of(b, axis, a.x.ndim)


def _sum(b: Builder, a: Arguments) -> Term:
    counted = Kind.INT if a.x.kind is Kind.BOOL else a.x.kind
    x = s.as_kind(b, a.x, kind_of(a.dtype, counted))
    return b("sum", x, axes=_axes(b, a), keepdims=bool(a.keepdim))


def _mean(b: Builder, a: Arguments) -> Term:
    return s.mean(b, s.as_float(b, a.x), _axes(b, a), keepdims=bool(a.keepdim))


def _reduced(name: str) -> Rule:
    return lambda b, a: b(name, a.x, axes=_axes(b, a), keepdims=bool(a.keepdim))


def _logical(name: str) -> Rule:
    return lambda b, a: b(
        name, s.as_kind(b, a.x, Kind.BOOL), axes=_axes(b, a), keepdims=bool(a.keepdim)
    )


def _place(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        if a.axis is None:
            return b(name, s.reshape(b, a.x, (-1,)), axis=0, keepdims=False)
        return b(name, a.x, axis=s.axis_of(b, a.axis, a.x.ndim), keepdims=bool(a.keepdim))

    return rule


def _extreme_and_place(b: Builder, a: Arguments, name: str) -> tuple[Term, Term]:
    axis, keepdims = s.axis_of(b, a.axis, a.x.ndim), bool(a.keepdim)
    value = b(f"a{name}", a.x, axes=(axis,), keepdims=keepdims)
    return b(f"arg{name}", a.x, axis=axis, keepdims=keepdims), value


def _with_place(name: str) -> Rule:
    """Return the place of an extreme, and the extreme."""
    return lambda b, a: _extreme_and_place(b, a, name)


def _extreme(name: str) -> Rule:
    """Return an extreme of all elements, or those along an axis with their places."""

    def rule(b: Builder, a: Arguments) -> Result:
        if a.axis is None:
            return b(f"a{name}", a.x, axes=tuple(range(a.x.ndim)), keepdims=False)
        place, value = _extreme_and_place(b, a, name)
        return [value, place]

    return rule


def _variance(b: Builder, a: Arguments) -> Term:
    axes = _axes(b, a)
    _, found = s.variance(b, a.x, axes, float(a.correction))
    kept = [1 if axis in axes else size for axis, size in enumerate(a.x.shape)]
    dropped = [size for axis, size in enumerate(a.x.shape) if axis not in axes]
    return s.reshape(b, found, kept if a.keepdim else dropped)


def _logsumexp(b: Builder, a: Arguments) -> Term:
    return b("logsumexp", a.x, axes=_axes(b, a), keepdims=bool(a.keepdim))


_SETTINGS = "x, axis=None, keepdim=False"

ROWS: tuple[Row, ...] = (
    row("ReduceSum", f"{_SETTINGS}, skip_mode=False, dtype=None", _sum),
    row("SumExt mint.sum", f"{_SETTINGS}, dtype=None", _sum),
    row(".sum", "x, axis=None, dtype=None, keepdim=False, initial=None", _sum),
    row("ReduceMean MeanExt .mean mint.mean", f"{_SETTINGS}, dtype=None", _mean),
    row("ReduceMax AMax", _SETTINGS, _reduced("amax")),
    row("ReduceMin AMin", _SETTINGS, _reduced("amin")),
    row(".max mint.max", _SETTINGS, _extreme("max")),
    row(".min mint.min", _SETTINGS, _extreme("min")),
    row("Max", "x", lambda b, a: b("amax", a.x, axes=tuple(range(a.x.ndim)), keepdims=False)),
    row("Min", "x", lambda b, a: b("amin", a.x, axes=tuple(range(a.x.ndim)), keepdims=False)),
    row("ReduceProd ProdExt", f"{_SETTINGS}, dtype=None", _reduced("prod")),
    row("ReduceAll .all", _SETTINGS, _logical("all")),
    row("ReduceAny .any", _SETTINGS, _logical("any")),
    row("Argmax ArgMaxExt .argmax", "x, axis=-1, keepdim=False, output_type=None",
        _place("argmax")),
    row("Argmin ArgMinExt .argmin", "x, axis=-1, keepdim=False, output_type=None",
        _place("argmin")),
    row("ArgMaxWithValue", "x, axis=0, keepdim=False", _with_place("max")),
    row("ArgMinWithValue", "x, axis=0, keepdim=False", _with_place("min")),
    row("Var", "x, axis=None, correction=1, keepdim=False", _variance),
    row("Std", "x, axis=None, correction=1, keepdim=False",
        lambda b, a: b("sqrt", _variance(b, a))),
    row("LogSumExp .logsumexp", "x, axis, keepdim=False", _logsumexp),
    row("CumSum", "x, axis, exclusive=False, reverse=False",
        lambda b, a: b("cumsum", a.x, axis=s.axis_of(b, a.axis, a.x.ndim))),
    row("CumsumExt .cumsum", "x, axis, dtype=None",
        lambda b, a: b("cumsum", a.x, axis=s.axis_of(b, a.axis, a.x.ndim))),
)  # fmt: skip
