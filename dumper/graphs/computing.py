"""The values of a graph without its runtime: its program, executed in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError, LeafKind, ProgramError, ValueRef, numpy_dtype
from padiff.program import TABLES, Operator, Program, Value, execute, lower

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .graph import Array, Graph


def computed_values(
    graph: Graph,
    framework: str,
    feeds: Mapping[str, Array],
    observed: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Compute values of a graph, each rounded to its dtype in the end.

    Args:
        graph: With the shapes of all values, as they follow from the inputs'.
        framework: Whose table lowers its operators.
        feeds: Inputs by name.
        observed: Values that are known; what lies behind them is computed from these.

    Returns:
        By name, without those that are known and those behind an operator that no rule covers.

    Raises:
        ConfigError: A shape is not known before the graph runs, or the program cannot be executed.
    """
    return _Computing(graph, framework, feeds, observed or {}).run()


class _Computing:
    def __init__(
        self,
        graph: Graph,
        framework: str,
        feeds: Mapping[str, Array],
        observed: Mapping[str, Array],
    ) -> None:
        self.graph, self.framework, self.observed = graph, framework, observed
        self.values: list[Value] = []
        self.ids: dict[str, int] = {}
        self.leaves: dict[int, Array] = {}
        for leaf in graph.leaves.values():
            self.add_leaf(leaf.name, leaf.read(), leaf.kind)
        for name, array in feeds.items():
            self.add_leaf(name, array, LeafKind.INPUT)

    def add_leaf(self, name: str, array: Array, kind: LeafKind) -> None:
        value = self.add(name, array.dtype.name, array.shape, kind=kind)
        self.leaves[value] = array

    def add(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        *,
        kind: LeafKind | None = None,
        producer: int | None = None,
        slot: int = 0,
    ) -> int:
        self.ids[name] = len(self.values)
        self.values.append(
            Value(
                id=len(self.values),
                dtype=dtype,
                shape=shape,
                kind=kind,
                producer=producer,
                slot=slot,
            )
        )
        return self.ids[name]

    def add_made(self, name: str, place: int, slot: int) -> int:
        """Add what a node makes; elements that are known are those of a leaf."""
        array = self.observed.get(name)
        if array is None:
            dtype, shape = self.graph.known_port(name)
            return self.add(name, dtype, shape, producer=place, slot=slot)
        value = self.add(name, array.dtype.name, array.shape, producer=place, slot=slot)
        self.leaves[value] = array
        return value

    def run(self) -> dict[str, Array]:
        operators = []
        for place, node in enumerate(self.graph.nodes):
            taken = tuple(ValueRef(self.ids[name]) if name else None for name in node.inputs)
            outputs = []
            for slot, name in enumerate(node.outputs):
                if name:
                    outputs.append(self.add_made(name, place, slot))
            operators.append(
                Operator(
                    id=place,
                    name=node.operator,
                    positional=taken,
                    keywords=node.attributes,
                    outputs=tuple(outputs),
                    random=node.is_random,
                )
            )
        program = Program(
            framework=self.framework, values=tuple(self.values), operators=tuple(operators)
        )
        return self.executed(program)

    def executed(self, program: Program) -> dict[str, Array]:
        lowered = lower(program, TABLES[self.framework], contents=self.leaves.get)
        reached = {lowered.terms[value] for value in self.leaves}
        for node in lowered.nodes:
            if reached.issuperset(node.operands):
                reached.update(node.outputs)
        wanted = {
            name: id_
            for name, id_ in self.ids.items()
            if id_ not in self.leaves and lowered.terms[id_] in reached
        }
        try:
            with np.errstate(all="ignore"):
                made = execute(lowered, self.leaves, wanted.values())
        except ProgramError as error:
            raise ConfigError(f"cannot compute the values of the graph: {error}") from error
        found = {}
        for name, id_ in wanted.items():
            dtype = numpy_dtype(self.values[id_].dtype)
            with np.errstate(all="ignore"):
                found[name] = np.asarray(made[id_]).astype(dtype)
        return found
