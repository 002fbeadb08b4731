"""Writes a graph and its values as one step of a dump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import (
    Argument,
    CallInfo,
    LeafKind,
    Mode,
    Phase,
    ProgramBuilder,
    Role,
    ValueRef,
    dtype_name,
)

from .scopes import calls_of, modules_of, owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.dumpfile import Content, StepWriter, Stored

    from .graph import Array, Graph, Leaf, Node
    from .scopes import Call

_ROLES = {LeafKind.PARAMETER: Role.WEIGHT, LeafKind.BUFFER: Role.BUFFER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What is known of the values that nodes make, by name."""

    observed: Mapping[str, Array]
    filled: Mapping[str, Array]
    """What a rewritten graph fused, computed from the others: it stands at the borders of calls
    alone, as no node of what ran made it."""


def write_graph(
    graph: Graph,
    writer: StepWriter,
    feeds: Mapping[str, Array],
    values: Values,
    *,
    with_program: bool = True,
) -> None:
    """Write a graph.

    Raises:
        ConfigError: The shape of a value is not known.
    """
    writing = _Writing(graph, writer, feeds, values)
    writing.write()
    if with_program:
        writer.add_program(writing.program)


class _Writing:
    def __init__(
        self,
        graph: Graph,
        writer: StepWriter,
        feeds: Mapping[str, Array],
        values: Values,
    ) -> None:
        self.graph, self.writer = graph, writer
        self.feeds, self.observed, self.filled = feeds, values.observed, values.filled
        self.program = ProgramBuilder()
        self.modules = modules_of(graph)
        self.ids = {module.path: module.id for module in self.modules}
        self.calls, self.inner = calls_of(graph)
        self.bordering = {name for call in self.calls for name in (*call.inputs, *call.outputs)}
        self.bordering |= set(graph.outputs)
        """Values that a call takes or gives."""
        self.stored: dict[str, Stored] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.values: dict[str, int] = {}
        """Ids in the program, by name."""
        self.begun: list[int] = []
        """Ids of the calls that have begun and not ended."""
        self.order = 0
        self.starts: dict[int, int] = {}

    def write(self) -> None:
        """Write everything; the writer is closed by its owner."""
        self.writer.add_modules(self.modules)
        for number, leaf in enumerate(self.graph.leaves.values()):
            self.add_leaf(number, leaf)
        for number, leaf in enumerate(self.graph.restored, len(self.graph.leaves)):
            self.add_weight(number, leaf, self.writer.store(_own(leaf, leaf.read())))
        for port in self.graph.inputs:
            array = self.feeds.get(port.name)
            self.add_known(port.name, array, LeafKind.INPUT, self.writer.leaf_content)
        waiting = list(self.calls)
        for place, node in enumerate(self.graph.nodes):
            self.end_calls(place)
            while waiting and waiting[0].start == place:
                self.begin(waiting.pop(0))
            self.add_node(node, self.inner[place])
        self.end_calls(len(self.graph.nodes))

    # -- values

    def add_leaf(self, number: int, leaf: Leaf) -> None:
        array = leaf.read()
        if not leaf.weight:
            self.add_value(leaf.name, array, leaf.kind, self.writer.leaf_content)
            return
        own = _own(leaf, array)
        name = f"{leaf.name}.T" if leaf.is_transposed else leaf.name
        value = self.add_value(name, own, leaf.kind, None)
        record = self.add_weight(number, leaf, self.stored[name])
        self.program.add_border(record, value)
        if leaf.is_transposed:
            made = self.add_value(leaf.name, array, None, self.writer.inner_content)
            axes: tuple[Argument, ...] = tuple(reversed(range(array.ndim)))
            self.program.add_operator(
                "onnx.Transpose", [(None, ValueRef(value)), ("perm", axes)], [made], call=None
            )

    def add_weight(self, number: int, leaf: Leaf, stored: Stored) -> int:
        """Add the record of a weight or buffer, at the module that owns it."""
        shape = leaf.shape[::-1] if leaf.is_transposed else leaf.shape
        return self.writer.add_record(
            module=self.ids[owner_of(leaf.weight)],
            call=None,
            phase=Phase.FORWARD,
            role=_ROLES[leaf.kind],
            slot=f".{leaf.weight.rpartition('.')[2]}",
            order=0,
            shape=shape,
            value=stored,
            requires_grad=leaf.kind is LeafKind.PARAMETER,
            tensor=number,
        )

    def add_value(
        self, name: str, array: Array, kind: LeafKind | None, content: Content | None
    ) -> int:
        stored = self.stored[name] = self.writer.store(array, content=content)
        shape = self.shapes[name] = tuple(array.shape)
        self.values[name] = self.program.add_value(
            dtype=dtype_name(array.dtype), shape=shape, content=stored, kind=kind
        )
        return self.values[name]

    def add_known(
        self, name: str, array: Array | None, kind: LeafKind | None, content: Content | None
    ) -> int:
        """Add a value that may not have been observed: then its type follows from the file."""
        if array is not None:
            return self.add_value(name, array, kind, content)
        dtype, shape = self.graph.known_port(name)
        if name in self.filled and name in self.bordering:
            self.stored[name] = self.writer.store(self.filled[name])
            self.shapes[name] = shape
        self.values[name] = self.program.add_value(
            dtype=dtype, shape=shape, content=None, kind=kind
        )
        return self.values[name]

    def add_node(self, node: Node, call: int) -> None:
        arguments: list[tuple[str | None, Argument]] = [
            (None, ValueRef(self.values[name]) if name else None) for name in node.inputs
        ]
        arguments += node.attributes.items()
        kind = LeafKind.RANDOM if node.is_random else None
        outputs = [
            self.add_known(name, self.observed.get(name), kind, self.content_of(name, node))
            for name in node.outputs
            if name
        ]
        self.program.add_operator(
            node.operator,
            arguments,
            outputs,
            call=call,
            mode=Mode.RANDOM if node.is_random else 0,
            site=node.sites[-1] if node.sites else None,
        )

    def content_of(self, name: str, node: Node) -> Content | None:
        """Return how much is kept of what a node makes; None as much as of most values."""
        if node.is_random:
            return self.writer.leaf_content
        return None if name in self.bordering else self.writer.inner_content

    # -- calls

    def begin(self, call: Call) -> None:
        self.order += 1
        self.starts[call.id] = self.order
        self.begun.append(call.id)
        names = [port.name for port in self.graph.inputs] if call.parent is None else call.inputs
        self.writer.add_call(self.info(call, None))
        self.add_records(call, Role.INPUT, names, _slots(call, names))

    def end_calls(self, place: int) -> None:
        while self.begun and self.calls[self.begun[-1]].end <= place:
            call = self.calls[self.begun.pop()]
            self.order += 1
            names = list(self.graph.outputs) if call.parent is None else call.outputs
            slots = [""] if len(names) == 1 else _slots(call, names)
            self.writer.add_call(self.info(call, self.order))
            self.add_records(call, Role.OUTPUT, names, slots)

    def info(self, call: Call, end: int | None) -> CallInfo:
        return CallInfo(
            id=call.id,
            module=self.ids[call.path],
            index=call.index,
            parent=call.parent,
            start=self.starts[call.id],
            end=end,
        )

    def add_records(self, call: Call, role: Role, names: list[str], slots: list[str]) -> None:
        for name, slot in zip(names, slots, strict=True):
            if name not in self.stored:
                continue
            record = self.writer.add_record(
                module=self.ids[call.path],
                call=call.id,
                phase=Phase.FORWARD,
                role=role,
                slot=slot,
                order=self.order,
                shape=self.shapes[name],
                value=self.stored[name],
            )
            self.program.add_border(record, self.values[name])


def _own(leaf: Leaf, array: Array) -> Array:
    """Return the elements of a weight with the axes of its module."""
    return np.ascontiguousarray(array.T) if leaf.is_transposed else array


def _slots(call: Call, names: list[str]) -> list[str]:
    """Return the slots of what a call takes or gives: the model's by name, others in order."""
    if call.parent is None:
        return [f"[{name!r}]" for name in names]
    return [f"[{place}]" for place in range(len(names))]
