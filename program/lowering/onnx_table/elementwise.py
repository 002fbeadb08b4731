"""Arithmetic, comparisons, activations and reductions of ONNX."""

from __future__ import annotations

import functools
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Row, Rule, binary, row, unary
from padiff.program.primitives import Kind

_UNARY = {
    "Neg": "neg", "Abs": "abs", "Sign": "sign", "Floor": "floor", "Ceil": "ceil",
    "Round": "round", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Sin": "sin", "Cos": "cos",
    "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
    "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Sigmoid": "sigmoid", "Erf": "erf", "Softplus": "softplus", "IsNaN": "isnan", "Not": "not",
    "BitwiseNot": "not",
}  # fmt: skip
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Equal": "equal", "Less": "less",
    "LessOrEqual": "less_equal", "And": "and", "Or": "or", "Xor": "xor", "BitwiseAnd": "and",
    "BitwiseOr": "or", "BitwiseXor": "xor",
}  # fmt: skip


def _folded(name: str) -> Rule:
    return lambda b, a: functools.reduce(lambda x, y: b(name, x, y), a.inputs)


def _averaged(b: Builder, a: Arguments) -> Term:
    total = functools.reduce(lambda x, y: b("add", x, y), a.inputs)
    return b("div", total, float(len(a.inputs)))


def _divided(b: Builder, a: Arguments) -> Term:
    quotient = b("div", a.x, a.y)
    if a.x.kind is not Kind.INT:
        return quotient
    return s.as_kind(b, b("trunc", quotient), Kind.INT)


def _modulo(b: Builder, a: Arguments) -> Term:
    return b("remainder" if a.fmod else "modulo", a.x, a.y)


def _shifted(b: Builder, a: Arguments) -> Term:
    return b("shift_left" if a.direction == "LEFT" else "shift_right", a.x, a.y)


def _power(b: Builder, a: Arguments) -> Term:
    return s.as_kind(b, b("pow", a.x, a.y), a.x.kind)


def _infinite(b: Builder, a: Arguments) -> Term:
    infinite = b("isinf", a.x)
    if not a.detect_negative:
        infinite = b("and", infinite, a.x > 0)
    return infinite if a.detect_positive else b("and", infinite, a.x < 0)


def _softmax(name: str) -> Rule:
    return lambda b, a: b(name, a.x, axis=a.axis)


def _hardmax(b: Builder, a: Arguments) -> Term:
    axis = s.axis_of(b, a.axis, a.x.ndim)
    place = s.unsqueeze(b, b("argmax", a.x, axis=axis), axis)
    same = b("equal", s.positions(b, a.x.shape[axis], a.x.ndim, axis), place)
    return s.as_kind(b, same, a.x.kind)


def _shrink(b: Builder, a: Arguments) -> Term:
    high = b("where", a.x > a.lambd, a.x - a.bias, 0.0)
    return s.as_kind(b, b("where", a.x < -a.lambd, a.x + a.bias, high), a.x.kind)


def _axes(b: Builder, a: Arguments) -> tuple[int, ...] | None:
    axes = None if a.axes is None else s.integers(b, a.axes)
    if not axes:
        return None if a.noop_with_empty_axes else tuple(range(a.x.ndim))
    return s.axes_of(b, axes, a.x.ndim)


def _reduced(function: Any) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        axes = _axes(b, a)
        if axes is None:
            axes = ()
        return function(b, a.x, axes, bool(a.keepdims))

    return rule


def _plain(name: str) -> Any:
    def reduce(b: Builder, x: Term, axes: tuple[int, ...], keepdims: bool) -> Term:
        if x.kind is Kind.BOOL:
            x = s.as_kind(b, x, Kind.INT)
            return s.as_kind(b, b(name, x, axes=axes, keepdims=keepdims), Kind.BOOL)
        return b(name, x, axes=axes, keepdims=keepdims)

    return reduce


def _normed(order: int) -> Any:
    def reduce(b: Builder, x: Term, axes: tuple[int, ...], keepdims: bool) -> Term:
        return norms.vector_norm(b, x, order, axes, keepdims=keepdims)

    return reduce


def _mean(b: Builder, x: Term, axes: tuple[int, ...], keepdims: bool) -> Term:
    return s.mean(b, x, axes, keepdims=keepdims)


def _log_sum(b: Builder, x: Term, axes: tuple[int, ...], keepdims: bool) -> Term:
    return b("log", b("sum", x, axes=axes, keepdims=keepdims))


def _squares(b: Builder, x: Term, axes: tuple[int, ...], keepdims: bool) -> Term:
    return b("sum", x * x, axes=axes, keepdims=keepdims)


def _place(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        axis = s.axis_of(b, a.axis, a.x.ndim)
        x = b("flip", a.x, axes=(axis,)) if a.select_last_index else a.x
        place = b(name, x, axis=axis)
        if a.select_last_index:
            place = x.shape[axis] - 1 - place
        return s.unsqueeze(b, place, axis) if a.keepdims else place

    return rule


def _scan(name: str, start: float) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        axis = s.axis_of(b, a.axis, a.x.ndim)
        x = b("flip", a.x, axes=(axis,)) if a.reverse else a.x
        x = b(name, x, axis=axis)
        if a.exclusive:
            widths = tuple((1, -1) if each == axis else (0, 0) for each in range(x.ndim))
            value = int(start) if x.kind is Kind.INT else start
            x = b("pad", x, widths=widths, mode="constant", value=value)
        return b("flip", x, axes=(axis,)) if a.reverse else x

    return rule


def _dropout(b: Builder, a: Arguments) -> Any:
    training = a.training is not None and bool(b.static(a.training))
    if training and (a.ratio is None or float(b.static(a.ratio)) > 0):
        raise NotLoweredError("elements are drawn")
    kept = s.filled(b, a.x.shape, True, Kind.BOOL)  # noqa: FBT003
    return (a.x, kept)[: len(b.expected)]


_REDUCE = "x, axes=None, *, keepdims=1, noop_with_empty_axes=0"

ROWS: tuple[Row, ...] = (
    *(row(name, "x", unary(primitive)) for name, primitive in _UNARY.items()),
    *(row(name, "x, y", binary(primitive)) for name, primitive in _BINARY.items()),
    row("Greater", "x, y", lambda b, a: b("less", a.y, a.x)),
    row("GreaterOrEqual", "x, y", lambda b, a: b("less_equal", a.y, a.x)),
    row("Identity", "x", lambda b, a: a.x),
    row("Dropout", "x, ratio=None, training=None, *, seed=None", _dropout),
    row("Reciprocal", "x", lambda b, a: 1.0 / a.x),
    row("Relu", "x", lambda b, a: act.relu(b, a.x)),
    row("Softsign", "x", lambda b, a: a.x / (b("abs", a.x) + 1.0)),
    row("Mish", "x", lambda b, a: act.mish(b, a.x)),
    row("HardSwish", "x", lambda b, a: a.x * act.hardsigmoid(b, a.x)),
    row("Swish", "x, *, alpha=1.0", lambda b, a: a.x * b("sigmoid", a.x * a.alpha)),
    row("Elu", "x, *, alpha=1.0", lambda b, a: act.elu(b, a.x, a.alpha)),
    row(
        "Selu",
        "x, *, alpha=1.6732632423543772, gamma=1.0507009873554805",
        lambda b, a: act.elu(b, a.x, a.alpha, a.gamma),
    ),
    row("Celu", "x, *, alpha=1.0", lambda b, a: act.celu(b, a.x, a.alpha)),
    row("LeakyRelu", "x, *, alpha=0.01", lambda b, a: act.leaky_relu(b, a.x, a.alpha)),
    row("PRelu", "x, slope", lambda b, a: act.leaky_relu(b, a.x, a.slope)),
    row("ThresholdedRelu", "x, *, alpha=1.0", lambda b, a: b("where", a.x > a.alpha, a.x, 0.0)),
    row(
        "Gelu",
        "x, *, approximate='none'",
        lambda b, a: act.gelu_tanh(b, a.x) if a.approximate == "tanh" else act.gelu(b, a.x),
    ),
    row(
        "HardSigmoid",
        "x, *, alpha=0.2, beta=0.5",
        lambda b, a: act.hardsigmoid(b, a.x, a.alpha, a.beta),
    ),
    row("Shrink", "x, *, lambd=0.5, bias=0.0", _shrink),
    row("Clip", "x, low=None, high=None", lambda b, a: act.clamp(b, a.x, a.low, a.high)),
    row("Where", "condition, x, y", lambda b, a: b("where", a.condition, a.x, a.y)),
    row("Div", "x, y", _divided),
    row("Mod", "x, y, *, fmod=0", _modulo),
    row("Pow", "x, y", _power),
    row("BitShift", "x, y, *, direction", _shifted),
    row("IsInf", "x, *, detect_negative=1, detect_positive=1", _infinite),
    row("Max", "*inputs", _folded("maximum")),
    row("Min", "*inputs", _folded("minimum")),
    row("Sum", "*inputs", _folded("add")),
    row("Mean", "*inputs", _averaged),
    row("Softmax", "x, *, axis=-1", _softmax("softmax")),
    row("LogSoftmax", "x, *, axis=-1", _softmax("log_softmax")),
    row("Hardmax", "x, *, axis=-1", _hardmax),
    row("ReduceSum", _REDUCE, _reduced(_plain("sum"))),
    row("ReduceProd", _REDUCE, _reduced(_plain("prod"))),
    row("ReduceMax", _REDUCE, _reduced(_plain("amax"))),
    row("ReduceMin", _REDUCE, _reduced(_plain("amin"))),
    row("ReduceLogSumExp", _REDUCE, _reduced(_plain("logsumexp"))),
    row("ReduceMean", _REDUCE, _reduced(_mean)),
    row("ReduceL1", _REDUCE, _reduced(_normed(1))),
    row("ReduceL2", _REDUCE, _reduced(_normed(2))),
    row("ReduceLogSum", _REDUCE, _reduced(_log_sum)),
    row("ReduceSumSquare", _REDUCE, _reduced(_squares)),
    row("ArgMax", "x, *, axis=0, keepdims=1, select_last_index=0", _place("argmax")),
    row("ArgMin", "x, *, axis=0, keepdims=1, select_last_index=0", _place("argmin")),
    row("CumSum", "x, axis, *, exclusive=0, reverse=0", _scan("cumsum", 0.0)),
    row("CumProd", "x, axis, *, exclusive=0, reverse=0", _scan("cumprod", 1.0)),
)
