"""Primitives written as ONNX give, in ONNX's own evaluator, what they give themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from padiff.program.exporting.export import Port, model_bytes
from padiff.program.exporting.graph import Case, GraphBuilder, Operand
from padiff.program.exporting.rules import OPSET, RULES
from padiff.program.primitives import VOCABULARY, Kind, Spec

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(3, 4, 5))
Y = RANDOM.normal(size=(4, 1))
UNIT = RANDOM.uniform(0.1, 0.9, size=(3, 4))
WHOLE = RANDOM.integers(-7, 8, size=(3, 4))
OTHER = np.array([[-3, 1, 2, 5]])
BOOLS = RANDOM.random((3, 4)) < 0.5
PLACES = np.array([[0, -1, 2], [3, 1, -2]])
Attributes = dict[str, Any]
SAME_ON = {
    "acosh": UNIT + 1, "tan": UNIT, "pow": UNIT, "log": UNIT, "sqrt": UNIT, "log2": UNIT,
    "log10": UNIT,
}  # fmt: skip
UNARY = [
    "neg",
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "exp",
    "log",
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
    "softplus",
    "erf",
    "real",
    "conj",
    "log2",
    "log10",
    "isnan",
    "isinf",
]
BOTH = ["add", "sub", "mul", "div", "maximum", "minimum", "equal", "less", "less_equal"]
REDUCED = ["sum", "prod", "amax", "amin", "logsumexp"]

CASES: list[tuple[str, list[Any], Attributes]] = [
    *((name, [SAME_ON.get(name, UNIT if name[0] == "a" else X)], {}) for name in UNARY),
    *((name, [X, Y], {}) for name in BOTH),
    *((name, [WHOLE, 2.5], {}) for name in BOTH),
    *((name, [WHOLE, OTHER], {}) for name in (*BOTH, "floor_divide", "modulo", "remainder")),
    *((name, [BOOLS, ~BOOLS], {}) for name in BOTH if name not in {"sub", "div"}),
    ("remainder", [X, Y], {}),
    ("floor", [WHOLE], {}), ("trunc", [WHOLE], {}), ("abs", [WHOLE], {}), ("exp", [WHOLE], {}),
    ("pow", [UNIT, X[0, :, :1].T], {}),
    ("pow", [WHOLE, np.array(2)], {}),
    *((name, [BOOLS, BOOLS[::-1]], {}) for name in ("and", "or", "xor")),
    *((name, [WHOLE, OTHER], {}) for name in ("and", "or", "xor")),
    ("not", [BOOLS], {}), ("not", [WHOLE], {}),
    ("where", [BOOLS, WHOLE, UNIT], {}),
    *(("cast", [one], {"kind": kind}) for one in (X, WHOLE, BOOLS)
      for kind in ("float", "int", "bool")),
    *((name, [X], {"axes": axes, "keepdims": keepdims}) for name in REDUCED
      for axes, keepdims in (((-1,), True), ((0, 2), False), ((), True))),
    *((name, [BOOLS], {"axes": (0,), "keepdims": False}) for name in
      ("all", "any", "sum", "amax", "amin", "prod")),
    ("amax", [WHOLE], {"axes": (1,), "keepdims": False}),
    ("logsumexp", [1000 * X], {"axes": (1,), "keepdims": False}),
    ("sum", [np.array(2.0)], {"axes": (0,), "keepdims": False}),
    *((name, [X], {"axis": -2}) for name in ("argmax", "argmin", "cumsum", "softmax",
                                             "log_softmax")),
    ("cumsum", [BOOLS], {"axis": 0}), ("softmax", [WHOLE], {"axis": 0}),
    ("softmax", [40 * X], {"axis": -2, "least": -6.0}),
    ("reshape", [X], {"shape": (2, 6, 5)}), ("reshape", [X[:0]], {"shape": (4, 0)}),
    ("transpose", [X], {"order": (2, -3, 1)}), ("expand", [Y], {"shape": (2, 4, 3)}),
    ("slice", [X], {"axis": -1, "start": 1, "stop": 5, "step": 3}),
    ("slice", [X], {"axis": 0, "start": 2, "stop": 2, "step": 1}),
    ("flip", [X], {"axes": (0, -1)}), ("flip", [X], {"axes": ()}),
    ("roll", [X], {"axis": 1, "shift": -1}), ("roll", [X], {"axis": 1, "shift": 9}),
    ("concat", [UNIT, WHOLE, BOOLS], {"axis": -1}),
    ("pad", [X], {"widths": ((0, 1), (-1, 2), (0, -2)), "mode": "constant", "value": 1.5}),
    ("pad", [BOOLS], {"widths": ((0, 1), (1, 0)), "mode": "constant", "value": True}),
    ("pad", [X], {"widths": ((0, 0), (3, 1), (2, 0)), "mode": "reflect", "value": 0}),
    ("pad", [X], {"widths": ((5, 0), (0, 1), (0, 0)), "mode": "edge", "value": 0}),
    *((name, [X], {"offset": offset}) for name in ("tril", "triu") for offset in (-1, 0, 2)),
    ("full", [], {"shape": (2, 3), "value": float("-inf"), "kind": "float"}),
    ("full", [], {"shape": (), "value": 3, "kind": "int"}),
    ("literal", [], {"shape": (2, 2), "values": (1, 2, 3, 4), "kind": "int"}),
    ("iota", [], {"size": 5}),
    ("windows", [X], {"axis": -2, "size": 2, "step": 2, "dilation": 1}),
    ("windows", [X], {"axis": 2, "size": 2, "step": 1, "dilation": 3}),
    ("take", [X, PLACES], {"axis": 1}),
    ("gather", [X[0], PLACES], {"axis": 0}), ("gather", [X[0], PLACES % 4], {"axis": -1}),
    *(("scatter", [X[0], PLACES, 10 * UNIT[:2, :3]], {"axis": 0, "reduce": reduce})
      for reduce in ("add", "mul", "amax", "amin")),
    ("scatter", [X[0], np.array([[0, 1, 2], [2, 3, 1]]), UNIT[:2, :3]],
     {"axis": 0, "reduce": "set"}),
    ("pick", [X, PLACES[:, :1] % 3, PLACES], {}), ("pick", [X, PLACES % 3], {}),
    ("put", [X, np.array(7), PLACES % 3, PLACES], {"reduce": "set"}),
    ("put", [X, UNIT[0, :1], PLACES % 3], {"reduce": "add"}),
    ("nonzero", [BOOLS], {"count": int(BOOLS.sum())}),
    ("sort", [X], {"axis": 1, "descending": False}),
    ("sort", [WHOLE], {"axis": -1, "descending": True}),
    ("matmul", [X, RANDOM.normal(size=(5, 2))], {}), ("matmul", [WHOLE, UNIT.T], {}),
    ("convolution", [RANDOM.normal(size=(2, 4, 7, 6)), RANDOM.normal(size=(6, 2, 3, 2))],
     {"stride": (2, 1), "padding": ((1, 2), (0, 1)), "dilation": (1, 2), "groups": 2}),
    ("convolution_transposed",
     [RANDOM.normal(size=(2, 4, 5)), RANDOM.normal(size=(4, 2, 3))],
     {"stride": (2,), "padding": ((1, 0),), "dilation": (1,), "groups": 1}),
]  # fmt: skip


RELATIVE = {"erf": 1e-6}
"""Where ONNX's evaluator is less exact than 1e-12: it computes erf in float32."""


def specs_of(arrays: list[Any]) -> list[Spec]:
    kinds = {"b": Kind.BOOL, "i": Kind.INT, "f": Kind.FLOAT}
    return [Spec(kinds[array.dtype.kind], array.shape) for array in arrays]


def evaluated(name: str, operands: list[Any], attributes: Attributes) -> list[Any] | None:
    """Run a primitive as ONNX in float64; None where it has no rule for these operands."""
    specs = specs_of(operands)
    inferred = VOCABULARY[name].infer(*specs, **attributes)
    results = inferred if isinstance(inferred, tuple) else (inferred,)
    graph = GraphBuilder(np.dtype(np.float64))
    names = [graph.unique(f"x{place}") for place in range(len(operands))]
    given = [Operand(label, spec) for label, spec in zip(names, specs, strict=True)]
    case = Case(graph=graph, operands=given, results=results, attributes=attributes)
    found = RULES[name](case)
    if found is None:
        return None
    made = (found,) if isinstance(found, str) else found

    def ports(labels: Any, kinds: Any) -> list[Port]:
        pairs = zip(labels, kinds, strict=True)
        return [Port(name=label, dtype=graph.dtype(one.kind), shape=one.shape)
                for label, one in pairs]  # fmt: skip

    outputs = [graph.add("Identity", [one])[0] for one in made]
    data = model_bytes(
        graph, ports(names, specs), ports(outputs, results), [], opset=OPSET, name="test"
    )
    onnx.checker.check_model(data, full_check=True)
    result: Any = ReferenceEvaluator(onnx.load_from_string(data)).run(
        None, dict(zip(names, operands, strict=True))
    )
    return list(result)


@pytest.mark.parametrize(
    ("name", "operands", "attributes"),
    [pytest.param(*case, id=f"{place}-{case[0]}") for place, case in enumerate(CASES)],
)
def test_a_primitive_is_what_onnx_computes(
    name: str, operands: list[Any], attributes: Attributes
) -> None:
    operands = [np.asarray(operand) for operand in operands]
    wide = VOCABULARY[name].run(*operands, **attributes)
    expected = wide if isinstance(wide, tuple) else (wide,)

    found = evaluated(name, operands, attributes)

    assert found is not None
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=RELATIVE.get(name, 1e-12), atol=1e-14)


def test_every_rule_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == set(RULES)
    assert set(RULES) <= set(VOCABULARY)


@pytest.mark.parametrize(
    ("name", "operands", "attributes"),
    [
        ("add", [X + 1j, X], {}),
        ("abs", [X * 1j], {}),
        ("modulo", [X, Y], {}),
        ("floor_divide", [X, Y], {}),
        ("isnan", [WHOLE], {}),
        ("cast", [X * 1j], {"kind": "float"}),
        ("pad", [X], {"widths": ((1, 0), (0, 0), (0, 0)), "mode": "wrap", "value": 0}),
        ("convolution", [X, X], {"stride": (1,), "padding": ((-1, 0),), "dilation": (1,),
                                 "groups": 1}),
    ],
)  # fmt: skip
def test_what_onnx_does_otherwise_is_left_to_padiff(
    name: str, operands: list[Any], attributes: Attributes
) -> None:
    kinds = {"i": Kind.INT, "f": Kind.FLOAT, "c": Kind.COMPLEX}
    specs = [Spec(kinds[one.dtype.kind], one.shape) for one in operands]
    result = Spec(Kind.FLOAT, X.shape) if name in {"abs", "cast", "convolution", "pad"} else None
    graph = GraphBuilder(np.dtype(np.float32))
    inferred = result or VOCABULARY[name].infer(*specs, **attributes)
    assert isinstance(inferred, Spec)
    given = [Operand(f"x{place}", spec) for place, spec in enumerate(specs)]
    case = Case(graph=graph, operands=given, results=[inferred], attributes=attributes)

    assert RULES[name](case) is None
    assert graph.nodes == []
