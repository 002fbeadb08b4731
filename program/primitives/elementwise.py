"""Primitives that work on each element by itself, with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import special
from .spec import Array, Infer, Kind, Primitive, Spec, broadcast, check, float_kind, promote

WORK_OF_A_FUNCTION = 20
"""Cost of one transcendental function in multiplications, measured for exp and erf in numpy."""


def _same(x: Spec) -> Spec:
    check(x.kind is not Kind.BOOL, "numbers", x.kind)
    return x


def _real(x: Spec) -> Spec:
    check(x.kind in {Kind.INT, Kind.FLOAT}, "real numbers", x.kind)
    return x


def _floating(x: Spec) -> Spec:
    return Spec(float_kind(x.kind), x.shape)


def _float(x: Spec) -> Spec:
    check(x.kind is not Kind.COMPLEX, "real numbers", x.kind)
    return Spec(Kind.FLOAT, x.shape)


def _magnitude(x: Spec) -> Spec:
    return Spec(Kind.FLOAT if x.kind is Kind.COMPLEX else x.kind, x.shape)


def _imaginary(x: Spec) -> Spec:
    check(x.kind is Kind.COMPLEX, "complex numbers", x.kind)
    return Spec(Kind.FLOAT, x.shape)


def _predicate(x: Spec) -> Spec:
    return Spec(Kind.BOOL, x.shape)


def _bits(*specs: Spec) -> Spec:
    kind = promote(*specs)
    check(kind in {Kind.BOOL, Kind.INT}, "integers or bools", kind)
    return Spec(kind, broadcast(*(spec.shape for spec in specs)))


def _shifts(x: Spec, y: Spec) -> Spec:
    check(x.kind is Kind.INT and y.kind is Kind.INT, "integers", x.kind, y.kind)
    return Spec(Kind.INT, broadcast(x.shape, y.shape))


def _promoted(x: Spec, y: Spec) -> Spec:
    return Spec(promote(x, y), broadcast(x.shape, y.shape))


def _promoted_real(x: Spec, y: Spec) -> Spec:
    kind = promote(x, y)
    check(kind is not Kind.COMPLEX, "real numbers", kind)
    return Spec(kind, broadcast(x.shape, y.shape))


def _divided(x: Spec, y: Spec) -> Spec:
    return Spec(float_kind(promote(x, y)), broadcast(x.shape, y.shape))


def _float_pair(x: Spec, y: Spec) -> Spec:
    return Spec(Kind.FLOAT, _promoted_real(x, y).shape)


def _compared(x: Spec, y: Spec) -> Spec:
    return Spec(Kind.BOOL, broadcast(x.shape, y.shape))


def _combined(x: Spec, y: Spec) -> Spec:
    return Spec(Kind.COMPLEX, _promoted_real(x, y).shape)


def _chosen(condition: Spec, x: Spec, y: Spec) -> Spec:
    check(condition.kind is Kind.BOOL, "a condition of bools", condition.kind)
    return Spec(promote(x, y), broadcast(condition.shape, x.shape, y.shape))


def _cast_spec(x: Spec, *, kind: object) -> Spec:
    return Spec(Kind(str(kind)), x.shape)


def _cast(x: Array, *, kind: str) -> Array:
    """Convert; a float becomes an integer by leaving its fraction away, as frameworks do."""
    if x.dtype.kind == "c" and kind != Kind.COMPLEX:
        x = x != 0 if kind == Kind.BOOL else x.real
    return x.astype(Kind(kind).dtype, copy=False)


def sigmoid(x: Array) -> Array:
    """Compute the logistic function without overflow."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, decay) / (1 + decay)


def _softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def _sign(x: Array) -> Array:
    return np.sign(x)


def _power(x: Array, y: Array) -> Array:
    """Raise to a power; integers of negative powers are what integer division leaves of them."""
    if np.result_type(x, y).kind not in "bi":
        return np.power(x, y)
    x, y = x.astype(np.int64), y.astype(np.int64)
    whole = np.power(x, np.maximum(y, 0))
    inverse = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y % 2), 0))
    return np.where(y < 0, inverse, whole)


def _floor_divide(x: Array, y: Array) -> Array:
    return np.floor_divide(x, y, dtype=_at_least_int(x, y))


def _modulo(x: Array, y: Array) -> Array:
    return np.mod(x, y, dtype=_at_least_int(x, y))


def _remainder(x: Array, y: Array) -> Array:
    return np.fmod(x, y, dtype=_at_least_int(x, y))


def _at_least_int(x: Array, y: Array) -> np.dtype[np.generic]:
    return np.result_type(x, y, np.int64)


def _integral_pair(x: Spec, y: Spec) -> Spec:
    spec = _promoted_real(x, y)
    return Spec(Kind.INT, spec.shape) if spec.kind is Kind.BOOL else spec


def _complex(x: Array, y: Array) -> Array:
    result = np.empty(np.broadcast_shapes(x.shape, y.shape), np.complex128)
    result.real, result.imag = x, y
    return result


def _shift_left(x: Array, y: Array) -> Array:
    return np.where((y < 0) | (y > 63), 0, np.left_shift(x, np.clip(y, 0, 63)))  # noqa: PLR2004


def _shift_right(x: Array, y: Array) -> Array:
    return np.right_shift(x, np.where(y < 0, 63, np.minimum(y, 63)))


def _floating_function(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        return function(x if x.dtype.kind == "c" else x.astype(np.float64, copy=False))

    return run


def _whole(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        return x if x.dtype.kind == "i" else function(x)

    return run


def _function_work(*specs: Spec, **_: object) -> int:
    return WORK_OF_A_FUNCTION * max(spec.count for spec in specs)


_CHEAP: dict[str, tuple[int, Infer, Callable[..., Array]]] = {
    "neg": (1, _same, np.negative),
    "abs": (1, _magnitude, np.abs),
    "sign": (1, _same, _sign),
    "floor": (1, _real, _whole(np.floor)),
    "ceil": (1, _real, _whole(np.ceil)),
    "trunc": (1, _real, _whole(np.trunc)),
    "round": (1, _real, _whole(np.rint)),
    "isnan": (1, _predicate, np.isnan),
    "isinf": (1, _predicate, np.isinf),
    "not": (1, _bits, np.invert),
    "real": (1, _magnitude, np.real),
    "imag": (1, _imaginary, np.imag),
    "conj": (1, _same, np.conj),
    "add": (2, _promoted, np.add),
    "sub": (2, _promoted, np.subtract),
    "mul": (2, _promoted, np.multiply),
    "div": (2, _divided, np.true_divide),
    "floor_divide": (2, _integral_pair, _floor_divide),
    "modulo": (2, _integral_pair, _modulo),
    "remainder": (2, _integral_pair, _remainder),
    "maximum": (2, _promoted_real, np.maximum),
    "minimum": (2, _promoted_real, np.minimum),
    "copysign": (2, _float_pair, np.copysign),
    "equal": (2, _compared, np.equal),
    "less": (2, _compared, np.less),
    "less_equal": (2, _compared, np.less_equal),
    "and": (2, _bits, np.bitwise_and),
    "or": (2, _bits, np.bitwise_or),
    "xor": (2, _bits, np.bitwise_xor),
    "shift_left": (2, _shifts, _shift_left),
    "shift_right": (2, _shifts, _shift_right),
    "complex": (2, _combined, _complex),
    "where": (3, _chosen, np.where),
}
"""Name: number of operands, shape rule, implementation; about one cycle an element."""

_OF_NUMBERS: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": sigmoid,
}
_OF_REALS: dict[str, Callable[..., Array]] = {
    "softplus": _softplus,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "bessel_i0e": special.bessel_i0e,
    "bessel_i1e": special.bessel_i1e,
}
_FUNCTIONS: dict[str, tuple[int, Infer, Callable[..., Array]]] = {
    **{name: (1, _floating, _floating_function(run)) for name, run in _OF_NUMBERS.items()},
    **{name: (1, _float, _floating_function(run)) for name, run in _OF_REALS.items()},
    "pow": (2, _promoted, _power),
    "atan2": (2, _float_pair, np.arctan2),
    "logaddexp": (2, _float_pair, np.logaddexp),
}
"""The same for transcendental functions."""


def _polygamma_spec(x: Spec, *, order: object) -> Spec:
    check(type(order) is int and 1 <= order <= special.LARGEST_ORDER, "an order from 1", order)
    return _float(x)


def _polygamma(x: Array, *, order: int) -> Array:
    return special.polygamma(order, x.astype(np.float64, copy=False))


def _row(
    name: str, arity: int, infer: Infer, run: Callable[..., Array], *, costly: bool
) -> Primitive:
    work = _function_work if costly else None
    return Primitive(name=name, arity=(arity, arity), infer=infer, run=run, work=work)


PRIMITIVES: tuple[Primitive, ...] = (
    *(_row(name, *row, costly=False) for name, row in _CHEAP.items()),
    *(_row(name, *row, costly=True) for name, row in _FUNCTIONS.items()),
    Primitive(name="cast", arity=(1, 1), infer=_cast_spec, run=_cast),
    Primitive(
        name="polygamma", arity=(1, 1), infer=_polygamma_spec, run=_polygamma, work=_function_work
    ),
)
