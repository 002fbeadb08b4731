"""Operators that work on each element by itself, of one tensor, of two or of three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.ops.cases import Fill

from .row import Row, row
from .strategies import FINITE, binary, unary

if TYPE_CHECKING:
    from .draw import Draw
    from .row import Arguments

_X = "input:x"
_XY = "input:x other:y"
_FLOATS = ("float32", "float64")
_WHOLE = ("int64", "int32")
_LOGICAL = ("bool", "float32", "int64")
_MODERATE = (Fill.NORMAL, Fill.SMALL)


def _clamp(draw: Draw) -> Arguments:
    bounds = {"min": draw.choice((-0.5, -1.0)), "max": draw.choice((0.5, 1.0))}
    kept = draw.choice((("min", "max"), ("min",), ("max",)))
    dtype = draw.float_dtype()
    return {"input": draw.tensor(draw.shape(), dtype), **{name: bounds[name] for name in kept}}


def _where(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), draw.shape(0, 3)
    return {
        "condition": draw.tensor(draw.broadcast(shape), "bool"),
        "input": draw.tensor(shape, dtype),
        "other": draw.tensor(draw.broadcast(shape), dtype),
    }


def _lerp(draw: Draw) -> Arguments:
    dtype, shape = draw.float_dtype(), draw.shape(0, 3)
    weight = draw.tensor(shape, dtype, low=0, high=1) if draw.flag() else 0.3
    found = {name: draw.tensor(shape, dtype, fills=FINITE) for name in ("input", "end")}
    return {**found, "weight": weight}


def _isclose(draw: Draw) -> Arguments:
    found = dict(binary(dtypes=_FLOATS, fills=FINITE)(draw))
    draw.optional(found, "rtol", (1e-3, 0.5))
    draw.optional(found, "atol", (1e-3, 0.5))
    draw.optional(found, "equal_nan", (True, False))
    return found


_ANY = unary()
_FINITE = unary(fills=FINITE)
_MILD = unary(fills=_MODERATE)
_POSITIVE = unary(low=0)

ROWS: tuple[Row, ...] = (
    *(
        row(name, "", _X, _ANY)
        for name in [
            "abs",
            "ceil",
            "floor",
            "neg",
            "sqrt",
            "square",
            "tanh",
            "sigmoid",
            "erf",
            "exp",
            "expm1",
            "reciprocal",
            "atan",
            "asinh",
            "isnan",
            "isinf",
            "isfinite",
            "frac",
        ]
    ),
    row("trunc", "", "", _ANY),
    *(row(name, "", _X, _FINITE) for name in ["sin", "cos"]),
    *(row(name, "", _X, _MILD) for name in ["tan", "sinh", "cosh"]),
    *(row(name, "", _X, _POSITIVE) for name in ["log", "log2", "log10", "log1p", "rsqrt"]),
    *(
        row(name, "", _X, unary(low=-0.999, high=0.999))
        for name in ["asin", "acos", "atanh", "erfinv"]
    ),
    row("acosh", "", _X, unary(low=1)),
    row("lgamma", "", _X, unary(low=0.2), least=1),
    row("digamma", "", _X, unary(low=-15, high=10), least=4),
    row(
        "sign",
        "",
        _X,
        unary(fills=FINITE, takes_gradient=False),
        note="sign(nan) is 0 in torch and nan in Paddle",
    ),
    row("round", "", _X, _ANY),
    row("logit", "", _X, unary(low=0.01, high=0.99, options={"eps": (1e-6, 0.1)})),
    row("nan_to_num", "", _X, unary(options={"nan": (0.5,), "posinf": (7.0,), "neginf": (-7.0,)})),
    row("deg2rad", "", _X, _FINITE),
    row("rad2deg", "", _X, _FINITE),
    row("i0", "", _X, _MILD),
    row("sinc", "", _X, _MILD, least=16),
    row("signbit", "", _X, _FINITE),
    row("clamp", "clip", _X, _clamp),
    row("logical_not", "", _X, unary(dtypes=_LOGICAL)),
    row("bitwise_not", "", _X, unary(dtypes=("bool", *_WHOLE))),
    row("add", "", _XY, binary()),
    row("sub", "subtract", _XY, binary()),
    row("mul", "multiply", _XY, binary()),
    row("div", "divide", _XY, binary(dtypes=_FLOATS)),
    row("remainder", "", _XY, binary(dtypes=_FLOATS, other_low=0.1, fills=_MODERATE)),
    row("floor_divide", "", _XY, binary(dtypes=_WHOLE, other_low=1)),
    row("maximum", "", _XY, binary()),
    row("minimum", "", _XY, binary()),
    row("fmax", "", _XY, binary(dtypes=_FLOATS)),
    row("fmin", "", _XY, binary(dtypes=_FLOATS)),
    row(
        "pow",
        "",
        "input:x exponent:y",
        binary(names="input exponent", dtypes=_FLOATS, low=0.1, fills=_MODERATE),
    ),
    row("atan2", "", _XY, binary(dtypes=_FLOATS, fills=(Fill.NORMAL,))),
    row("hypot", "", _XY, binary(dtypes=_FLOATS, fills=(Fill.NORMAL,))),
    row("copysign", "", _XY, binary(dtypes=_FLOATS, fills=FINITE)),
    row(
        "heaviside",
        "",
        "input:x values:y",
        binary(names="input values", dtypes=_FLOATS, takes_gradient=False),
    ),
    row("nextafter", "", _XY, binary(dtypes=_FLOATS, fills=FINITE, takes_gradient=False)),
    row("logaddexp", "", _XY, binary(dtypes=_FLOATS, fills=FINITE)),
    row("lerp", "", "input:x end:y", _lerp),
    row("where", "", "input:x other:y", _where),
    *(
        row(name, paddle, _XY, binary(fills=tuple(Fill)))
        for name, paddle in {
            "eq": "equal",
            "ne": "not_equal",
            "lt": "less_than",
            "le": "less_equal",
            "gt": "greater_than",
            "ge": "greater_equal",
        }.items()
    ),
    *(
        row(name, "", _XY, binary(dtypes=_LOGICAL))
        for name in ["logical_and", "logical_or", "logical_xor"]
    ),
    *(
        row(name, "", _XY, binary(dtypes=("bool", *_WHOLE)))
        for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]
    ),
    row("isclose", "", _XY, _isclose),
)
