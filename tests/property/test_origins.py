"""Origins of any planted fault are found, whatever the graph of the modules."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from padiff.comparer import CompareSettings, Comparison, Kind, compare
from padiff.dumpfile import Phase
from tests.support.graphs import Fault, Graph, dump, expected, graphs, shared_with

MANY = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def compared(graph: Graph, fault: Fault) -> Comparison:
    with tempfile.TemporaryDirectory() as folder:
        sides = dump(graph, Fault()), dump(graph, fault)
        paths = [side.write(Path(folder) / str(place)) for place, side in enumerate(sides)]
        return compare(paths[0], paths[1], CompareSettings())


def named(found: Comparison, phase: Phase) -> list[tuple[str, int | None]]:
    """Give module and call of the origins of a phase."""
    return [
        (one.pair.reference.address.module, one.pair.reference.address.call)
        for one in found.origins
        if one.phase is phase and one.pair.reference is not None
    ]


def call_of(graph: Graph, node: int) -> tuple[str, int]:
    module = graph.nodes[node].module
    return graph.path(node), sum(other.module == module for other in graph.nodes[:node])


@MANY
@given(graphs())
def test_equal_graphs_match(graph: Graph) -> None:
    assert compared(graph, Fault()).divergences == ()


@MANY
@given(graphs(), st.data())
def test_the_origins_of_a_faulty_module_are_its_calls(graph: Graph, data: st.DataObject) -> None:
    module = data.draw(st.sampled_from(sorted({node.module for node in graph.nodes})))
    fault = Fault(modules=frozenset({module}))

    found = compared(graph, fault)

    assert named(found, Phase.FORWARD) == [call_of(graph, node) for node in expected(graph, fault)]
    assert found.divergences[0].kind is Kind.ORIGIN


@MANY
@given(graphs(), st.data())
def test_all_independent_origins_are_named_in_order(graph: Graph, data: st.DataObject) -> None:
    modules = sorted({node.module for node in graph.nodes})
    fault = Fault(modules=data.draw(st.frozensets(st.sampled_from(modules), min_size=1)))

    found = compared(graph, fault)

    assert named(found, Phase.FORWARD) == [call_of(graph, node) for node in expected(graph, fault)]


@MANY
@given(graphs(), st.data())
def test_a_fault_in_glue_is_the_containers(graph: Graph, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, len(graph.nodes) - 1))

    found = compared(graph, Fault(glue=node))

    ((module, _),) = named(found, Phase.FORWARD)
    assert module == graph.container_path(graph.container(node))
    assert any("input[0] is made by the code of" in line for line in found.origins[0].evidence)


@MANY
@given(graphs(), st.data())
def test_a_wrong_weight_gradient_is_its_modules(graph: Graph, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, len(graph.nodes) - 1))

    found = compared(graph, Fault(weight_gradient=graph.nodes[node].module))

    assert named(found, Phase.FORWARD) == []
    assert {module for module, _ in named(found, Phase.BACKWARD)} == {graph.path(node)}


@MANY
@given(graphs(), st.data())
def test_a_wrong_input_gradient_is_named_or_among_the_suspects(
    graph: Graph, data: st.DataObject
) -> None:
    node = data.draw(st.integers(0, len(graph.nodes) - 1))

    found = compared(graph, Fault(input_gradient=node))

    first = found.origins[0]
    assert first.phase is Phase.BACKWARD
    assert first.pair.reference is not None
    modules = {first.pair.reference.address.module, *first.suspects}
    assert graph.path(node) in modules or modules <= shared_with(graph, node)
