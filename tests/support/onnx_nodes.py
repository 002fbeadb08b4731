"""ONNX's own node tests as programs of one operator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

from padiff.dumpfile import DTYPE_NAMES
from padiff.program import Argument, LeafKind, Opaque, Operator, Program, Value, ValueRef
from tests.support.operators import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NodeCase", "node_cases"]


@dataclass(frozen=True, kw_only=True)
class NodeCase:
    """One test of one operator."""

    name: str
    operator: str
    recorded: Recorded


def node_cases() -> Iterator[NodeCase]:
    """Go through all node tests whose graph is one operator on numbers.

    Numbers of 8 bits are left out: what saturates there is not seen in float64.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases: list[Any] = load_model_tests(kind="node")
    for case in cases:
        if len(case.model.graph.node) != 1 or case.model.graph.node[0].domain:
            continue
        for index, data in enumerate(case.data_sets):
            inputs, outputs = ([_array(each) for each in side] for side in data)
            if all(_is_numeric(array) for array in (*inputs, *outputs)):
                recorded = _recorded(case.model.graph, inputs, outputs)
                operator = case.model.graph.node[0].op_type
                yield NodeCase(name=f"{case.name}[{index}]", operator=operator, recorded=recorded)


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return value


def _is_numeric(array: Any) -> bool:
    if not isinstance(array, np.ndarray | np.generic):
        return False
    return array.dtype.name in DTYPE_NAMES and not array.dtype.name.startswith("float8")


def _argument(value: Any) -> Argument:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        return tuple(onnx.numpy_helper.to_array(value).reshape(-1).tolist())
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, onnx.GraphProto | onnx.TypeProto):
        return Opaque(text="a graph or type")
    return tuple(_argument(each) for each in value)


def _recorded(graph: Any, inputs: Any, outputs: Any) -> Recorded:
    node = graph.node[0]
    values: list[Value] = []
    elements: dict[int, Any] = {}
    ids: dict[tuple[str, bool], int] = {}
    for made, infos, arrays in ((False, graph.input, inputs), (True, graph.output, outputs)):
        for info, array in zip(infos, arrays, strict=True):
            id_ = ids[info.name, made] = len(values)
            elements[id_] = np.asarray(array)
            values.append(
                Value(
                    id=id_,
                    dtype=elements[id_].dtype.name,
                    shape=elements[id_].shape,
                    kind=None if made else LeafKind.INPUT,
                    producer=0 if made else None,
                )
            )
    positional = tuple(ValueRef(id=ids[name, False]) if name else None for name in node.input)
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    made_ids = tuple(ids[name, True] for name in node.output if name)
    operator = Operator(
        id=0,
        name=f"onnx.{node.op_type}",
        positional=positional,
        keywords={name: _argument(each) for name, each in attributes.items()},
        outputs=made_ids,
    )
    program = Program(
        framework="onnx", values=tuple(values), operators=(operator,), outputs=made_ids
    )
    return Recorded(program=program, elements=elements)
