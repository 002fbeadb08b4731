"""Write a recorded program as a graph of ONNX: primitives by their standard operators."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from padiff.dumpfile import ConfigError, LeafKind, Phase, Role
from padiff.program.argumentjson import argument_to_json
from padiff.program.graph import Operator
from padiff.program.lowering import TABLES, Lowered, Node, lower

from .graph import Case, GraphBuilder, Operand
from .rules import OPSET, RULES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.program.graph import Value
    from padiff.program.primitives import Array
    from padiff.program.read import RecordedProgram

    from .graph import NodeSpec


LARGEST_MODEL_BYTES = (2 << 30) - (64 << 20)
"""Elements in one file: protobuf ends at 2 GiB, and nodes need room."""
PRIMITIVES, OPAQUE = "padiff", "padiff.opaque"
"""Domains of the nodes that ONNX has no operator for."""
Step: TypeAlias = Node | Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A model of ONNX."""

    data: bytes
    """The file."""
    nodes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    foreign: Mapping[str, int]
    """How many nodes are not of ONNX's own domain, by domain and type."""


def export_onnx(
    recorded: RecordedProgram, *, dtype: str = "float32", with_weights: bool = True
) -> Exported:
    """Write what a program's results need as a model of ONNX.

    Args:
        recorded: The program of one step and rank.
        dtype: Of all floating-point values: ``float32`` or ``float64``.
        with_weights: Whether leaves with elements in the dump are part of the file; the
            model's inputs never are. Leaves without elements are inputs.

    Raises:
        ConfigError: No table knows the framework, the program has no result, the file would be
            too large, or onnx is not installed.
        ProgramError: The program contradicts itself.
        DumpFormatError: Elements are damaged.
    """
    program = recorded.program
    table = TABLES.get(program.framework)
    if table is None:
        raise ConfigError(
            f"cannot export: expected a program of {' or '.join(TABLES)}, "
            f"found one of {program.framework!r}"
        )
    lowered = lower(program, table, contents=recorded.elements)
    return _Export(recorded, lowered, np.dtype(dtype), with_weights=with_weights).run()


class _Export:
    def __init__(
        self,
        recorded: RecordedProgram,
        lowered: Lowered,
        dtype: np.dtype[Any],
        *,
        with_weights: bool,
    ) -> None:
        self.recorded, self.lowered, self.with_weights = recorded, lowered, with_weights
        self.program = recorded.program
        self.graph = GraphBuilder(dtype)
        self.names: dict[int, str] = {}
        """Of the terms that there are so far."""
        self.inputs: list[Port] = []
        self.infos: list[Port] = []
        self.values: dict[int, Value] = {}
        """The first value of each term."""
        for value in self.program.values:
            if value.id in lowered.terms:
                self.values.setdefault(lowered.terms[value.id], value)

    def run(self) -> Exported:
        results = [self.lowered.terms[value] for value in self.results()]
        steps = self.needed(results)
        made = {term for step in steps for term in self.made(step)}
        taken = [term for step in steps for term in self.taken(step)]
        leaves = [term for term in dict.fromkeys((*taken, *results)) if term not in made]
        self.check_size(leaves)
        for term in sorted(leaves):
            self.add_leaf(term)
        for step in steps:
            self.add_step(step)
        outputs = [self.add_output(place, term) for place, term in enumerate(results)]
        domains = Counter(
            f"{node.domain}.{node.op_type}" for node in self.graph.nodes if node.domain
        )
        data = model_bytes(
            self.graph, self.inputs, outputs, self.infos,
            opset=OPSET, name=self.program.framework,
        )  # fmt: skip
        return Exported(
            data=data,
            nodes=len(self.graph.nodes),
            inputs=tuple(port.name for port in self.inputs),
            outputs=tuple(port.name for port in outputs),
            foreign=domains,
        )

    def results(self) -> Sequence[int]:
        """Return the values that the model returned, or else the last one that was made."""
        if self.program.outputs:
            return self.program.outputs
        forward = (one for one in self.program.operators if one.phase is not Phase.UPDATE)
        made = [one.outputs for one in forward if one.outputs]
        if not made:
            raise ConfigError("cannot export: expected a program that makes a value, found none")
        return made[-1]

    # -- what is needed

    def steps(self) -> Iterator[Step]:
        """Yield primitives and opaque operators in the order of execution."""
        nodes: dict[int, list[Node]] = {}
        for node in self.lowered.nodes:
            nodes.setdefault(node.operator, []).append(node)
        for operator in self.program.operators:
            yield from nodes.get(operator.id, ())
            if operator.id in self.lowered.opaque:
                yield operator

    def needed(self, terms: Sequence[int]) -> list[Step]:
        """Return the steps that make terms, and what they take, in their order."""
        open_ = set(terms)
        found: list[Step] = []
        for step in reversed(list(self.steps())):
            if open_.intersection(self.made(step)):
                found.append(step)
                open_.update(self.taken(step))
        return found[::-1]

    def made(self, step: Step) -> Sequence[int]:
        if isinstance(step, Node):
            return step.outputs
        terms = [
            self.lowered.terms[one]
            for one in step.outputs
            if self.program.values[one].producer == step.id
        ]
        return [term for term in terms if term in self.lowered.leaves]

    def taken(self, step: Step) -> Sequence[int]:
        if isinstance(step, Node):
            return step.operands
        return [self.lowered.terms[one] for one in dict.fromkeys(step.taken)]

    # -- leaves

    def check_size(self, leaves: Sequence[int]) -> None:
        """Refuse what does not fit into a file before anything is read."""
        width = self.graph.dtype
        total = sum(
            self.lowered.specs[term].count * width(self.lowered.specs[term].kind).itemsize
            for term in leaves
            if self.is_stored(term)
        )
        if total > LARGEST_MODEL_BYTES:
            raise ConfigError(
                f"cannot export: expected at most {LARGEST_MODEL_BYTES} bytes of elements in one "
                f"file of ONNX, found {total}",
                hint="--no-weights makes inputs of them",
            )

    def is_input(self, value: Value) -> bool:
        record = self.recorded.records.get(value.id)
        is_given = record is not None and record.role is Role.INPUT and not record.module
        return value.kind is LeafKind.INPUT or is_given

    def is_stored(self, term: int) -> bool:
        value = self.program.values[self.lowered.leaves[term]]
        has_elements = self.recorded.has_elements(value.id)
        return self.with_weights and has_elements and not self.is_input(value)

    def add_leaf(self, term: int) -> None:
        value = self.program.values[self.lowered.leaves[term]]
        name = self.names[term] = self.graph.unique(self.leaf_name(value))
        if self.is_stored(term):
            self.graph.initializers[name] = self.elements(value.id, term)
        else:
            self.inputs.append(self.port(name, term))

    def elements(self, value: int, term: int) -> Array:
        found = self.recorded.elements(value)
        if found is None:
            raise LookupError(f"value {value} has no elements")
        with np.errstate(over="ignore"):
            return found.astype(self.graph.dtype(self.lowered.specs[term].kind))

    def leaf_name(self, value: Value) -> str:
        """Return a name without what tools take for syntax."""
        record = self.recorded.records.get(value.id)
        name = value.name
        if not name and record is not None and self.is_input(value):
            name = re.sub(r"\W+", "_", record.slot).strip("_")
            name = f"input_{name}" if name.isdigit() or not name else name
        return name.strip("_") or f"{value.kind or 'value'}_{value.id}"

    def port(self, name: str, term: int) -> Port:
        spec = self.lowered.specs[term]
        return Port(name=name, dtype=self.graph.dtype(spec.kind), shape=spec.shape)

    # -- nodes

    def add_step(self, step: Step) -> None:
        operator = self.program.operators[step.operator] if isinstance(step, Node) else step
        self.graph.label = self.label(operator)
        self.graph.remark = (
            "" if operator.site is None else f"{operator.site.file}:{operator.site.line}"
        )
        since = len(self.graph.nodes)
        terms = self.made(step)
        names = self.primitive(step) if isinstance(step, Node) else self.opaque(step)
        for term, name in zip(terms, names, strict=True):
            self.names[term] = name
            value = self.values.get(term)
            if value is not None:
                known = self.names[term] = self.graph.rename(name, f"v{value.id}", since=since)
                if known not in self.graph.initializers:
                    self.infos.append(self.port(known, term))

    def label(self, operator: Operator) -> str:
        path, _ = self.recorded.module_of(operator)
        return f"{path}/{operator.name.rpartition('.')[2]}_{operator.id}"

    def primitive(self, node: Node) -> Sequence[str]:
        specs = self.lowered.specs
        case = Case(
            graph=self.graph,
            operands=[Operand(self.names[term], specs[term]) for term in node.operands],
            results=[specs[term] for term in node.outputs],
            attributes=dict(node.attributes),
        )
        rule = RULES.get(node.primitive)
        found = None if rule is None else rule(case)
        if found is not None:
            return (found,) if isinstance(found, str) else found
        return self.graph.add(
            node.primitive,
            [operand.name for operand in case.operands],
            count=len(node.outputs),
            domain=PRIMITIVES,
            **{key: _attribute(value) for key, value in node.attributes},
        )

    def opaque(self, operator: Operator) -> Sequence[str]:
        keywords = {key: argument_to_json(one) for key, one in operator.keywords.items()}
        return self.graph.add(
            operator.name,
            [self.names[term] for term in self.taken(operator)],
            count=len(self.made(operator)),
            domain=OPAQUE,
            positional=json.dumps([argument_to_json(one) for one in operator.positional]),
            keywords=json.dumps(keywords),
            reason=self.lowered.opaque[operator.id],
        )

    def add_output(self, place: int, term: int) -> Port:
        """Add a result under a name of its own: two may be one value, or a leaf."""
        self.graph.label, self.graph.remark = f"output_{place}", ""
        since = len(self.graph.nodes)
        made = self.graph.add("Identity", [self.names[term]])[0]
        return self.port(self.graph.rename(made, f"output_{place}", since=since), term)


def _attribute(value: object) -> object:
    """Return an attribute as ONNX can hold it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, tuple) and all(type(part) is int for part in value):
        return value
    return json.dumps(value, default=str)


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
        found.attribute.append(_node_attribute(helper, key, value))
    return found


def _node_attribute(helper: Any, key: str, value: Any) -> Any:
    if hasattr(value, "itemsize"):  # a dtype, of Cast
        value = helper.np_dtype_to_tensor_dtype(value)
    if isinstance(value, tuple):
        return helper.make_attribute(key, list(value), attr_type=7)  # AttributeProto.INTS
    return helper.make_attribute(key, value)
