"""A graph of ONNX nodes while it is built, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from padiff.program.primitives import Array, Kind, Spec


@dataclass(slots=True, kw_only=True)
class NodeSpec:
    """A node; ``outputs`` may be renamed until the graph is done."""

    op_type: str
    domain: str = ""
    inputs: list[str]
    outputs: list[str]
    attributes: Mapping[str, Any]
    name: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that a node takes."""

    name: str
    spec: Spec


class GraphBuilder:
    """Nodes, constants and the names of all of them."""

    def __init__(self, float_dtype: np.dtype[Any]) -> None:
        """Begin without nodes."""
        self.nodes: list[NodeSpec] = []
        self.initializers: dict[str, Array] = {}
        self.label = self.remark = ""
        """The name and the remark of the nodes that are added next."""
        self._dtypes = {kind: kind.dtype for kind in Kind} | {Kind.FLOAT: float_dtype}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._names: set[str] = set()

    def dtype(self, kind: Kind) -> np.dtype[Any]:
        """Return the dtype that stands for a kind of number."""
        return self._dtypes[kind]

    def unique(self, name: str) -> str:
        """Return the name, or one like it if there is such a value already."""
        found, number = name, 1
        while not found or found in self._names:
            found, number = f"{name}_{number}", number + 1
        self._names.add(found)
        return found

    def constant(self, value: object, kind: Kind) -> str:
        """Return the name of a constant; equal ones are one."""
        with np.errstate(over="ignore"):  # what a mask is filled with may become infinite
            array = np.asarray(value, Kind(kind).dtype).astype(self.dtype(kind))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = self._constants[key] = self.unique(f"constant_{len(self._constants)}")
            self.initializers[name] = array
        return self._constants[key]

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        *,
        count: int = 1,
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add a node and return the names of its outputs."""
        outputs = [self.unique(f"t{len(self.nodes)}") for _ in range(count)]
        self.nodes.append(
            NodeSpec(
                op_type=op_type,
                domain=domain,
                inputs=list(inputs),
                outputs=outputs,
                attributes=attributes,
                name=self.label,
                remark=self.remark,
            )
        )
        return outputs

    def rename(self, old: str, new: str, *, since: int) -> str:
        """Rename the output of one of the nodes from a place on; return its name."""
        fresh = self.nodes[since:]
        if not any(old in node.outputs for node in fresh):
            return old
        name = self.unique(new)
        for node in fresh:
            node.inputs = [name if one == old else one for one in node.inputs]
            node.outputs = [name if one == old else one for one in node.outputs]
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One primitive to be written as nodes."""

    graph: GraphBuilder
    operands: Sequence[Operand]
    results: Sequence[Spec]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """The kind of the first result."""
        return self.results[0].kind

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.results[0].shape

    def x(self, index: int = 0, kind: Kind | None = None) -> str:
        """Return the name of an operand, converted to a kind."""
        operand = self.operands[index]
        if kind is None or operand.spec.kind is kind:
            return operand.name
        return self.cast(operand.name, kind)

    def all(self, kind: Kind) -> list[str]:
        """Return the names of all operands, converted to a kind."""
        return [self.x(index, kind) for index in range(len(self.operands))]

    def cast(self, name: str, kind: Kind) -> str:
        """Return the name of a value that is converted to a kind."""
        return self.op("Cast", name, to=self.graph.dtype(kind))

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a standard node with one output and return its name."""
        return self.graph.add(op_type, inputs, **attributes)[0]

    def ints(self, *values: int) -> str:
        """Return the name of a constant vector of integers."""
        return self.graph.constant(np.array(values, np.int64), Kind.INT)

    def number(self, value: complex, kind: Kind) -> str:
        """Return the name of a constant without axes."""
        return self.graph.constant(value, kind)
