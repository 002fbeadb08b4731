"""Primitives that combine the elements along axes: sums, extremes, scans, softmax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .elementwise import WORK_OF_A_FUNCTION
from .spec import Array, Kind, Primitive, Spec, axis_of, check, normal_axes

SHORT_AXIS = 32
"""Axes up to this length are reduced slice by slice: numpy is slow on short inner axes."""


def _reduced_shape(x: Spec, axes: object, keepdims: object) -> tuple[int, ...]:
    check(type(keepdims) is bool, "a bool for keepdims", keepdims)
    gone = set(normal_axes(axes, x.ndim)) if x.ndim else set()
    if keepdims:
        return tuple(1 if axis in gone else size for axis, size in enumerate(x.shape))
    return tuple(size for axis, size in enumerate(x.shape) if axis not in gone)


def _sum_spec(x: Spec, *, axes: object, keepdims: object) -> Spec:
    kind = Kind.INT if x.kind is Kind.BOOL else x.kind
    return Spec(kind, _reduced_shape(x, axes, keepdims))


def _extreme_spec(x: Spec, *, axes: object, keepdims: object) -> Spec:
    check(x.kind is not Kind.COMPLEX, "real numbers", x.kind)
    _check_not_empty(x, axes)
    return Spec(x.kind, _reduced_shape(x, axes, keepdims))


def _check_not_empty(x: Spec, axes: object) -> None:
    if x.ndim:
        sizes = [x.shape[axis] for axis in normal_axes(axes, x.ndim)]
        check(0 not in sizes, "elements along the axes", x.shape)


def _logical_spec(x: Spec, *, axes: object, keepdims: object) -> Spec:
    check(x.kind is Kind.BOOL, "bools", x.kind)
    return Spec(Kind.BOOL, _reduced_shape(x, axes, keepdims))


def _real_sum_spec(x: Spec, *, axes: object, keepdims: object) -> Spec:
    check(x.kind is not Kind.COMPLEX, "real numbers", x.kind)
    return Spec(Kind.FLOAT, _reduced_shape(x, axes, keepdims))


def _position_spec(x: Spec, *, axis: object) -> Spec:
    check(x.kind is not Kind.COMPLEX and x.ndim > 0, "real numbers with an axis", x)
    axis = axis_of(axis, x.ndim)
    check(x.shape[axis] > 0, "elements along the axis", x.shape)
    return Spec(Kind.INT, x.shape[:axis] + x.shape[axis + 1 :])


def _scan_spec(x: Spec, *, axis: object) -> Spec:
    axis_of(axis, x.ndim)
    check(x.ndim > 0, "an axis", x.shape)
    return Spec(Kind.INT if x.kind is Kind.BOOL else x.kind, x.shape)


def _float_scan_spec(x: Spec, *, axis: object, **_: object) -> Spec:
    check(x.kind is not Kind.COMPLEX and x.ndim > 0, "real numbers with an axis", x)
    axis_of(axis, x.ndim)
    return Spec(Kind.FLOAT, x.shape)


def _extreme_scan_spec(x: Spec, *, axis: object) -> tuple[Spec, ...]:
    check(x.kind is not Kind.COMPLEX and x.ndim > 0, "real numbers with an axis", x)
    axis_of(axis, x.ndim)
    return x, Spec(Kind.INT, x.shape)


def _reduction(function: np.ufunc) -> Callable[..., Array]:
    def run(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
        if not x.ndim:
            axes = ()
        short = _one_short_axis(x, axes)
        if short is None:
            return np.asarray(function.reduce(x, axis=axes, keepdims=keepdims, dtype=_wide(x)))
        return _slice_by_slice(function, x, short, keepdims=keepdims)

    def _wide(x: Array) -> np.dtype[np.generic] | None:
        adds = function in {np.add, np.multiply}
        return np.dtype(np.int64) if adds and x.dtype.kind == "b" else None

    return run


def _one_short_axis(x: Array, axes: tuple[int, ...]) -> int | None:
    """Return the axis if there is one, short and not the slowest to walk over by itself."""
    if len(axes) != 1 or x.dtype.kind == "b":
        return None
    axis = axes[0] % x.ndim
    length = x.shape[axis]
    return axis if 0 < length <= SHORT_AXIS and x.size >= SHORT_AXIS * length else None


def _slice_by_slice(function: np.ufunc, x: Array, axis: int, *, keepdims: bool) -> Array:
    parts = np.moveaxis(x, axis, 0)
    result = np.array(parts[0])
    for part in parts[1:]:
        function(result, part, out=result)
    return np.expand_dims(result, axis) if keepdims else result


def _position(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(x: Array, *, axis: int) -> Array:
        return np.asarray(function(x, axis=axis))

    return run


def _scan(function: np.ufunc) -> Callable[..., Array]:
    def run(x: Array, *, axis: int) -> Array:
        wide = np.dtype(np.int64) if x.dtype.kind == "b" else None
        return np.asarray(function.accumulate(x, axis=axis, dtype=wide))

    return run


def _extreme_scan(function: np.ufunc) -> Callable[..., tuple[Array, ...]]:
    """Scan extremes; the index is the last place where an element is not behind the extreme."""

    def run(x: Array, *, axis: int) -> tuple[Array, ...]:
        values = np.asarray(function.accumulate(x, axis=axis))
        reached = (x == values) | (np.isnan(values) & np.isnan(x))
        shape = [1] * x.ndim
        shape[axis] = x.shape[axis]
        places = np.arange(x.shape[axis]).reshape(shape)
        return values, np.maximum.accumulate(np.where(reached, places, 0), axis=axis)

    return run


def _shifted(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the elements minus their largest, and the largest (0 where it is infinite)."""
    x = x.astype(np.float64, copy=False)
    largest = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return x - largest, largest


def _softmax(x: Array, *, axis: int, least: float = -np.inf) -> Array:
    shifted, _ = _shifted(x, axis)
    np.maximum(shifted, least, out=shifted)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=axis, keepdims=True)
    return shifted


def _log_softmax(x: Array, *, axis: int) -> Array:
    shifted, _ = _shifted(x, axis)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


def _logsumexp(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    x = x.astype(np.float64, copy=False)
    axes = axes if x.ndim else ()
    largest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest) | np.isnan(largest), largest, 0)
    total = np.log(np.exp(x - largest).sum(axis=axes, keepdims=True)) + largest
    return np.asarray(total if keepdims else np.squeeze(total, axis=axes))


def _function_work(x: Spec, **_: object) -> int:
    return WORK_OF_A_FUNCTION * x.count


def _row(
    name: str, infer: Callable[..., Spec | tuple[Spec, ...]], run: Callable[..., object]
) -> Primitive:
    return Primitive(name=name, arity=(1, 1), infer=infer, run=run, workspace=_copy_bytes)


def _copy_bytes(x: Spec, **_: object) -> int:
    return 3 * x.count * 8


PRIMITIVES: tuple[Primitive, ...] = (
    _row("sum", _sum_spec, _reduction(np.add)),
    _row("prod", _sum_spec, _reduction(np.multiply)),
    _row("amax", _extreme_spec, _reduction(np.maximum)),
    _row("amin", _extreme_spec, _reduction(np.minimum)),
    _row("all", _logical_spec, _reduction(np.logical_and)),
    _row("any", _logical_spec, _reduction(np.logical_or)),
    _row("argmax", _position_spec, _position(np.argmax)),
    _row("argmin", _position_spec, _position(np.argmin)),
    _row("cumsum", _scan_spec, _scan(np.add)),
    _row("cumprod", _scan_spec, _scan(np.multiply)),
    _row("cummax", _extreme_scan_spec, _extreme_scan(np.maximum)),
    _row("cummin", _extreme_scan_spec, _extreme_scan(np.minimum)),
    _row("logcumsumexp", _float_scan_spec, _scan(np.logaddexp)),
    *(
        Primitive(
            name=name,
            arity=(1, 1),
            infer=infer,
            run=run,
            work=_function_work,
            workspace=_copy_bytes,
        )
        for name, infer, run in (
            ("softmax", _float_scan_spec, _softmax),
            ("log_softmax", _float_scan_spec, _log_softmax),
            ("logsumexp", _real_sum_spec, _logsumexp),
        )
    ),
)
