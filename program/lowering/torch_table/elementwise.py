"""Arithmetic, functions, comparisons and activations of torch: each element by itself."""

from __future__ import annotations

import math
from typing import Any

from padiff.program.graph import Dtype
from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import attention as attend
from padiff.program.lowering.composites.indexing import masked_count
from padiff.program.lowering.composites.shaping import as_float, as_kind, expand, unbind
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, draw_row, row
from padiff.program.primitives import Kind

MADE = (
    "generator=None, out=None, dtype=None, layout=None, device=None, pin_memory=None, "
    "requires_grad=False, memory_format=None"
)
"""How functions are asked for a new tensor."""


def _unary(name: str) -> Rule:
    return lambda b, a: b(name, a.input)


def _floats(name: str) -> Rule:
    return lambda b, a: b(name, as_float(b, a.input))


def _binary(name: str) -> Rule:
    return lambda b, a: b(name, a.input, a.other)


def _reversed(name: str) -> Rule:
    return lambda b, a: b(name, a.other, a.input)


def _scaled(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        other = a.other if a.alpha == 1 else b("mul", a.other, a.alpha)
        return b(name, a.input, other)

    return rule


def _reversed_sub(b: Builder, a: Arguments) -> Term:
    return b("sub", a.other, a.input if a.alpha == 1 else a.input * a.alpha)


def _divided(b: Builder, a: Arguments) -> Term:
    if a.rounding_mode is None:
        return b("div", a.input, a.other)
    if a.rounding_mode == "floor":
        return b("floor_divide", a.input, a.other)
    quotient = b("trunc", b("div", a.input, a.other))
    whole = all(b.term(each).kind in {Kind.INT, Kind.BOOL} for each in (a.input, a.other))
    return as_kind(b, quotient, Kind.INT) if whole else quotient


def _rounded(b: Builder, a: Arguments) -> Term:
    if not a.decimals:
        return b("round", a.input)
    return b("round", a.input * 10.0**a.decimals) / 10.0**a.decimals


def _clamped(b: Builder, a: Arguments) -> Term:
    return act.clamp(b, a.input, a.min, a.max)


def _logical(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        return b(name, as_kind(b, a.input, Kind.BOOL), as_kind(b, a.other, Kind.BOOL))

    return rule


def _where(b: Builder, a: Arguments) -> Result:
    if a.input is None:
        return unbind(b, b("nonzero", a.condition, count=masked_count(b, a.condition)), 1)
    return b("where", as_kind(b, a.condition, Kind.BOOL), a.input, a.other)


def _lerp(b: Builder, a: Arguments) -> Term:
    return a.input + a.weight * (a.end - a.input)


def _added_product(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        product = b(name, a.tensor1, a.tensor2)
        return a.input + (product if a.value == 1 else product * a.value)

    return rule


def _gelu(b: Builder, a: Arguments) -> Term:
    return act.gelu_tanh(b, a.input) if a.approximate == "tanh" else act.gelu(b, a.input)


def _hardtanh(b: Builder, a: Arguments) -> Term:
    return act.clamp(b, a.input, a.min_val, a.max_val)


def _prelu(b: Builder, a: Arguments) -> Term:
    weight = a.weight
    if weight.spec.count > 1:
        shape = tuple(weight.spec.count if axis == 1 else 1 for axis in range(a.input.ndim))
        weight = b("reshape", weight, shape=shape)
    else:
        weight = b("reshape", weight, shape=())
    return act.leaky_relu(b, a.input, weight)


def _rrelu(b: Builder, a: Arguments) -> Term:
    if a.training:
        return act.random_relu(b, a.input, a.drawn, a.lower, a.upper)
    return act.leaky_relu(b, a.input, (a.lower + a.upper) / 2)


def _threshold(b: Builder, a: Arguments) -> Term:
    return b("where", a.input > a.threshold, a.input, a.value)


def _shrink(b: Builder, a: Arguments) -> Term:
    size = a.lambd
    inside = b("abs", a.input) <= size
    return b("where", inside, 0.0, a.input - b("sign", a.input) * size)


def _hardshrink(b: Builder, a: Arguments) -> Term:
    return b("where", b("abs", a.input) <= a.lambd, 0.0, a.input)


_ALONG_FIRST = (0, 1, 3)
"""Counts of axes for which torch means the first one where none is named, else the second:
``torch.nn.functional._get_softmax_dim``, deprecated."""


def _softmax(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        if not a.input.ndim:
            return b("reshape", b(name, b("reshape", a.input, shape=(1,)), axis=0), shape=())
        x = -a.input if a.negated else a.input
        implied = 0 if a.input.ndim in _ALONG_FIRST else 1
        return b(name, as_float(b, x), axis=implied if a.dim is None else a.dim)

    return rule


def _scaled_elu(b: Builder, a: Arguments) -> Term:
    x = a.input
    below = b("expm1", x if a.input_scale == 1 else x * a.input_scale) * a.alpha
    found = b("where", x > 0.0, x, below)
    return found if a.scale == 1 else found * a.scale


def _safe_softmax(b: Builder, a: Arguments) -> Term:
    if a.dim % a.input.ndim != a.input.ndim - 1:
        raise NotLoweredError("another axis than the last")
    return attend.safe_softmax(b, a.input)


def _glu(b: Builder, a: Arguments) -> Term:
    axis = a.dim % a.input.ndim
    half = a.input.shape[axis] // 2
    parts = [
        b("slice", a.input, axis=axis, start=start, stop=start + half, step=1)
        for start in (0, half)
    ]
    return parts[0] * b("sigmoid", parts[1])


def _to(b: Builder, a: Arguments) -> Term:
    for each in (*a.rest, a.dtype, a.other):
        if isinstance(each, Dtype):
            return as_kind(b, a.input, Kind.of_dtype(each.name))
        if isinstance(each, Term):
            return as_kind(b, a.input, each.kind)
    return a.input


def _cast_to(kind: Kind) -> Rule:
    return lambda b, a: as_kind(b, a.input, kind)


def _identity(_b: Builder, a: Arguments) -> Term:
    return a.input


def _dropout(b: Builder, a: Arguments) -> Term:
    if a.training and a.p > 0:
        if a.p == 1:
            return a.input * 0.0
        return act.dropout(b, a.input, a.drawn, a.p)
    return a.input


def _alpha_dropout(b: Builder, a: Arguments) -> Term:
    if a.training and a.p > 0:
        return act.alpha_dropout(b, a.input, a.drawn, a.p)
    return a.input


def _in_training(a: Arguments) -> Arguments:
    return Arguments({"input": a.input, "p": a.p, "training": a.train, "drawn": a.drawn})


def _masked_fill(b: Builder, a: Arguments) -> Term:
    value = as_kind(b, b.term(a.value), a.input.kind)
    return b("where", as_kind(b, a.mask, Kind.BOOL), value, a.input)


def _copied(b: Builder, a: Arguments) -> Term:
    return expand(b, as_kind(b, a.src, a.input.kind), a.input.shape)


def _filled(b: Builder, a: Arguments) -> Term:
    return expand(b, as_kind(b, b.term(a.value), a.input.kind), a.input.shape)


def _zeroed(b: Builder, a: Arguments) -> Term:
    return expand(b, as_kind(b, b.term(0), a.input.kind), a.input.shape)


_LARGEST = {
    "float64": (2 - 2.0**-52) * 2.0**1023, "float32": (2 - 2.0**-23) * 2.0**127,
    "bfloat16": (2 - 2.0**-7) * 2.0**127, "float16": 65504.0,
}  # fmt: skip
"""The largest finite numbers of dtypes."""


def _nan_to_num(b: Builder, a: Arguments) -> Term:
    x = a.input
    if x.kind is not Kind.FLOAT:
        return x
    posinf = _LARGEST[b.dtype] if a.posinf is None else float(a.posinf)
    neginf = -_LARGEST[b.dtype] if a.neginf is None else float(a.neginf)
    x = b("where", b("isnan", x), float(a.nan or 0.0), x)
    x = b("where", b("equal", x, math.inf), posinf, x)
    return b("where", b("equal", x, -math.inf), neginf, x)


def _angle(b: Builder, a: Arguments) -> Term:
    if a.input.kind is not Kind.COMPLEX:
        angle = b("where", a.input < 0, math.pi, 0.0)
        return b("where", b("isnan", a.input), a.input, angle)
    return b("atan2", b("imag", a.input), b("real", a.input))


def _polar(b: Builder, a: Arguments) -> Term:
    return b("complex", a.abs * b("cos", a.angle), a.abs * b("sin", a.angle))


def _hypot(b: Builder, a: Arguments) -> Term:
    size = b("complex", a.input, a.other)
    return b("abs", size)


def _times_log(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        product = b("mul", a.input, b(name, as_float(b, b.term(a.other))))
        result = b("where", b("equal", a.input, 0), 0.0, product)
        return b("where", b("isnan", a.other), a.other, result)

    return rule


def _entropy(b: Builder, a: Arguments) -> Term:
    """Return -x log x, 0 at 0 and -inf below."""
    x = as_float(b, a.input)
    result = b("where", b("equal", x, 0.0), 0.0, -(x * b("log", b("where", x > 0.0, x, 1.0))))
    return b("where", x < 0.0, -math.inf, result)


def _normal(b: Builder, a: Arguments) -> Term:
    """Return the share below a number; small ones are differences, as torch computes them."""
    return (b("erf", as_float(b, a.input) / math.sqrt(2)) + 1.0) * 0.5


def _heaviside(b: Builder, a: Arguments) -> Term:
    return b("where", b("equal", a.input, 0), a.values, as_kind(b, a.input > 0, a.input.kind))


def _scaled_by_two(b: Builder, a: Arguments) -> Term:
    return a.input * b("pow", 2.0, as_float(b, b.term(a.other)))


def _sinc(b: Builder, a: Arguments) -> Term:
    angle = a.input * math.pi
    return b("where", b("equal", a.input, 0), 1.0, b("sin", angle) / angle)


def _logit(b: Builder, a: Arguments) -> Term:
    x = as_float(b, a.input)
    if a.eps is not None:
        x = act.clamp(b, x, float(a.eps), 1.0 - a.eps)
    return b("log", x / (1.0 - x))


def _isclose(b: Builder, a: Arguments) -> Term:
    allowed = b("abs", a.other) * a.rtol + a.atol
    near = b("abs", a.input - a.other) <= allowed
    return b("or", b("equal", a.input, a.other), near)


def _isfinite(b: Builder, x: Term) -> Term:
    if x.kind in {Kind.INT, Kind.BOOL}:
        return b("equal", x, x)
    return b("not", b("or", b("isnan", x), b("isinf", x)))


def _frac(b: Builder, a: Arguments) -> Term:
    return a.input - b("trunc", a.input)


def _exp2(b: Builder, a: Arguments) -> Term:
    return b("pow", 2.0, as_float(b, a.input))


def _square(_b: Builder, a: Arguments) -> Term:
    return a.input * a.input


def _power(b: Builder, a: Arguments) -> Term:
    if number_of(a.exponent) == 2:  # noqa: PLR2004
        return b("mul", a.input, a.input)
    return b("pow", a.input, a.exponent)


def number_of(value: Any) -> Any:
    """Return a number, or None for a term."""
    return None if isinstance(value, Term) else value


def _extreme_of_two(name: str) -> Rule:
    """The other one where one is nan."""

    def rule(b: Builder, a: Arguments) -> Term:
        best = b(name, a.input, a.other)
        best = b("where", b("isnan", a.input), a.other, best)
        return b("where", b("isnan", a.other), a.input, best)

    return rule


def _addition_names(name: str, dunder: str) -> str:
    return f"{name} .{name} .{name}_ .__{dunder}__ .__i{dunder}__"


_FUNCTIONS = [
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
]
_ALSO = {
    "asin": "arcsin .arcsin .arcsin_",
    "acos": "arccos .arccos .arccos_",
    "atan": "arctan .arctan .arctan_",
    "asinh": "arcsinh .arcsinh .arcsinh_",
    "acosh": "arccosh .arccosh .arccosh_",
    "atanh": "arctanh .arctanh .arctanh_",
    "erf": "special.erf",
    "erfc": "special.erfc",
    "erfinv": "special.erfinv",
    "expm1": "special.expm1",
    "log1p": "special.log1p",
    "sigmoid": "special.expit F.sigmoid",
    "tanh": "F.tanh",
    "lgamma": "special.gammaln",
    "digamma": "special.digamma special.psi",
}

ROWS: tuple[Row, ...] = (
    *(
        row(f"{name} .{name} .{name}_ {_ALSO.get(name, '')}", "input", _floats(name))
        for name in _FUNCTIONS
        if name != "digamma"
    ),
    row(
        f"digamma .digamma .digamma_ {_ALSO['digamma']}",
        "input",
        _floats("digamma"),
        tolerance=1e-9,
    ),
    *(
        row(f"{name} .{name} .{name}_ {also}", "input", _unary(name))
        for name, also in {
            "neg": "negative .negative .negative_ .__neg__",
            "abs": "absolute .absolute .absolute_ .__abs__",
            "sign": "sgn .sgn .sgn_",
            "floor": "",
            "ceil": "",
            "trunc": "fix .fix .fix_",
        }.items()
    ),
    row("rsqrt .rsqrt .rsqrt_", "input", lambda b, a: 1.0 / b("sqrt", a.input)),
    row("reciprocal .reciprocal .reciprocal_", "input", lambda b, a: 1.0 / a.input),
    row("square .square .square_", "input", _square),
    row("exp2 .exp2 .exp2_ special.exp2", "input", _exp2),
    row("frac .frac .frac_", "input", _frac),
    row("positive .positive .__pos__", "input", _identity),
    row("round .round .round_", "input, *, decimals=0", _rounded),
    row("deg2rad .deg2rad .deg2rad_", "input", lambda b, a: a.input * (math.pi / 180)),
    row("rad2deg .rad2deg .rad2deg_", "input", lambda b, a: a.input * (180 / math.pi)),
    row("sinc .sinc .sinc_ special.sinc", "input", _sinc),
    row("logit .logit .logit_ special.logit", "input, eps=None", _logit),
    row("special.i0e", "input", lambda b, a: b("bessel_i0e", a.input)),
    row("special.i1e", "input", lambda b, a: b("bessel_i1e", a.input)),
    row(
        "i0 .i0 special.i0",
        "input",
        lambda b, a: b("bessel_i0e", a.input) * b("exp", b("abs", a.input)),
    ),
    row("special.i1", "input", lambda b, a: b("bessel_i1e", a.input) * b("exp", b("abs", a.input))),
    row(
        "polygamma special.polygamma",
        "n, input",
        lambda b, a: b("polygamma", a.input, order=a.n) if a.n else b("digamma", a.input),
        tolerance=1e-7,
    ),
    row("isnan .isnan", "input", _unary("isnan")),
    row("isinf .isinf", "input", _unary("isinf")),
    row("isposinf .isposinf", "input", lambda b, a: b("equal", a.input, math.inf)),
    row("isneginf .isneginf", "input", lambda b, a: b("equal", a.input, -math.inf)),
    row("isfinite .isfinite", "input", lambda b, a: _isfinite(b, a.input)),
    row("signbit .signbit", "input", lambda b, a: b("copysign", 1.0, a.input) < 0.0),
    row("real .real", "input", lambda b, a: b("real", a.input)),
    row("imag .imag", "input", lambda b, a: b("imag", a.input)),
    row(
        "conj .conj conj_physical .conj_physical",
        "input",
        lambda b, a: b("conj", a.input) if a.input.kind is Kind.COMPLEX else a.input,
    ),
    row("angle .angle", "input", _angle),
    row("complex", "real, imag", lambda b, a: b("complex", a.real, a.imag)),
    row("polar", "abs, angle", _polar),
    row(_addition_names("add", "add") + " .__radd__", "input, other, *, alpha=1", _scaled("add")),
    row(
        _addition_names("sub", "sub") + " subtract .subtract .subtract_",
        "input, other, *, alpha=1",
        _scaled("sub"),
    ),
    row("rsub .__rsub__", "input, other, *, alpha=1", _reversed_sub),
    row(
        _addition_names("mul", "mul") + " .__rmul__ multiply .multiply .multiply_",
        "input, other",
        _binary("mul"),
    ),
    row(
        "div .div .div_ divide .divide .divide_ .__div__ .__idiv__ .__truediv__ .__itruediv__",
        "input, other, *, rounding_mode=None",
        _divided,
    ),
    row("true_divide .true_divide .true_divide_", "input, other", _binary("div")),
    row(".__rtruediv__ .__rdiv__", "input, other", _reversed("div")),
    row(
        "floor_divide .floor_divide .floor_divide_ .__floordiv__ .__ifloordiv__",
        "input, other",
        _binary("floor_divide"),
    ),
    row(".__rfloordiv__", "input, other", _reversed("floor_divide")),
    row("remainder .remainder .remainder_ .__mod__ .__imod__", "input, other", _binary("modulo")),
    row(".__rmod__", "input, other", _reversed("modulo")),
    row("fmod .fmod .fmod_", "input, other", _binary("remainder")),
    row("pow .pow .pow_ .__pow__ .__ipow__", "input, exponent", _power),
    row(
        "float_power .float_power .float_power_",
        "input, exponent",
        lambda b, a: b("pow", as_float(b, a.input), a.exponent),
    ),
    row(".__rpow__", "input, base", lambda b, a: b("pow", a.base, a.input)),
    row("maximum .maximum", "input, other", _binary("maximum")),
    row("minimum .minimum", "input, other", _binary("minimum")),
    row("fmax .fmax", "input, other", _extreme_of_two("maximum")),
    row("fmin .fmin", "input, other", _extreme_of_two("minimum")),
    row("atan2 .atan2 .atan2_ arctan2 .arctan2 .arctan2_", "input, other", _binary("atan2")),
    row("hypot .hypot .hypot_", "input, other", _hypot),
    row("logaddexp .logaddexp", "input, other", _binary("logaddexp")),
    row(
        "logaddexp2 .logaddexp2",
        "input, other",
        lambda b, a: b("logaddexp", a.input * math.log(2), a.other * math.log(2)) / math.log(2),
    ),
    row("xlogy .xlogy .xlogy_ special.xlogy", "input, other", _times_log("log")),
    row("special.xlog1py", "input, other", _times_log("log1p")),
    row("special.entr", "input", _entropy),
    row("special.ndtr", "input", _normal),
    row(
        "special.ndtri",
        "input",
        lambda b, a: b("erfinv", as_float(b, a.input) * 2.0 - 1.0) * math.sqrt(2),
        tolerance=1e-9,
    ),
    row("heaviside .heaviside .heaviside_", "input, values", _heaviside),
    row("ldexp .ldexp .ldexp_", "input, other", _scaled_by_two),
    row("copysign .copysign .copysign_", "input, other", _binary("copysign")),
    row("clamp .clamp .clamp_ clip .clip .clip_", "input, min=None, max=None", _clamped),
    row(
        "clamp_min .clamp_min .clamp_min_", "input, min", lambda b, a: b("maximum", a.input, a.min)
    ),
    row(
        "clamp_max .clamp_max .clamp_max_", "input, max", lambda b, a: b("minimum", a.input, a.max)
    ),
    row("lerp .lerp .lerp_", "input, end, weight", _lerp),
    row("addcmul .addcmul .addcmul_", "input, tensor1, tensor2, *, value=1", _added_product("mul")),
    row("addcdiv .addcdiv .addcdiv_", "input, tensor1, tensor2, *, value=1", _added_product("div")),
    *(
        row(names, "input, other", rule)
        for names, rule in {
            "eq .eq .__eq__ .eq_": _binary("equal"),
            "ne .ne .ne_ .__ne__ not_equal .not_equal .not_equal_": lambda b, a: b(
                "not", b("equal", a.input, a.other)
            ),
            "lt .lt .lt_ .__lt__ less .less .less_": _binary("less"),
            "le .le .le_ .__le__ less_equal .less_equal .less_equal_": _binary("less_equal"),
            "gt .gt .gt_ .__gt__ greater .greater .greater_": _reversed("less"),
            "ge .ge .ge_ .__ge__ greater_equal .greater_equal .greater_equal_": _reversed(
                "less_equal"
            ),
            "logical_and .logical_and .logical_and_": _logical("and"),
            "logical_or .logical_or .logical_or_": _logical("or"),
            "logical_xor .logical_xor .logical_xor_": _logical("xor"),
            "bitwise_and .bitwise_and .bitwise_and_ .__and__ .__iand__": _binary("and"),
            "bitwise_or .bitwise_or .bitwise_or_ .__or__ .__ior__": _binary("or"),
            "bitwise_xor .bitwise_xor .bitwise_xor_ .__xor__ .__ixor__": _binary("xor"),
            ".__rand__": _binary("and"),
            ".__ror__": _binary("or"),
            "bitwise_left_shift .bitwise_left_shift .__lshift__": _binary("shift_left"),
            "bitwise_right_shift .bitwise_right_shift .__rshift__": _binary("shift_right"),
        }.items()
    ),
    row(
        "logical_not .logical_not .logical_not_",
        "input",
        lambda b, a: b("not", as_kind(b, a.input, Kind.BOOL)),
    ),
    row("bitwise_not .bitwise_not .bitwise_not_ .__invert__", "input", _unary("not")),
    row("isclose .isclose", "input, other, rtol=1e-05, atol=1e-08", _isclose),
    row("where", "condition, input=None, other=None", _where),
    row(".where", "input, condition, other", _where),
    row("masked_fill .masked_fill .masked_fill_", "input, mask, value", _masked_fill),
    row(".copy_ aten.copy", "input, src, non_blocking=False", _copied),
    row(".data.__set__", "input, src", lambda _, a: a.src),
    row(".fill_ fill", "input, value", _filled),
    row(".zero_ aten.zero", "input", _zeroed),
    row(
        "nan_to_num .nan_to_num .nan_to_num_",
        "input, nan=None, posinf=None, neginf=None",
        _nan_to_num,
    ),
    row(
        "F.relu F.relu_ relu relu_ .relu .relu_",
        "input, inplace=False",
        lambda b, a: act.relu(b, a.input),
    ),
    row(
        "F.relu6 aten.relu6 aten.relu6_",
        "input, inplace=False",
        lambda b, a: act.clamp(b, a.input, 0.0, 6.0),
    ),
    row(
        "F.hardtanh F.hardtanh_ aten.hardtanh aten.hardtanh_",
        "input, min_val=-1.0, max_val=1.0, inplace=False",
        _hardtanh,
    ),
    row("F.silu aten.silu aten.silu_", "input, inplace=False", lambda b, a: act.silu(b, a.input)),
    row("F.mish aten.mish aten.mish_", "input, inplace=False", lambda b, a: act.mish(b, a.input)),
    row("F.gelu aten.gelu_", "input, *, approximate='none'", _gelu),
    row(
        "F.elu F.elu_", "input, alpha=1.0, inplace=False", lambda b, a: act.elu(b, a.input, a.alpha)
    ),
    row(
        "aten.elu aten.elu_",
        "input, alpha=1, scale=1, input_scale=1",
        _scaled_elu,
    ),
    row("F.selu F.selu_ selu selu_", "input, inplace=False", lambda b, a: act.selu(b, a.input)),
    row(
        "F.celu F.celu_ celu celu_",
        "input, alpha=1.0, inplace=False",
        lambda b, a: act.celu(b, a.input, a.alpha),
    ),
    row(
        "F.leaky_relu F.leaky_relu_ aten.leaky_relu aten.leaky_relu_",
        "input, negative_slope=0.01, inplace=False",
        lambda b, a: act.leaky_relu(b, a.input, a.negative_slope),
    ),
    row("F.prelu prelu .prelu", "input, weight", _prelu),
    row(
        "F.rrelu F.rrelu_ rrelu rrelu_",
        "input, lower=0.125, upper=0.3333333333333333, training=False, inplace=False, *, "
        "drawn=None",
        _rrelu,
        draws="slopes",
    ),
    row(
        "F.softplus",
        "input, beta=1, threshold=20",
        lambda b, a: act.softplus(b, a.input, a.beta, a.threshold),
    ),
    row("F.softsign", "input", lambda b, a: a.input / (b("abs", a.input) + 1.0)),
    row("F.tanhshrink", "input", lambda b, a: a.input - b("tanh", a.input)),
    row("F.softshrink", "input, lambd=0.5", _shrink),
    row("F.hardshrink hardshrink .hardshrink", "input, lambd=0.5", _hardshrink),
    row(
        "F.threshold F.threshold_ threshold threshold_",
        "input, threshold, value, inplace=False",
        _threshold,
    ),
    row("F.logsigmoid aten.log_sigmoid", "input", lambda b, a: act.log_sigmoid(b, a.input)),
    row(
        "F.hardsigmoid aten.hardsigmoid aten.hardsigmoid_",
        "input, inplace=False",
        lambda b, a: act.hardsigmoid(b, a.input),
    ),
    row(
        "F.hardswish aten.hardswish aten.hardswish_",
        "input, inplace=False",
        lambda b, a: a.input * act.clamp(b, a.input + 3.0, 0.0, 6.0) / 6.0,
    ),
    row("F.glu aten.glu", "input, dim=-1", _glu),
    row(
        "F.softmax softmax .softmax special.softmax",
        "input, dim=None, _stacklevel=3, dtype=None, *, negated=False",
        _softmax("softmax"),
    ),
    row(
        "F.softmin",
        "input, dim=None, _stacklevel=3, dtype=None, *, negated=True",
        _softmax("softmax"),
    ),
    row(
        "F.log_softmax log_softmax .log_softmax special.log_softmax",
        "input, dim=None, _stacklevel=3, dtype=None, *, negated=False",
        _softmax("log_softmax"),
    ),
    row("_softmax", "input, dim, half_to_float, *, negated=False", _softmax("softmax")),
    row("_log_softmax", "input, dim, half_to_float, *, negated=False", _softmax("log_softmax")),
    row("_safe_softmax", "input, dim, dtype=None", _safe_softmax),
    row(
        ".to aten._to_copy",
        "input, *rest, dtype=None, other=None, layout=None, device=None, pin_memory=None, "
        "non_blocking=False, copy=False, memory_format=None",
        _to,
    ),
    row(
        ".type",
        "input, dtype, non_blocking=False",
        lambda b, a: as_kind(b, a.input, Kind.of_dtype(a.dtype.name)),
    ),
    row(".type_as", "input, other", lambda b, a: as_kind(b, a.input, a.other.kind)),
    row(".float .double .half .bfloat16", "input, memory_format=None", _cast_to(Kind.FLOAT)),
    row(".long .int .short .char .byte", "input, memory_format=None", _cast_to(Kind.INT)),
    row(".bool", "input, memory_format=None", _cast_to(Kind.BOOL)),
    row(
        "clone .clone .contiguous .cpu .cuda .detach detach .detach_ .data .requires_grad_ "
        "resolve_conj .resolve_conj .pin_memory aten.alias aten.lift_fresh aten.lift_fresh_copy "
        "alias_copy detach_copy resolve_neg .resolve_neg",
        "input, device=None, non_blocking=False, *, memory_format=None",
        _identity,
    ),
    row(
        "F.dropout F.dropout1d F.dropout2d F.dropout3d",
        "input, p=0.5, training=True, inplace=False, *, drawn=None",
        _dropout,
    ),
    row(
        "F.alpha_dropout F.feature_alpha_dropout",
        "input, p=0.5, training=True, inplace=False, *, drawn=None",
        _alpha_dropout,
    ),
    row(
        "dropout feature_dropout",
        "input, p, train, *, drawn=None",
        lambda b, a: _dropout(b, _in_training(a)),
    ),
    row(
        "alpha_dropout",
        "input, p, train, *, drawn=None",
        lambda b, a: _alpha_dropout(b, _in_training(a)),
    ),
    draw_row("randn", f"*size, {MADE}", "normal", lambda _: (0.0, 1.0)),
    draw_row("randn_like", f"input, *, {MADE}", "normal", lambda _: (0.0, 1.0)),
    draw_row("rand", f"*size, {MADE}", "uniform", lambda _: (0.0, 1.0)),
    draw_row("rand_like", f"input, *, {MADE}", "uniform", lambda _: (0.0, 1.0)),
    draw_row("normal", f"mean, std, size, *, {MADE}", "normal", lambda a: (a.mean, a.std)),
    draw_row(
        ".normal_",
        "input, mean=0.0, std=1.0, *, generator=None",
        "normal",
        lambda a: (a.mean, a.std),
    ),
    draw_row(
        ".uniform_",
        "input, low=0.0, high=1.0, *, generator=None",
        "uniform",
        lambda a: (a.low, a.high - a.low),
    ),
    draw_row(
        ".exponential_",
        "input, lambd=1.0, *, generator=None",
        "exponential",
        lambda a: (0.0, 1 / a.lambd),
    ),
)
