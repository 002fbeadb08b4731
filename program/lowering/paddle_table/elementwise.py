"""Arithmetic, functions, comparisons and activations of Paddle: each element by itself."""

from __future__ import annotations

import math

from padiff.program.graph import Dtype
from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import indexing as at
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Row, Rule, binary, draw_row, row, unary
from padiff.program.primitives import Kind


def _floats(name: str) -> Rule:
    return lambda b, a: b(name, s.as_float(b, a.x))


def _reversed(name: str) -> Rule:
    return lambda b, a: b(name, a.y, a.x)


def _logical(name: str) -> Rule:
    return lambda b, a: b(name, s.as_kind(b, a.x, Kind.BOOL), s.as_kind(b, a.y, Kind.BOOL))


def _activation(function: object) -> Rule:
    assert callable(function)
    return lambda b, a: function(b, a.x)


def _scale(b: Builder, a: Arguments) -> Term:
    """Multiply and add; in integers, factor and bias are cut to integers first."""
    factor, bias = (_number(b, each, a.x.kind) for each in (a.scale, a.bias))
    if not a.bias_after_scale:
        return (a.x + bias) * factor
    return a.x * factor + bias


def _number(b: Builder, value: object, kind: Kind) -> Term:
    return s.as_kind(b, b.term(s.number(b, value)), kind)


def _power(b: Builder, a: Arguments) -> Term:
    exponent = s.number(b, a.y)
    if exponent == 2:  # noqa: PLR2004
        return b("mul", a.x, a.x)
    if a.x.kind is Kind.INT and isinstance(exponent, float) and exponent.is_integer():
        exponent = int(exponent)
    return b("pow", a.x, exponent)


def _clip(b: Builder, a: Arguments) -> Term:
    low, high = (_number(b, each, a.x.kind) for each in (a.min, a.max))
    return act.clamp(b, a.x, low, high)


def _round(b: Builder, a: Arguments) -> Term:
    """Round to decimals; halves go to the even neighbour."""
    if not a.decimals:
        return b("round", a.x)
    return b("round", a.x * 10.0**a.decimals) / 10.0**a.decimals


def _where(b: Builder, a: Arguments) -> Term:
    return b("where", s.as_kind(b, a.condition, Kind.BOOL), a.x, a.y)


def _masked_fill(b: Builder, a: Arguments) -> Term:
    return b("where", a.mask, s.as_kind(b, b.term(a.value), a.x.kind), a.x)


def _cast(b: Builder, a: Arguments) -> Term:
    if not isinstance(a.dtype, Dtype):
        raise NotLoweredError("no dtype")
    return s.as_kind(b, a.x, Kind.of_dtype(a.dtype.name))


def _identity(_b: Builder, a: Arguments) -> Term:
    return a.x


def _dropout(b: Builder, a: Arguments) -> Term:
    share = s.number(b, a.p)
    if a.is_test:
        return a.x if a.mode == "upscale_in_train" else a.x * (1.0 - share)
    if share == 0:
        return a.x
    return act.dropout(b, a.x, a.drawn, share, is_scaled=a.mode == "upscale_in_train")


def _gelu(b: Builder, a: Arguments) -> Term:
    return act.gelu_tanh(b, a.x) if a.approximate else act.gelu(b, a.x)


def _prelu(b: Builder, a: Arguments) -> Term:
    alpha = a.alpha
    if a.mode == "channel":
        axis = 1 if a.data_format.startswith("NC") else a.x.ndim - 1
        alpha = s.reshape(b, alpha, [-1 if axis == place else 1 for place in range(a.x.ndim)])
    elif a.mode == "element":
        alpha = s.reshape(b, alpha, (1, *a.x.shape[1:]))
    else:
        alpha = s.reshape(b, alpha, ())
    return act.leaky_relu(b, a.x, alpha)


def _softplus(b: Builder, a: Arguments) -> Term:
    return act.softplus(b, a.x, a.beta, a.threshold, is_cancelling=True)


def _softshrink(b: Builder, a: Arguments) -> Term:
    inside = b("abs", a.x) <= a.threshold
    return b("where", inside, 0.0, a.x - b("sign", a.x) * a.threshold)


def _hardshrink(b: Builder, a: Arguments) -> Term:
    return b("where", b("abs", a.x) <= a.threshold, 0.0, a.x)


def _softmax(b: Builder, a: Arguments) -> Term:
    """Compute shares; Paddle's kernels for CPUs count no exponent as less than -64."""
    if not a.x.ndim:
        return b("exp", a.x * 0.0)
    return b("softmax", a.x, axis=s.axis_of(b, a.axis, a.x.ndim), least=_LEAST_EXPONENT)


def _soft(name: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        if not a.x.ndim:
            return s.reshape(b, b(name, s.reshape(b, a.x, (1,)), axis=0), ())
        return b(name, a.x, axis=s.axis_of(b, a.axis, a.x.ndim))

    return rule


def _swiglu(b: Builder, a: Arguments) -> Term:
    if a.y is not None:
        return act.silu(b, a.x) * a.y
    half = a.x.shape[-1] // 2
    first, second = s.split(b, a.x, a.x.ndim - 1, [half, half])
    return act.silu(b, first) * second


def _isfinite(b: Builder, a: Arguments) -> Term:
    if a.x.kind in {Kind.INT, Kind.BOOL}:
        return b("equal", a.x, a.x)
    return b("not", b("or", b("isnan", a.x), b("isinf", a.x)))


def _lerp(_b: Builder, a: Arguments) -> Term:
    return a.x + a.weight * (a.y - a.x)


def _angle(b: Builder, a: Arguments) -> Term:
    if a.x.kind is Kind.COMPLEX:
        return b("atan2", b("imag", a.x), b("real", a.x))
    return b("where", a.x < 0, math.pi, 0.0)


def _extreme_of_two(name: str) -> Rule:
    """The other one where one is nan."""

    def rule(b: Builder, a: Arguments) -> Term:
        best = b("where", b("isnan", a.x), a.y, b(name, a.x, a.y))
        return b("where", b("isnan", a.y), a.x, best)

    return rule


def _sum_of_all(b: Builder, a: Arguments) -> Term:
    result = a.inputs[0]
    for each in a.inputs[1:]:
        result = b("add", result, each)
    return result


def _isclose(b: Builder, a: Arguments) -> Term:
    near = b("abs", a.x - a.y) <= b("abs", a.y) * s.number(b, a.rtol) + s.number(b, a.atol)
    return b("or", b("equal", a.x, a.y), near)


def _logit(b: Builder, a: Arguments) -> Term:
    x = act.clamp(b, a.x, float(a.eps), 1.0 - a.eps) if a.eps else a.x
    return b("log", x / (1.0 - x))


def _truncated_quotient(b: Builder, a: Arguments) -> Term:
    return s.as_kind(b, b("trunc", b("div", a.x, a.y)), a.x.kind)


def _any_power(b: Builder, a: Arguments) -> Term:
    return b("pow", a.x, a.y) if isinstance(a.y, Term) else _power(b, a)


def _shift(side: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        if not a.is_arithmetic:
            raise NotLoweredError("a shift of bare bits")
        return b(f"shift_{side}", a.x, a.y)

    return rule


def _written(b: Builder, a: Arguments) -> Term:
    """Return what is written into a tensor of the same size."""
    if not isinstance(a.y, Term):
        raise NotLoweredError("elements that are no tensor")
    return s.expand(b, s.as_kind(b, a.y, a.x.kind), a.x.shape)


def _copied(b: Builder, a: Arguments) -> tuple[Term, ...]:
    """Return what is written into a tensor, and once more where another object of it came back."""
    return (_written(b, a),) * len(b.expected)


def _polygamma(b: Builder, a: Arguments) -> Term:
    return b("polygamma", a.x, order=a.n)


def _unscaled(name: str) -> Rule:
    return lambda b, a: b(name, a.x) * b("exp", b("abs", a.x))


def _heaviside(b: Builder, a: Arguments) -> Term:
    return b("where", b("equal", a.x, 0.0), a.y, s.as_kind(b, a.x > 0, a.x.kind))


def _random_relu(b: Builder, a: Arguments) -> Term:
    if not a.is_test:
        return act.random_relu(b, a.x, a.drawn, a.lower, a.upper)
    return act.leaky_relu(b, a.x, (a.lower + a.upper) / 2)


def _gumbel_softmax(b: Builder, a: Arguments) -> Term:
    """Choose by noise: exponential numbers were drawn, whose logarithms count against the scores.

    A hard choice hands no gradient back in Paddle's kernel.
    """
    if a.drawn is None:
        raise NotLoweredError("noise is drawn")
    axis = a.axis % a.x.ndim
    soft = b("softmax", (a.x - b("log", a.drawn)) / a.temperature, axis=axis)
    if not a.hard:
        return soft
    hot = at.one_hot(b, b("argmax", soft, axis=axis), soft.shape[axis], Kind.FLOAT)
    return s.move_axis(b, hot, [a.x.ndim - 1], [axis])


def _smoothed(_b: Builder, a: Arguments) -> Term:
    """Mix labels with equal shares, or with given ones."""
    rest = 1 / a.label.shape[-1] if a.prior_dist is None else a.prior_dist
    return a.label * (1.0 - a.epsilon) + rest * float(a.epsilon)


def _channelwise(b: Builder, a: Arguments) -> Term:
    axis = a.x.ndim - 1 if a.data_layout == "NHWC" else 1
    shape = [-1 if axis == place else 1 for place in range(a.x.ndim)]
    return a.x * s.reshape(b, a.scale, shape) + s.reshape(b, a.bias, shape)


def _all_close(b: Builder, a: Arguments) -> Term:
    near = _isclose(b, a)
    if a.equal_nan:
        near = b("or", near, b("and", b("isnan", a.x), b("isnan", a.y)))
    return b("all", near, axes=tuple(range(near.ndim)), keepdims=False)


def _all_equal(b: Builder, a: Arguments) -> Term:
    if a.x.shape != a.y.shape:
        return b("full", shape=(), value=False, kind="bool")
    same = b("equal", a.x, a.y)
    return b("all", same, axes=tuple(range(same.ndim)), keepdims=False)


def _position_encoding(b: Builder, a: Arguments) -> Term:
    """Add sines in the first half of the features and cosines in the other."""
    _, length, width = a.x.shape
    half = width // 2
    if width % 2 or not half:
        raise NotLoweredError("features that have no half")
    place = s.as_kind(b, s.positions(b, length, 2, 0), Kind.FLOAT)
    power = s.as_kind(b, s.positions(b, half, 2, 1), Kind.FLOAT) / float(max(half - 1, 1))
    angle = place / b("pow", b.term(10000.0), power)
    waves = b("concat", b("sin", angle), b("cos", angle), axis=1)
    return a.x * float(a.alpha) + waves * float(a.beta)


def _in_place(names: str) -> str:
    """Return names together with those of the operators that write into their argument."""
    return " ".join(f"{name} {name}_" for name in names.split())


_LEAST_EXPONENT = -64.0
_SINGLE = 1e-7
"""Of operators whose settings are float32, whatever the tensors are."""
_FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "erf", "erfinv", "sigmoid"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "digamma", "lgamma"),
)
_COMPARISONS = {
    "equal": lambda b, a: b("equal", a.x, a.y),
    "not_equal": lambda b, a: b("not", b("equal", a.x, a.y)),
    "less_than": binary("less"),
    "less_equal": binary("less_equal"),
    "greater_than": _reversed("less"),
    "greater_equal": _reversed("less_equal"),
}
_SHORT = ("eq", "ne", "lt", "le", "gt", "ge")
_BESSEL: dict[str, Rule] = {
    "i0 i0_": _unscaled("bessel_i0e"),
    "i0e": _floats("bessel_i0e"),
    "i1": _unscaled("bessel_i1e"),
    "i1e": _floats("bessel_i1e"),
}

ROWS: tuple[Row, ...] = (
    *(
        row(_in_place(name), "x", _floats(name), tolerance=1e-9 if name == "digamma" else 1e-12)
        for name in _FUNCTIONS
    ),
    row("abs abs_ .__abs__", "x", unary("abs")),
    *(row(_in_place(name), "x", unary(name)) for name in ("floor", "ceil", "trunc")),
    row("sign", "x", unary("sign")),
    row(_in_place("rint"), "x", unary("round")),
    row(_in_place("rsqrt"), "x", lambda b, a: 1.0 / b("sqrt", s.as_float(b, a.x))),
    row(_in_place("reciprocal"), "x", lambda b, a: 1.0 / s.as_float(b, a.x)),
    row(_in_place("square"), "x", lambda b, a: b("mul", a.x, a.x)),
    row(_in_place("round"), "x, decimals=0", _round),
    row(_in_place("add") + " .__add__ .__radd__", "x, y", binary("add")),
    row(_in_place("subtract") + " .__sub__", "x, y", binary("sub")),
    row(".__rsub__", "x, y", _reversed("sub")),
    row(_in_place("multiply") + " .__mul__ .__rmul__", "x, y", binary("mul")),
    row(_in_place("divide") + " .__div__ .__truediv__", "x, y", binary("div")),
    row(".__rdiv__ .__rtruediv__", "x, y", _reversed("div")),
    row(_in_place("floor_divide") + " .__floordiv__", "x, y", binary("floor_divide")),
    row(".__rfloordiv__", "x, y", _reversed("floor_divide")),
    row(_in_place("trunc_divide"), "x, y", _truncated_quotient),
    row(_in_place("remainder") + " .__mod__", "x, y", binary("modulo")),
    row(".__rmod__", "x, y", _reversed("modulo")),
    row("maximum", "x, y", binary("maximum")),
    row("minimum", "x, y", binary("minimum")),
    row("fmax", "x, y", _extreme_of_two("maximum")),
    row("fmin", "x, y", _extreme_of_two("minimum")),
    row("elementwise_pow .__pow__", "x, y", _any_power),
    row(".__rpow__", "x, y", _reversed("pow")),
    row("atan2", "x, y", binary("atan2")),
    row(_in_place("copysign"), "x, y", binary("copysign")),
    row(_in_place("pow"), "x, y=1.0", _power),
    row(_in_place("scale"), "x, scale=1.0, bias=0.0, bias_after_scale=True", _scale),
    row("increment_", "x, value=1.0", lambda b, a: a.x + _number(b, a.value, a.x.kind)),
    row("add_n", "inputs", _sum_of_all),
    row(_in_place("clip"), "x, min, max", _clip),
    row(_in_place("lerp"), "x, y, weight", _lerp),
    *(row(f"{_in_place(name)} .__{short}__", "x, y", rule)
      for (name, rule), short in zip(_COMPARISONS.items(), _SHORT, strict=True)),
    *(row(_in_place(f"logical_{name}"), "x, y", _logical(name)) for name in ("and", "or", "xor")),
    row(_in_place("logical_not"), "x", lambda b, a: b("not", s.as_kind(b, a.x, Kind.BOOL))),
    *(row(f"{_in_place(f'bitwise_{name}')} .__{name}__ .__r{name}__", "x, y", binary(name))
      for name in ("and", "or", "xor")),
    row(_in_place("bitwise_not") + " .__invert__", "x", unary("not")),
    *(row(f"{_in_place(f'bitwise_{side}_shift')} .__{short}shift__", "x, y, is_arithmetic=True",
          _shift(side)) for side, short in (("left", "l"), ("right", "r"))),
    row(".__neg__", "x", unary("neg")),
    row("isnan", "x", unary("isnan")),
    row("isinf", "x", unary("isinf")),
    row("isfinite", "x", _isfinite),
    row("isclose", "x, y, rtol=1e-5, atol=1e-8, equal_nan=False", _isclose),
    row(_in_place("where"), "condition, x, y", _where),
    row(_in_place("masked_fill"), "x, mask, value", _masked_fill),
    row(_in_place("cast"), "x, dtype", _cast),
    row("assign share_data .clone .contiguous .detach .detach_", "x", _identity),
    row("memcpy_d2h", "x, dst_place_type", _identity),
    row("copy_to", "x, place, blocking", _identity),
    row("assign_out_", "x, output", _identity),
    row(".copy_", "x, y, blocking=True", _copied),
    row(".set_value", "x, y", _written),
    row("real", "x", unary("real")),
    row("imag", "x", unary("imag")),
    row("conj", "x", lambda b, a: b("conj", a.x) if a.x.kind is Kind.COMPLEX else a.x),
    row("complex", "real, imag", lambda b, a: b("complex", a.real, a.imag)),
    row("angle", "x", _angle),
    row("dropout",
        "x, seed_tensor=None, p=0.5, is_test=False, mode='downgrade_in_infer', seed=0, "
        "fix_seed=False, *, drawn=None", _dropout, tolerance=_SINGLE),
    draw_row("gaussian", "shape, mean, std, seed, dtype, place, *, out=None", "normal",
        lambda a: (a.mean, a.std)),
    draw_row("gaussian_inplace_", "x, mean=0.0, std=1.0, seed=0, *", "normal",
        lambda a: (a.mean, a.std)),
    draw_row("uniform", "shape, dtype, min, max, seed, place, *, out=None", "uniform",
        lambda a: (a.min, a.max - a.min)),
    draw_row("uniform_inplace_",
        "x, min=-1.0, max=1.0, seed=0, diag_num=0, diag_step=0, diag_val=1.0, *", "uniform",
        lambda a: (a.min, a.max - a.min)),
    draw_row("exponential_", "x, lam=1.0, *", "exponential", lambda a: (0.0, 1 / a.lam)),
    row(_in_place("relu"), "x", _activation(act.relu)),
    row("relu6", "x", lambda b, a: act.clamp(b, a.x, 0.0, 6.0)),
    row("gelu", "x, approximate=False", _gelu),
    row("silu silu_ swish", "x", _activation(act.silu)),
    row("mish", "x, threshold=20.0", lambda b, a: act.mish(b, a.x, is_cancelling=True)),
    row("logsigmoid", "x", lambda b, a: act.log_sigmoid(b, a.x, is_cancelling=True)),
    row("softsign", "x", lambda b, a: a.x / (b("abs", a.x) + 1.0)),
    row("tanh_shrink", "x", lambda b, a: a.x - b("tanh", a.x)),
    row("hardswish", "x", lambda b, a: a.x * act.clamp(b, a.x + 3.0, 0.0, 6.0) / 6.0),
    row("hardsigmoid", "x, slope=0.2, offset=0.5",
        lambda b, a: act.hardsigmoid(b, a.x, a.slope, a.offset), tolerance=_SINGLE),
    row(_in_place("hardtanh"), "x, t_min=0, t_max=24",
        lambda b, a: act.clamp(b, a.x, float(a.t_min), float(a.t_max))),
    row("softplus", "x, beta=1.0, threshold=20.0", _softplus),
    row("softshrink", "x, threshold=0.5", _softshrink),
    row("hardshrink", "x, threshold=0.5", _hardshrink),
    row(_in_place("thresholded_relu"), "x, threshold=1.0, value=0.0",
        lambda b, a: b("where", a.x > a.threshold, a.x, float(a.value))),
    row(_in_place("leaky_relu"), "x, negative_slope=0.02",
        lambda b, a: act.leaky_relu(b, a.x, float(a.negative_slope))),
    row(_in_place("elu"), "x, alpha=1.0",
        lambda b, a: act.elu(b, a.x, a.alpha, is_cancelling=True)),
    row("celu", "x, alpha=1.0", lambda b, a: act.celu(b, a.x, a.alpha, is_cancelling=True)),
    row("selu", "x, scale=1.0507009873554804934193349852946, "
        "alpha=1.6732632423543772848170429916717",
        lambda b, a: act.elu(b, a.x, a.alpha, a.scale, is_cancelling=True), tolerance=_SINGLE),
    row("stanh", "x, scale_a=0.67, scale_b=1.7159",
        lambda b, a: b("tanh", a.x * a.scale_a) * a.scale_b),
    row("prelu", "x, alpha, data_format='NCHW', mode='all'", _prelu),
    row(_in_place("softmax"), "x, axis=-1", _softmax),
    row("log_softmax", "x, axis=-1", _soft("log_softmax")),
    row("swiglu", "x, y=None", _swiglu),
    row(_in_place("logit"), "x, eps=1e-6", _logit),
    row(_in_place("gammaln"), "x", _floats("lgamma")),
    row(_in_place("polygamma"), "x, n", _polygamma, tolerance=1e-10),
    *(row(name, "x", rule) for name, rule in _BESSEL.items()),
    row("heaviside", "x, y", _heaviside),
    row("rrelu", "x, lower=0.125, upper=0.3333333333333333, is_test=False, *, drawn=None",
        _random_relu, tolerance=_SINGLE, draws="slopes"),
    row("gumbel_softmax", "x, temperature=1.0, hard=False, axis=-1, *, drawn=None", _gumbel_softmax,
        tolerance=_SINGLE, draws="exponential"),
    row("label_smooth", "label, prior_dist=None, epsilon=0.0", _smoothed, tolerance=_SINGLE),
    row("affine_channel affine_channel_", "x, scale, bias, data_layout='AnyLayout'", _channelwise),
    row("fused_softmax_mask", "x, mask",
        lambda b, a: b("softmax", a.x + a.mask, axis=a.x.ndim - 1)),
    row("allclose", "x, y, rtol=1e-5, atol=1e-8, equal_nan=False", _all_close),
    row("equal_all", "x, y", _all_equal),
    row("add_position_encoding", "x, alpha=1.0, beta=1.0", _position_encoding, tolerance=_SINGLE),
    row("fill fill_", "x, value=0", lambda b, a: s.filled(b, a.x.shape, a.value, a.x.kind)),
)  # fmt: skip
