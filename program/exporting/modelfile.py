"""The one place that knows the package ``onnx``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from .graph import GraphBuilder, NodeSpec

IR_VERSION = 8
"""The oldest that knows the opset: what reads newer ones reads it, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A value with its type: an input, an output, or one inside."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def model_bytes(
    graph: GraphBuilder,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    infos: Sequence[Port],
    *,
    opset: int,
    name: str,
) -> bytes:
    """Return a graph as the content of a file of ONNX.

    Raises:
        ConfigError: onnx is not installed.
    """
    try:
        from onnx import helper, numpy_helper  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise ConfigError(
            "cannot export: onnx is not installed", hint="pip install 'padiff-align[onnx]'"
        ) from error

    def port(one: Port) -> Any:
        kind = helper.np_dtype_to_tensor_dtype(one.dtype)
        return helper.make_tensor_value_info(one.name, kind, one.shape)

    made = helper.make_graph(
        [_node(helper, node) for node in graph.nodes],
        name,
        [port(one) for one in inputs],
        [port(one) for one in outputs],
        [numpy_helper.from_array(array, key) for key, array in graph.initializers.items()],
        value_info=[port(one) for one in infos],
    )
    domains = sorted({node.domain for node in graph.nodes} - {""})
    model = helper.make_model(
        made,
        opset_imports=[
            helper.make_opsetid("", opset),
            *(helper.make_opsetid(domain, 1) for domain in domains),
        ],
        producer_name="padiff",
        ir_version=IR_VERSION,
    )
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _node(helper: Any, node: NodeSpec) -> Any:
    found = helper.make_node(
        node.op_type,
        node.inputs,
        node.outputs,
        name=node.name,
        doc_string=node.remark,
        domain=node.domain,
    )
    for key, value in sorted(node.attributes.items()):
        found.attribute.append(_attribute(helper, key, value))
    return found


def _attribute(helper: Any, key: str, value: Any) -> Any:
    if hasattr(value, "itemsize"):  # a dtype, of Cast
        value = helper.np_dtype_to_tensor_dtype(value)
    if isinstance(value, tuple):
        return helper.make_attribute(key, list(value), attr_type=7)  # AttributeProto.INTS
    return helper.make_attribute(key, value)
