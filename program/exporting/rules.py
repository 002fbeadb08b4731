"""The standard operators of ONNX (opset 18) by which primitives are written.

A rule returns the names of the results. ``None`` says that there is no standard operator that
gives the same for these kinds and attributes; the primitive is then a node of the domain
``padiff``, as one without a row is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from padiff.program.primitives import Kind, broadcast

if TYPE_CHECKING:
    from .graph import Case

OPSET = 18
LARGEST_INDEX = 2**20
"""Indices that are written out for the windows of one axis."""

Names: TypeAlias = str | tuple[str, ...] | None
Rule: TypeAlias = Callable[["Case"], Names]


def _same(op_type: str) -> Rule:
    """A function of real numbers under its own name."""

    def rule(c: Case) -> Names:
        if c.operands[0].spec.kind is Kind.COMPLEX or c.kind is Kind.BOOL:
            return None
        return c.op(op_type, c.x(0, c.kind))

    return rule


def _whole(op_type: str) -> Rule:
    """Rounding, which leaves integers alone."""
    return lambda c: c.op("Identity" if c.kind is Kind.INT else op_type, c.x())


def _promoted(op_type: str, of_bools: str | None = None) -> Rule:
    """Arithmetic in the kind of the result."""

    def rule(c: Case) -> Names:
        name = of_bools if c.kind is Kind.BOOL else op_type
        return None if name is None or c.kind is Kind.COMPLEX else c.op(name, *c.all(c.kind))

    return rule


def _bits(of_bools: str, of_integers: str) -> Rule:
    return lambda c: c.op(of_bools if c.kind is Kind.BOOL else of_integers, *c.all(c.kind))


def _compared(op_type: str) -> Rule:
    def rule(c: Case) -> Names:
        kinds = [operand.spec.kind for operand in c.operands]
        widest = max(kinds, key=lambda kind: kind.rank)
        if widest is Kind.COMPLEX:
            return None
        return c.op(op_type, *c.all(Kind.INT if widest is Kind.BOOL else widest))

    return rule


def _predicate(op_type: str) -> Rule:
    return lambda c: c.op(op_type, c.x()) if c.operands[0].spec.kind is Kind.FLOAT else None


def _logarithm(base: float) -> Rule:
    def rule(c: Case) -> Names:
        if c.kind is Kind.COMPLEX:
            return None
        scale = c.number(float(np.log(base)), Kind.FLOAT)
        return c.op("Div", c.op("Log", c.x(0, Kind.FLOAT)), scale)

    return rule


def _floor_divide(c: Case) -> Names:
    """Integers only: the quotient of floats would be rounded before it is cut."""
    if c.kind is not Kind.INT:
        return None
    x, y = c.all(Kind.INT)
    return c.op("Div", c.op("Sub", x, c.op("Mod", x, y)), y)


def _modulo(c: Case) -> Names:
    return c.op("Mod", *c.all(Kind.INT)) if c.kind is Kind.INT else None


def _remainder(c: Case) -> Names:
    return c.op("Mod", *c.all(c.kind), fmod=1)


def _trunc(c: Case) -> Names:
    if c.kind is Kind.INT:
        return c.op("Identity", c.x())
    return c.op("Mul", c.op("Sign", c.x()), c.op("Floor", c.op("Abs", c.x())))


def _where(c: Case) -> Names:
    return c.op("Where", c.x(), c.x(1, c.kind), c.x(2, c.kind))


def _cast(c: Case) -> Names:
    if Kind.COMPLEX in {c.kind, c.operands[0].spec.kind}:
        return None
    return c.cast(c.x(), c.kind)


# -- reductions


def _reduced(op_type: str) -> Rule:
    """Reduce along axes; bools as integers, since ONNX reduces numbers only."""

    def rule(c: Case) -> Names:
        if c.kind is Kind.COMPLEX:
            return None
        kind = Kind.INT if c.kind is Kind.BOOL else c.kind
        x, ndim = c.x(0, kind), c.operands[0].spec.ndim
        axes = tuple(axis % ndim for axis in c.attributes["axes"]) if ndim else ()
        if axes:
            x = c.op(op_type, x, c.ints(*axes), keepdims=int(c.attributes["keepdims"]))
        return c.op("Cast", x, to=c.graph.dtype(c.kind)) if kind is not c.kind else _own(c, x)

    return rule


def _own(c: Case, name: str) -> str:
    """Return a name that is not that of an operand."""
    return c.op("Identity", name) if name == c.operands[0].name else name


def _place(op_type: str) -> Rule:
    def rule(c: Case) -> Names:
        kind = c.operands[0].spec.kind
        x = c.x(0, Kind.INT if kind is Kind.BOOL else kind)
        return c.op(op_type, x, axis=c.attributes["axis"], keepdims=0)

    return rule


def _cumsum(c: Case) -> Names:
    if c.kind is Kind.COMPLEX:
        return None
    axis = c.number(c.attributes["axis"], Kind.INT)
    return c.op("CumSum", c.x(0, c.kind), axis)


def _softmax(op_type: str) -> Rule:
    def rule(c: Case) -> Names:
        x, axis = c.x(0, Kind.FLOAT), c.attributes["axis"]
        if "least" in c.attributes:
            largest = c.op("ReduceMax", x, c.ints(axis % len(c.shape)), keepdims=1)
            least = c.number(c.attributes["least"], Kind.FLOAT)
            x = c.op("Max", c.op("Sub", x, largest), least)
        return c.op(op_type, x, axis=axis)

    return rule


# -- shapes


def _reshape(c: Case) -> Names:
    return c.op("Reshape", c.x(), c.ints(*c.shape), allowzero=1)


def _transpose(c: Case) -> Names:
    ndim = c.operands[0].spec.ndim
    return c.op("Transpose", c.x(), perm=tuple(axis % ndim for axis in c.attributes["order"]))


def _expand(c: Case) -> Names:
    return c.op("Expand", c.x(), c.ints(*c.shape))


def _sliced(c: Case, axis: int, start: int, stop: int, step: int = 1) -> str:
    return c.op("Slice", c.x(), c.ints(start), c.ints(stop), c.ints(axis), c.ints(step))


def _slice(c: Case) -> Names:
    a = c.attributes
    return _sliced(c, a["axis"] % len(c.shape), a["start"], a["stop"], a["step"])


def _flip(c: Case) -> Names:
    axes = [axis % len(c.shape) for axis in c.attributes["axes"]]
    if not axes:
        return c.op("Identity", c.x())
    ends, steps = [-(2**62)] * len(axes), [-1] * len(axes)
    return c.op("Slice", c.x(), c.ints(*steps), c.ints(*ends), c.ints(*axes), c.ints(*steps))


def _roll(c: Case) -> Names:
    axis = c.attributes["axis"] % len(c.shape)
    size = c.shape[axis]
    at = size - c.attributes["shift"] % max(size, 1)
    parts = (_sliced(c, axis, at, size), _sliced(c, axis, 0, at))
    return c.op("Concat", *parts, axis=axis)


def _concat(c: Case) -> Names:
    return c.op("Concat", *c.all(c.kind), axis=c.attributes["axis"] % len(c.shape))


def _pad(c: Case) -> Names:
    widths, mode = c.attributes["widths"], c.attributes["mode"]
    if mode == "wrap" or c.kind is Kind.COMPLEX:  # wrap is known from opset 19 on
        return None
    kept, name = [max(width[0], 0) for width in widths], c.x()
    kept += [max(width[1], 0) for width in widths]
    if any(min(width) < 0 for width in widths):
        name = _cropped(c)
    if mode != "constant":
        return c.op("Pad", name, c.ints(*kept), mode=mode)
    return c.op("Pad", name, c.ints(*kept), c.number(c.attributes["value"], c.kind), mode=mode)


def _cropped(c: Case) -> str:
    """Cut off what negative widths leave away, which not every evaluator does."""
    pairs = zip(c.attributes["widths"], c.operands[0].spec.shape, strict=True)
    bounds = [(max(-before, 0), size - max(-after, 0)) for (before, after), size in pairs]
    starts, ends = zip(*bounds, strict=True)
    return c.op("Slice", c.x(), c.ints(*starts), c.ints(*ends), c.ints(*range(len(bounds))))


def _triangle(*, upper: bool) -> Rule:
    def rule(c: Case) -> Names:
        offset = c.number(c.attributes["offset"], Kind.INT)
        return c.op("Trilu", c.x(), offset, upper=int(upper))

    return rule


def _full(c: Case) -> Names:
    value = c.number(c.attributes["value"], c.kind)
    return c.op("Expand", value, c.ints(*c.shape)) if c.shape else value


def _literal(c: Case) -> Names:
    return c.graph.constant(np.array(c.attributes["values"]).reshape(c.shape), c.kind)


def _iota(c: Case) -> Names:
    return c.op("Range", *(c.number(end, Kind.INT) for end in (0, c.attributes["size"], 1)))


def _windows(c: Case) -> Names:
    """Gather the windows by an index, which puts their places behind the axis; move them last."""
    a, ndim = c.attributes, c.operands[0].spec.ndim
    axis, count = a["axis"] % ndim, c.shape[a["axis"] % ndim]
    if count * a["size"] > LARGEST_INDEX:
        return None
    index = np.arange(count)[:, None] * a["step"] + np.arange(a["size"]) * a["dilation"]
    found = c.op("Gather", c.x(), c.graph.constant(index, Kind.INT), axis=axis)
    order = [place for place in range(ndim + 1) if place != axis + 1]
    return c.op("Transpose", found, perm=(*order, axis + 1))


# -- indexing


def _take(c: Case) -> Names:
    return c.op("Gather", c.x(), c.x(1), axis=c.attributes["axis"] % c.operands[0].spec.ndim)


def _gather(c: Case) -> Names:
    """Cut the value down to the index along other axes, where ONNX wants equal sizes."""
    x, index = (operand.spec for operand in c.operands)
    axis = c.attributes["axis"] % x.ndim
    axes = [one for one in range(x.ndim) if one != axis and x.shape[one] != index.shape[one]]
    name = c.x()
    if axes:
        starts, ends = c.ints(*[0] * len(axes)), c.ints(*(index.shape[one] for one in axes))
        name = c.op("Slice", name, starts, ends, c.ints(*axes))
    return c.op("GatherElements", name, c.x(1), axis=axis)


_REDUCTIONS = {"set": "none", "add": "add", "mul": "mul", "amax": "max", "amin": "min"}


def _scatter(c: Case) -> Names:
    if c.kind in {Kind.BOOL, Kind.COMPLEX}:
        return None
    reduction = _REDUCTIONS[c.attributes["reduce"]]
    axis = c.attributes["axis"] % len(c.shape)
    return c.op("ScatterElements", c.x(), c.x(1), c.x(2, c.kind), axis=axis, reduction=reduction)


def _coordinates(c: Case, first: int) -> str:
    """Return the indices from an operand on as one value whose last axis is the coordinates."""
    indices = c.operands[first:]
    shape = broadcast(*(index.spec.shape for index in indices))
    parts = []
    for index in indices:
        wide = (
            c.op("Expand", index.name, c.ints(*shape)) if index.spec.shape != shape else index.name
        )
        parts.append(c.op("Unsqueeze", wide, c.ints(-1)))
    return c.op("Concat", *parts, axis=-1)


def _pick(c: Case) -> Names:
    return c.op("GatherND", c.x(), _coordinates(c, 1))


def _put(c: Case) -> Names:
    if c.kind in {Kind.BOOL, Kind.COMPLEX}:
        return None
    places = broadcast(*(index.spec.shape for index in c.operands[2:]))
    picked = (*places, *c.shape[len(c.operands) - 2 :])
    source = c.op("Expand", c.x(1, c.kind), c.ints(*picked))
    reduction = _REDUCTIONS[c.attributes["reduce"]]
    return c.op("ScatterND", c.x(), _coordinates(c, 2), source, reduction=reduction)


def _nonzero(c: Case) -> Names:
    return c.op("Transpose", c.op("NonZero", c.x()), perm=(1, 0))


def _sort(c: Case) -> Names:
    if c.kind is Kind.BOOL:
        return None
    axis = c.attributes["axis"] % len(c.shape)
    found = c.graph.add(
        "TopK", [c.x(), c.ints(c.shape[axis])], count=2, axis=axis,
        largest=int(c.attributes["descending"]), sorted=1,
    )  # fmt: skip
    return tuple(found)


# -- products


def _matmul(c: Case) -> Names:
    return None if c.kind is Kind.COMPLEX else c.op("MatMul", *c.all(c.kind))


def _convolution(c: Case) -> Names:
    a = c.attributes
    if c.kind is not Kind.FLOAT or min(width for pair in a["padding"] for width in pair) < 0:
        return None
    return c.op("Conv", *c.all(c.kind), pads=_pads(c), **_window(c))


def _convolution_transposed(c: Case) -> Names:
    a = c.attributes
    if c.kind is not Kind.FLOAT or min(width for pair in a["padding"] for width in pair) < 0:
        return None
    return c.op("ConvTranspose", *c.all(c.kind), pads=_pads(c), **_window(c))


def _pads(c: Case) -> tuple[int, ...]:
    before, after = zip(*c.attributes["padding"], strict=True)
    return (*before, *after)


def _window(c: Case) -> dict[str, object]:
    a, weight = c.attributes, c.operands[1].spec
    return {
        "strides": a["stride"],
        "dilations": a["dilation"],
        "group": a["groups"],
        "kernel_shape": weight.shape[2:],
    }


_UNARY = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
    "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "sigmoid": "Sigmoid", "softplus": "Softplus", "erf": "Erf",
    "real": "Identity", "conj": "Identity",
}  # fmt: skip

RULES: Mapping[str, Rule] = {
    **{name: _same(op_type) for name, op_type in _UNARY.items()},
    "floor": _whole("Floor"),
    "ceil": _whole("Ceil"),
    "round": _whole("Round"),
    "trunc": _trunc,
    "isnan": _predicate("IsNaN"),
    "isinf": _predicate("IsInf"),
    "not": _bits("Not", "BitwiseNot"),
    "add": _promoted("Add", "Or"),
    "sub": _promoted("Sub"),
    "mul": _promoted("Mul", "And"),
    "div": _promoted("Div"),
    "pow": _promoted("Pow"),
    "maximum": _promoted("Max", "Or"),
    "minimum": _promoted("Min", "And"),
    "floor_divide": _floor_divide,
    "modulo": _modulo,
    "remainder": _remainder,
    "equal": _compared("Equal"),
    "less": _compared("Less"),
    "less_equal": _compared("LessOrEqual"),
    "and": _bits("And", "BitwiseAnd"),
    "or": _bits("Or", "BitwiseOr"),
    "xor": _bits("Xor", "BitwiseXor"),
    "where": _where,
    "cast": _cast,
    "log2": _logarithm(2.0),
    "log10": _logarithm(10.0),
    "sum": _reduced("ReduceSum"),
    "prod": _reduced("ReduceProd"),
    "amax": _reduced("ReduceMax"),
    "amin": _reduced("ReduceMin"),
    "all": _reduced("ReduceMin"),
    "any": _reduced("ReduceMax"),
    "logsumexp": _reduced("ReduceLogSumExp"),
    "argmax": _place("ArgMax"),
    "argmin": _place("ArgMin"),
    "cumsum": _cumsum,
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "reshape": _reshape,
    "transpose": _transpose,
    "expand": _expand,
    "slice": _slice,
    "flip": _flip,
    "roll": _roll,
    "concat": _concat,
    "pad": _pad,
    "tril": _triangle(upper=False),
    "triu": _triangle(upper=True),
    "full": _full,
    "literal": _literal,
    "iota": _iota,
    "windows": _windows,
    "take": _take,
    "gather": _gather,
    "scatter": _scatter,
    "pick": _pick,
    "put": _put,
    "nonzero": _nonzero,
    "sort": _sort,
    "matmul": _matmul,
    "convolution": _convolution,
    "convolution_transposed": _convolution_transposed,
}
"""By the name of the primitive."""
