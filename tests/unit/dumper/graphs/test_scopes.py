"""The module tree and the calls of a graph, from the scopes of its nodes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from padiff.dumper.graphs.graph import Graph, Leaf, Node, Port, Scope
from padiff.dumper.graphs.scopes import calls_of, in_order, modules_of, with_scopes_of
from padiff.dumpfile import LeafKind


def node(output: str, *inputs: str, scope: str = "", operator: str = "onnx.Relu") -> Node:
    parts = scope.split(".") if scope else []
    paths = ["", *(".".join(parts[: place + 1]) for place in range(len(parts)))]
    scopes = tuple(Scope(path=path, class_path=f"net.{path or 'Net'}") for path in paths)
    return Node(operator=operator, inputs=inputs, outputs=(output,), scopes=scopes)


def graph(*nodes: Node, leaves: dict[str, Leaf] | None = None) -> Graph:
    return Graph(
        version="opset 20",
        nodes=nodes,
        leaves=leaves or {},
        inputs=(Port(name="x", dtype="float32", shape=(2,)),),
        outputs=(nodes[-1].outputs[0],),
        ports={},
    )


def weight(name: str, full_name: str = "") -> Leaf:
    return Leaf(
        name=name,
        dtype="float32",
        shape=(2,),
        read=lambda: NotImplemented,
        kind=LeafKind.PARAMETER,
        weight=full_name,
    )


def test_nodes_in_a_row_of_one_scope_are_a_call() -> None:
    made = graph(node("a", "x", scope="up"), node("b", "a", scope="up"), node("c", "b"))

    calls, inner = calls_of(made)

    assert [(call.path, call.start, call.end) for call in calls] == [("", 0, 3), ("up", 0, 2)]
    assert inner == [1, 1, 0]


def test_a_return_to_a_scope_is_another_call() -> None:
    made = graph(node("a", "x", scope="up"), node("b", "a"), node("c", "b", scope="up"))

    calls, _ = calls_of(made)

    assert [(call.path, call.index) for call in calls] == [("", 0), ("up", 0), ("up", 1)]


def test_values_that_cross_a_border_are_inputs_and_outputs() -> None:
    made = graph(
        node("a", "x", scope="block.up"),
        node("b", "a", scope="block.down"),
        node("c", "b", "x"),
    )

    calls, _ = calls_of(made)

    borders = {call.path: (call.inputs, call.outputs) for call in calls}
    assert borders == {
        "": (["x"], ["c"]),
        "block": (["x"], ["b"]),
        "block.up": (["x"], ["a"]),
        "block.down": (["a"], ["b"]),
    }


def test_the_tree_holds_modules_that_ran_and_those_that_own_a_weight() -> None:
    made = graph(
        node("a", "x", scope="layers.0"),
        leaves={"w": weight("w", "layers.1.weight"), "c": weight("c")},
    )

    modules = modules_of(made)

    assert [(one.path, one.parent) for one in modules] == [
        ("", None),
        ("layers", 0),
        ("layers.0", 1),
        ("layers.1", 1),
    ]
    assert modules[2].class_path == "net.layers.0"


def test_without_scopes_there_is_one_root() -> None:
    made = graph(Node(operator="onnx.Relu", inputs=("x",), outputs=("a",)))

    assert [one.class_name for one in modules_of(made)] == ["Graph"]
    assert calls_of(made)[1] == [0]


def test_nodes_come_behind_what_they_take() -> None:
    nodes = [node("c", "b"), node("b", "a"), node("a", "x")]

    assert [one.outputs[0] for one in in_order(nodes)] == ["a", "b", "c"]


def test_a_rewritten_graph_takes_scopes_by_the_names_of_values() -> None:
    source = graph(
        node("a", "x", "w", scope="block.up", operator="onnx.MatMul"),
        node("b", "a", scope="block.down"),
        node("c", "b"),
        leaves={"w": weight("w", "block.up.weight")},
    )
    plain = [
        Node(operator="onnx.Cast", inputs=("x",), outputs=("coarse",)),
        Node(operator="onnx.MatMulInteger", inputs=("coarse", "w8"), outputs=("a",)),
        Node(operator="onnx.Relu", inputs=("a",), outputs=("b",)),
        Node(operator="onnx.Add", inputs=("b", "coarse"), outputs=("c",)),
    ]
    rewritten = graph(*plain, leaves={"w8": weight("w8")})

    made = with_scopes_of(rewritten, source)

    assert [one.scopes[-1].path for one in made.nodes] == ["", "block.up", "block.down", ""]
    assert made.folded == ("block.up.weight",)


def test_merged_weights_are_found_in_a_rewritten_graph() -> None:
    leaves = {"v": weight("v", "one.weight"), "two.weight": weight("two.weight", "two.weight")}
    source = graph(
        node("a", "x", "v", scope="one", operator="onnx.Mul"),
        node("b", "a", "two.weight", scope="two", operator="onnx.Mul"),
        leaves=leaves,
    )
    rewritten = graph(
        Node(operator="onnx.Mul", inputs=("x", "v"), outputs=("a",)),
        Node(operator="onnx.Mul", inputs=("a", "v"), outputs=("b",)),
        leaves={"v": weight("v")},
    )

    made = with_scopes_of(rewritten, source)

    assert [one.inputs[1] for one in made.nodes] == ["v", "two.weight"]
    assert {one.weight for one in made.leaves.values()} == {"one.weight", "two.weight"}


def test_weights_of_8_bits_are_computed_back() -> None:
    source = graph(
        node("a", "x", "w", scope="up", operator="onnx.MatMul"),
        leaves={"w": weight("w", "up.weight")},
    )
    parts = {"w_quantized": [1, 3], "w_scale": 0.5, "w_zero_point": 1}
    leaves = {
        name: replace(weight(name), read=partial(np.asarray, value))
        for name, value in parts.items()
    }
    rewritten = graph(
        Node(operator="onnx.MatMulInteger", inputs=("x", "w_quantized"), outputs=("a",)),
        leaves=leaves,
    )

    made = with_scopes_of(rewritten, source)

    assert [(one.weight, one.read().tolist()) for one in made.restored] == [
        ("up.weight", [0.0, 1.0])
    ]
    assert made.folded == ()
