"""Random graphs of modules with known faults: branches, residuals, shared modules, containers.

Every node gives ``(sum of its inputs) @ weight``, so that an error never cancels out, and its
gradients are written down by hand. What the origins must be follows from the graph alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from padiff.dumpfile import Role

from .dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]
WIDTH = 4


@dataclass(frozen=True, kw_only=True)
class Node:
    """One call of a leaf module."""

    inputs: tuple[int, ...]
    """Numbers of the nodes that feed it, -1 for the model's input."""
    module: int
    """Number of its module; nodes that share one call it again."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Nodes in execution order, cut into containers of consecutive nodes."""

    nodes: tuple[Node, ...]
    cuts: tuple[int, ...]
    """Where a new container begins."""
    nested: bool
    """Whether two containers at a time are inside a further one."""

    def container(self, node: int) -> int:
        """Give the number of the container of a node."""
        return sum(cut <= node for cut in self.cuts)

    def groups(self) -> list[list[int]]:
        """Give the nodes of each container."""
        found: dict[int, list[int]] = defaultdict(list)
        for number in range(len(self.nodes)):
            found[self.container(number)].append(number)
        return [found[key] for key in sorted(found)]

    def path(self, node: int) -> str:
        """Give the module path of a node: that of the first node with its module."""
        module = self.nodes[node].module
        first = next(n for n, other in enumerate(self.nodes) if other.module == module)
        return f"{self.container_path(self.container(first))}.leaf{module}"

    def container_path(self, container: int) -> str:
        """Give the module path of a container."""
        return f"outer{container // 2}.box{container}" if self.nested else f"box{container}"

    def consumers(self, node: int) -> list[int]:
        """Give the nodes that a node feeds."""
        return [n for n, other in enumerate(self.nodes) if node in other.inputs]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is wrong on the candidate."""

    modules: frozenset[int] = frozenset()
    """Modules whose output is wrong."""
    glue: int | None = None
    """Node whose input is changed by the code around it."""
    weight_gradient: int | None = None
    """Module whose weight gradient is wrong."""
    input_gradient: int | None = None
    """Node whose contribution to the gradient of its first input is wrong."""


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw a graph in which every node but the last feeds another."""
    count = draw(st.integers(2, 9))
    nodes: list[Node] = []
    for number in range(count):
        inputs = [number - 1]
        extra = draw(st.integers(-1, number - 1))
        if draw(st.booleans()) and extra not in inputs:
            inputs.append(extra)
        modules = len({node.module for node in nodes})
        module = draw(st.integers(0, modules)) if draw(st.integers(0, 3)) == 0 else modules
        nodes.append(Node(inputs=tuple(inputs), module=module))
    cuts = tuple(sorted(draw(st.sets(st.integers(1, count - 1), max_size=4))))
    return Graph(nodes=tuple(nodes), cuts=cuts, nested=draw(st.booleans()))


def expected(graph: Graph, fault: Fault) -> list[int]:
    """Give the nodes that are forward origins: faulty ones that nothing wrong went into."""
    wrong: set[int] = set()
    origins = []
    for number, node in enumerate(graph.nodes):
        is_tainted = any(source in wrong for source in node.inputs) or fault.glue == number
        is_faulty = node.module in fault.modules
        if is_faulty and not is_tainted:
            origins.append(number)
        if is_faulty or is_tainted:
            wrong.add(number)
    return origins


@dataclass
class _Run:
    """Numbers of one run."""

    graph: Graph
    fault: Fault
    x: Array = field(default_factory=lambda: _random(100))
    given: dict[int, list[Array]] = field(default_factory=dict)
    values: dict[int, Array] = field(default_factory=dict)
    gradients: dict[int, Array] = field(default_factory=dict)
    weights: dict[int, Array] = field(default_factory=dict)
    weight_gradients: dict[int, Array] = field(default_factory=dict)

    def run(self) -> None:
        """Compute everything, forward and backward."""
        self.values[-1] = self.x
        for number, node in enumerate(self.graph.nodes):
            weight = self.weights.setdefault(node.module, _random(node.module))
            given = [self.values[source] for source in node.inputs]
            if self.fault.glue == number:
                given[0] = given[0] + 1
            self.given[number] = given
            result = np.sum(given, axis=0) @ weight
            if node.module in self.fault.modules:
                result = result * 1.5 + 1
            self.values[number] = result
        total: dict[int, Array] = defaultdict(lambda: np.zeros_like(self.x))
        total[len(self.graph.nodes) - 1] = _random(200)
        made: dict[int, Array] = defaultdict(lambda: np.zeros((WIDTH, WIDTH)))
        for number in reversed(range(len(self.graph.nodes))):
            node = self.graph.nodes[number]
            back = total[number] @ self.weights[node.module].T
            made[node.module] = made[node.module] + np.sum(self.given[number], 0).T @ total[number]
            for place, source in enumerate(node.inputs):
                is_wrong = place == 0 and self.fault.input_gradient == number
                total[source] = total[source] + (back * 1.5 if is_wrong else back)
        if self.fault.weight_gradient is not None:
            made[self.fault.weight_gradient] *= 2
        self.gradients, self.weight_gradients = dict(total), dict(made)


def dump(graph: Graph, fault: Fault) -> DumpBuilder:
    """Write down what a recorder would have seen."""
    run = _Run(graph=graph, fault=fault)
    run.run()
    built = DumpBuilder().module("", "Net")
    groups = graph.groups()
    if graph.nested:
        for outer in range((len(groups) + 1) // 2):
            built.module(f"outer{outer}", "Outer")
    for container in range(len(groups)):
        built.module(graph.container_path(container), "Box")
    for module in sorted(run.weights):
        node = next(n for n, other in enumerate(graph.nodes) if other.module == module)
        built.module(graph.path(node), "Leaf")
        built.tensor(graph.path(node), "weight", _single(run.weights[module]))
    _Writer(run, built).write()
    for module, gradient in run.weight_gradients.items():
        node = next(n for n, other in enumerate(graph.nodes) if other.module == module)
        built.record(graph.path(node), Role.WEIGHT_GRAD, _single(gradient), slot=".weight")
    return built


class _Writer:
    """Writes the calls forward, then their gradients backward."""

    def __init__(self, run: _Run, built: DumpBuilder) -> None:
        self._run, self._built, self._graph = run, built, run.graph
        self._calls: list[tuple[str, int, list[int], list[int]]] = []

    def write(self) -> None:
        groups = self._graph.groups()
        last = len(self._graph.nodes) - 1
        self._enter("", [-1], [last])
        if self._graph.nested:
            for outer in range(0, len(groups), 2):
                inside = groups[outer : outer + 2]
                nodes = [node for group in inside for node in group]
                self._enter(f"outer{outer // 2}", *self._ends(nodes))
                for place, group in enumerate(inside):
                    self._group(outer + place, group)
                self._leave(self._ends(nodes)[1])
        else:
            for place, group in enumerate(groups):
                self._group(place, group)
        self._leave([last])
        self._backward()

    def _group(self, container: int, nodes: list[int]) -> None:
        given, back = self._ends(nodes)
        self._enter(self._graph.container_path(container), given, back)
        for node in nodes:
            self._enter(self._graph.path(node), list(self._graph.nodes[node].inputs), [node], node)
            self._leave([node])
        self._leave(back)

    def _ends(self, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Give what goes into a group of nodes, and what comes out."""
        used = {source for node in nodes for source in self._graph.nodes[node].inputs}
        last = len(self._graph.nodes) - 1
        back = [
            node
            for node in nodes
            if node == last or any(other not in nodes for other in self._graph.consumers(node))
        ]
        return sorted(used - set(nodes)), back

    def _enter(self, path: str, given: list[int], back: list[int], node: int | None = None) -> None:
        run = self._run
        arrays = [run.values[value] for value in given] if node is None else run.given[node]
        module = next(one.id for one in self._built.modules if one.path == path)
        number = sum(call.module == module for call in self._built.calls)
        self._calls.append((path, number, given, back))
        self._built.enter(path, inputs=[_single(array) for array in arrays])

    def _leave(self, back: list[int]) -> None:
        self._built.leave(outputs=[_single(self._run.values[node]) for node in back])

    def _backward(self) -> None:
        """Write the total gradients: outputs when the call's backward begins, inputs at its end."""
        gradients = self._run.gradients
        ends = {call.id: call.end or 0 for call in self._built.calls}
        starts = {call.id: call.start for call in self._built.calls}
        events = [(-ends[call], call, Role.GRAD_OUTPUT) for call in ends]
        events += [(-starts[call], call, Role.GRAD_INPUT) for call in starts]
        for _, call, role in sorted(events):
            path, number, given, back = self._calls[call]
            tensors = back if role is Role.GRAD_OUTPUT else given
            for place, tensor in enumerate(tensors):
                is_bare = role is Role.GRAD_OUTPUT and len(tensors) == 1
                self._built.record(
                    path,
                    role,
                    _single(gradients[tensor]),
                    slot="" if is_bare else f"[{place}]",
                    call=number,
                )


def shared_with(graph: Graph, node: int) -> frozenset[str]:
    """Give the paths of the calls that consume the first input of a node, and those around."""
    source = graph.nodes[node].inputs[0]
    found = {graph.path(other) for other in graph.consumers(source)}
    for other in graph.consumers(source):
        path = graph.container_path(graph.container(other))
        found |= {path, path.rpartition(".")[0]}
    return frozenset(found | {""})


def _random(seed: int) -> Array:
    return np.random.default_rng(seed).uniform(0.5, 1.5, (WIDTH, WIDTH))


def _single(array: Array) -> Array:
    made: Array = array.astype(np.float32)
    return made
