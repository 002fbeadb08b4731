"""Arithmetic, comparisons, functions and reductions of JAX."""

from __future__ import annotations

import functools
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, binary, row, unary
from padiff.program.primitives import Kind

_UNARY = {
    "neg": "neg", "abs": "abs", "sign": "sign", "floor": "floor", "ceil": "ceil", "exp": "exp",
    "expm1": "expm1", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "sin": "sin", "cos": "cos",
    "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "logistic": "sigmoid",
    "erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "lgamma": "lgamma", "digamma": "digamma",
    "bessel_i0e": "bessel_i0e", "bessel_i1e": "bessel_i1e", "not": "not", "real": "real",
    "imag": "imag",
}  # fmt: skip
_BINARY = {
    "add": "add", "add_any": "add", "sub": "sub", "mul": "mul", "max": "maximum", "min": "minimum",
    "rem": "remainder", "atan2": "atan2", "eq": "equal", "lt": "less", "le": "less_equal",
    "and": "and", "or": "or", "xor": "xor", "complex": "complex", "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right",
}  # fmt: skip
_REDUCTIONS = {"reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "amax",
               "reduce_min": "amin", "reduce_and": "all", "reduce_or": "any"}  # fmt: skip
_SCANS = {"cumsum": "cumsum", "cumprod": "cumprod", "cumlogsumexp": "logcumsumexp",
          "cummax": "cummax", "cummin": "cummin"}  # fmt: skip
_LOGICAL = frozenset({"all", "any"})


def _divided(b: Builder, a: Arguments) -> Term:
    x, y = b.term(a.x), b.term(a.y)
    quotient = b("div", x, y)
    return s.as_kind(b, b("trunc", quotient), Kind.INT) if x.kind is Kind.INT else quotient


def _power(b: Builder, a: Arguments) -> Term:
    x = b.term(a.x)
    return s.as_kind(b, b("pow", x, a.y), x.kind)


def _integer_power(b: Builder, a: Arguments) -> Term:
    if a.y > 0 and a.y <= _SMALL_POWER:
        return functools.reduce(lambda x, y: x * y, [a.x] * a.y)
    return b("pow", a.x, a.y if a.x.kind is Kind.INT else float(a.y))


_SMALL_POWER = 3
"""Up to here a power is written as a product, as other frameworks' users write it."""


def _rounded(b: Builder, a: Arguments) -> Term:
    if a.rounding_method == "AWAY_FROM_ZERO":
        return b("sign", a.x) * b("floor", b("abs", a.x) + 0.5)
    return b("round", a.x)


def _selected(b: Builder, a: Arguments) -> Term:
    which = b.term(a.which)
    if which.kind is Kind.BOOL:
        first, second = a.cases
        return b("where", which, second, first)
    result = a.cases[-1]
    for number, case in reversed(list(enumerate(a.cases[:-1]))):
        result = b("where", b("less_equal", which, number), case, result)
    return b.term(result)


def _clamped(b: Builder, a: Arguments) -> Term:
    return b("minimum", b("maximum", a.x, a.low), a.high)


def _converted(b: Builder, a: Arguments) -> Term:
    x = b.term(a.x)
    kind = b.expected[0].kind
    if kind is Kind.INT and x.kind is Kind.FLOAT:
        return s.as_kind(b, b("trunc", x), kind)
    return s.as_kind(b, x, kind)


def _reduced(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = b.term(a.x)
        if name in _LOGICAL and x.kind is not Kind.BOOL:
            raise NotLoweredError("bits of integers")
        return b(name, x, axes=tuple(a.axes), keepdims=False)

    return rule


def _place(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        (axis,) = a.axes
        return b(name, a.x, axis=axis)

    return rule


def _scanned(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = b("flip", a.x, axes=(a.axis,)) if a.reverse else a.x
        x = b.many(name, x, axis=a.axis)[0]
        return b("flip", x, axes=(a.axis,)) if a.reverse else x

    return rule


def _same(b: Builder, a: Arguments) -> Any:
    return b.term(a.x)


def _finite(b: Builder, a: Arguments) -> Term:
    return b("not", b("or", b("isnan", a.x), b("isinf", a.x)))


def _each(b: Builder, a: Arguments) -> Result:
    return [b.term(one) for one in a.every]


ROWS: tuple[Row, ...] = (
    *(row(name, "x", unary(primitive)) for name, primitive in _UNARY.items()),
    *(row(name, "x, y", binary(primitive)) for name, primitive in _BINARY.items()),
    *(row(name, "x, *, axes", _reduced(primitive)) for name, primitive in _REDUCTIONS.items()),
    *(
        row(name, "x, *, axis, reverse=False", _scanned(primitive))
        for name, primitive in _SCANS.items()
    ),
    row("ne", "x, y", lambda b, a: b("not", b("equal", a.x, a.y))),
    row("gt", "x, y", lambda b, a: b("less", a.y, a.x)),
    row("ge", "x, y", lambda b, a: b("less_equal", a.y, a.x)),
    row("div", "x, y", _divided),
    row("pow", "x, y", _power),
    row("integer_pow", "x, *, y", _integer_power),
    row("conj", "x, *, input_dtype=None", lambda b, a: b("conj", a.x)),
    row("square", "x", lambda b, a: a.x * a.x),
    row("rsqrt", "x", lambda b, a: 1.0 / b("sqrt", a.x)),
    row("exp2", "x", lambda b, a: b("pow", 2.0, a.x)),
    row("round", "x, *, rounding_method", _rounded),
    row("is_finite", "x", _finite),
    row("select_n", "which, *cases", _selected),
    row("clamp", "low, x, high", _clamped),
    row("convert_element_type", "x, *, new_dtype", _converted),
    row("copy copy_p stop_gradient", "x", _same),
    row("reduce_precision", "x, *, exponent_bits, mantissa_bits", _same),
    row("optimization_barrier", "*every", _each),
    row("argmax", "x, *, axes, index_dtype", _place("argmax")),
    row("argmin", "x, *, axes, index_dtype", _place("argmin")),
    row("nn.relu", "x", lambda b, a: act.relu(b, a.x)),
    row("nn.relu6", "x", lambda b, a: act.clamp(b, a.x, 0.0, 6.0)),
)
