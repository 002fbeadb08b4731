"""Arithmetic, comparisons and activations of MindSpore."""

from __future__ import annotations

from padiff.dumpfile import Dtype
from padiff.program.lowering.builder import Builder, NotLoweredError, Operand, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row, unary
from padiff.program.primitives import Kind


def kind_of(dtype: object, otherwise: Kind) -> Kind:
    """Return the kind of a dtype that was recorded, or of what it defaults to."""
    return Kind.of_dtype(dtype.name) if isinstance(dtype, Dtype) else otherwise


def _floats(name: str) -> Rule:
    return lambda b, a: b(name, s.as_float(b, a.x))


def _number(b: Builder, value: Operand) -> Operand:
    found: Operand = value if isinstance(value, Term) else s.number(b, value)
    return found


def _binary(name: str, *, turned: bool = False) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x, y = _number(b, a.x), _number(b, a.y)
        return b(name, y, x) if turned else b(name, x, y)

    return rule


def _scaled(name: str) -> Rule:
    return lambda b, a: b(name, a.x, a.y if a.alpha == 1 else a.y * a.alpha)


def _divided(b: Builder, a: Arguments) -> Term:
    if getattr(a, "rounding_mode", None) is not None:
        raise NotLoweredError(f"rounding {a.rounding_mode!r}")
    return b("div", *(s.as_float(b, b.term(each)) for each in (a.x, a.y)))


def _not_equal(b: Builder, a: Arguments) -> Term:
    return b("not", b("equal", a.x, a.y))


def _logical(name: str) -> Rule:
    return lambda b, a: b(name, *(s.as_kind(b, each, Kind.BOOL) for each in (a.x, a.y)))


def _cast(b: Builder, a: Arguments) -> Term:
    return s.as_kind(b, a.x, kind_of(a.dtype, a.x.kind))


def _chosen(b: Builder, a: Arguments) -> Term:
    return b("where", a.condition, a.x, a.y)


def _clamp(b: Builder, a: Arguments) -> Term:
    return act.clamp(b, a.x, a.low, a.high)


def _masked_fill(b: Builder, a: Arguments) -> Term:
    value = a.value if isinstance(a.value, Term) else float(s.number(b, a.value))
    return b("where", a.mask, value if a.x.kind is Kind.FLOAT else s.integer(b, a.value), a.x)


def _gelu(b: Builder, a: Arguments) -> Term:
    return (act.gelu_tanh if a.approximate == "tanh" else act.gelu)(b, a.x)


def _soft(name: str) -> Rule:
    return lambda b, a: b(name, a.x, axis=s.axis_of(b, a.axis, a.x.ndim))


def _prelu(b: Builder, a: Arguments) -> Term:
    shape = [-1 if axis == 1 else 1 for axis in range(a.x.ndim)]
    weight = a.weight if a.weight.spec.count == 1 else s.reshape(b, a.weight, shape)
    return act.leaky_relu(b, a.x, s.reshape(b, weight, ()) if weight.spec.count == 1 else weight)


def _dropped(b: Builder, a: Arguments) -> Result:
    if a.keep_prob not in (1, 1.0):
        raise NotLoweredError("what was dropped is not known")
    return [a.x, *[None] * (len(b.expected) - 1)]


_EACH = "x"
_BOTH = "x, y"
_FUNCTIONS = {
    "exp": "Exp .exp mint.exp", "log": "Log .log", "sqrt": "Sqrt .sqrt", "erf": "Erf .erf",
    "sin": "Sin .sin", "cos": "Cos .cos", "tan": "Tan .tan", "tanh": "Tanh .tanh",
    "sigmoid": "Sigmoid .sigmoid", "log1p": "Log1p .log1p", "expm1": "Expm1 .expm1",
    "asin": "Asin .asin", "acos": "ACos .acos", "atan": "Atan .atan", "sinh": "Sinh .sinh",
    "cosh": "Cosh .cosh", "log2": "Log2 .log2", "log10": "Log10 .log10",
}  # fmt: skip
_KEPT = {
    "abs": "Abs .abs .__abs__", "neg": "Neg .neg .negative", "floor": "Floor .floor",
    "ceil": "Ceil .ceil", "trunc": "Trunc .trunc", "sign": "Sign", "isnan": "IsNan",
    "isinf": "IsInf .isinf",
}  # fmt: skip
_COMPARED = {
    "less": "Less .lt .less mint.less mint.lt",
    "less_equal": "LessEqual .le .less_equal mint.less_equal mint.le",
}
_TURNED = {
    "less": "Greater .gt .greater mint.greater mint.gt",
    "less_equal": "GreaterEqual .ge .greater_equal mint.greater_equal mint.ge",
}

ROWS: tuple[Row, ...] = (
    *(row(names, _EACH, _floats(name)) for name, names in _FUNCTIONS.items()),
    *(row(names, _EACH, unary(name)) for name, names in _KEPT.items()),
    row("Erfc .erfc", "x", lambda b, a: 1.0 - b("erf", a.x)),
    row("Rsqrt .rsqrt", "x", lambda b, a: 1.0 / b("sqrt", s.as_float(b, a.x))),
    row("Reciprocal .reciprocal", "x", lambda b, a: 1.0 / s.as_float(b, a.x)),
    row("Square .square", "x", lambda b, a: b("mul", a.x, a.x)),
    row("Add Adds .__add__ .__iadd__", _BOTH, _binary("add")),
    row("Sub .__sub__ .__isub__", _BOTH, _binary("sub")),
    row("AddExt AddScalar .add mint.add", "x, y, alpha=1", _scaled("add")),
    row("SubExt SubScalar .sub .subtract mint.sub", "x, y, alpha=1", _scaled("sub")),
    row("Mul Muls .__mul__ .__imul__ .mul mint.mul", _BOTH, _binary("mul")),
    row("Div RealDiv .__truediv__ .__itruediv__", _BOTH, _divided),
    row("DivMod .div .divide mint.div", "x, y, rounding_mode=None", _divided),
    row("FloorDiv FloorDivScalar .floor_divide mint.floor_divide", _BOTH, _binary("floor_divide")),
    row("FloorMod .__mod__ .remainder mint.remainder", _BOTH, _binary("modulo")),
    row("Pow PowTensorScalar .__pow__ .pow mint.pow", _BOTH, _binary("pow")),
    row("PowScalarTensor", _BOTH, _binary("pow")),
    row("Maximum .maximum", _BOTH, _binary("maximum")),
    row("Minimum .minimum", _BOTH, _binary("minimum")),
    row("Atan2 .atan2", _BOTH, _binary("atan2")),
    row("Equal .eq mint.eq mint.equal", _BOTH, _binary("equal")),
    row("NotEqual .ne .not_equal mint.ne", _BOTH, _not_equal),
    *(row(names, _BOTH, _binary(name)) for name, names in _COMPARED.items()),
    *(row(names, _BOTH, _binary(name, turned=True)) for name, names in _TURNED.items()),
    row("LogicalAnd .logical_and", _BOTH, _logical("and")),
    row("LogicalOr .logical_or", _BOTH, _logical("or")),
    row("LogicalXor .logical_xor", _BOTH, _logical("xor")),
    row("LogicalNot .logical_not", "x", lambda b, a: b("not", s.as_kind(b, a.x, Kind.BOOL))),
    *(row(f"Bitwise{name.capitalize()} .__{name}__ .bitwise_{name}", _BOTH, _binary(name))
      for name in ("and", "or", "xor")),
    row("Select Where mint.where", "condition, x, y", _chosen),
    row(".where", "x, condition, y", _chosen),
    row("MaskedFill MaskedFillScalar .masked_fill", "x, mask, value", _masked_fill),
    row("ClampScalar ClampTensor .clamp .clip mint.clamp", "x, low=None, high=None", _clamp),
    row("Cast .to", "x, dtype", _cast),
    row("TypeAs .type_as", "x, y", lambda b, a: s.as_kind(b, a.x, a.y.kind)),
    row("Identity Copy Contiguous StopGradient Load Depend .clone", "x",
        lambda b, a: b("cast", a.x, kind=a.x.kind.value)),
    row("Assign", "variable, value", lambda b, a: b("cast", a.value, kind=a.value.kind.value)),
    row("AssignAdd InplaceAddExt", "x, y, alpha=1", _scaled("add")),
    row("ReLU", "x", lambda b, a: act.relu(b, a.x)),
    row("ReLU6", "x", lambda b, a: act.clamp(b, a.x, 0.0, 6.0)),
    row("GeLU", "x", lambda b, a: act.gelu_tanh(b, a.x)),
    row("GeluExt mint.gelu", "x, approximate='none'", _gelu),
    row("SiLU", "x", lambda b, a: act.silu(b, a.x)),
    row("Mish MishExt", "x", lambda b, a: act.mish(b, a.x)),
    row("Elu EluExt", "x, alpha=1.0", lambda b, a: act.elu(b, a.x, a.alpha)),
    row("LeakyReLUExt LeakyReLU", "x, negative_slope=0.01",
        lambda b, a: act.leaky_relu(b, a.x, float(a.negative_slope))),
    row("PReLU", "x, weight", _prelu),
    row("HSwish HSwishOp", "x", lambda b, a: a.x * act.clamp(b, a.x + 3.0, 0.0, 6.0) / 6.0),
    row("HSigmoid", "x", lambda b, a: act.hardsigmoid(b, a.x)),
    row("Softplus", "x", lambda b, a: act.softplus(b, a.x)),
    row("SoftplusExt", "x, beta=1, threshold=20",
        lambda b, a: act.softplus(b, a.x, float(a.beta), float(a.threshold))),
    row("Softsign", "x", lambda b, a: a.x / (b("abs", a.x) + 1.0)),
    row("Softmax", "x, axis=-1", lambda b, a: _soft("softmax")(
        b, Arguments({"x": a.x, "axis": a.axis[0] if isinstance(a.axis, tuple) else a.axis}))),
    row("LogSoftmax LogSoftmaxExt", "x, axis=-1, dtype=None", _soft("log_softmax")),
    row("Dropout", "x, keep_prob=0.5, Seed0=0, Seed1=0", _dropped),
)  # fmt: skip
