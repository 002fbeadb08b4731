"""Doubt about one layer reaches what depends on it, and only that."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.pairing import pair
from tests.support import treegen
from tests.support.treelayers import Node

if TYPE_CHECKING:
    from padiff.pairing import ModulePair

LEAVES = (("fc", "linear"), ("norm", "norm"), ("act", "relu"))


def tower(uid: int, name: str, prefix: str) -> Node:
    children = tuple(
        Node(uid=uid + place, kind=kind, name=f"{prefix}{leaf}", seed=uid + place)
        for place, (leaf, kind) in enumerate(LEAVES, start=1)
    )
    return Node(uid=uid, kind="seq", name=name, children=children)


def model(first: str, second: str, prefix: str = "") -> Node:
    towers = tower(10, first, prefix), tower(20, second, prefix)
    both = Node(uid=2, kind="branches", name=f"{prefix}both", children=towers)
    last = Node(uid=3, kind="linear", name=f"{prefix}last", seed=3)
    return Node(uid=1, kind="seq", name="", children=(both, last))


def rated(reference: Node, candidate: Node) -> dict[str, ModulePair]:
    one, two = treegen.run(reference, "torch"), treegen.run(candidate, "paddle")
    found = pair(one.side, two.side).modules
    return {one.side.index.modules[p.reference].path: p for p in found}


def test_all_of_two_alike_towers_is_in_doubt_and_has_alternatives() -> None:
    found = rated(model("one", "two"), treegen.reseeded(model("x", "y", "z")))

    for path in ("both.one.fc", "both.one.norm", "both.one.act", "both.two.norm"):
        assert found[path].confidence < 1
        assert found[path].alternatives


def test_what_follows_where_the_towers_meet_is_not_in_doubt() -> None:
    found = rated(model("one", "two"), treegen.reseeded(model("x", "y", "z")))

    assert found["last"].confidence == 1


def test_equal_weights_tell_towers_apart() -> None:
    found = rated(model("one", "two"), treegen.reordered(model("x", "y", "z")))

    assert {p.confidence for p in found.values()} == {1.0}


def test_names_tell_towers_apart() -> None:
    moved = treegen.reordered(treegen.reseeded(model("left", "right")))

    found = rated(model("left", "right"), moved)

    assert {p.confidence for p in found.values()} == {1.0}


def chain(prefix: str, *, is_function: bool) -> Node:
    """Give four layers of one size in a row, with activations between them."""
    parts = []
    for place in range(4):
        parts.append(Node(uid=place + 10, kind="linear", name=f"{prefix}{place}", seed=place + 10))
        name = f"{prefix}act{place}"
        parts.append(Node(uid=place + 20, kind="relu", name=name, is_function=is_function))
    return Node(uid=1, kind="seq", name="", children=tuple(parts))


def letters(node: Node) -> Node:
    """Give the children names that say nothing."""
    names = zip(node.children, "qwertyui", strict=True)
    return replace(node, children=tuple(replace(child, name=name) for child, name in names))


def test_order_that_data_flow_proves_on_one_side_leaves_no_doubt() -> None:
    other = treegen.reseeded(letters(chain("fc", is_function=True)))

    found = rated(chain("fc", is_function=False), other)

    assert {p.confidence for p in found.values()} == {1.0}


def test_order_that_nothing_proves_is_in_doubt_and_has_alternatives() -> None:
    other = treegen.reseeded(letters(chain("fc", is_function=True)))

    found = rated(chain("fc", is_function=True), other)

    assert found["fc0"].confidence == 1  # it alone takes what the model is given
    assert [found[f"fc{place}"].confidence for place in range(1, 4)] == [0.8] * 3
    assert all(found[f"fc{place}"].alternatives for place in range(1, 4))


def test_what_only_one_of_two_towers_has_tells_their_other_layers_apart() -> None:
    towers = (
        tower(10, "one", ""),
        replace(tower(20, "two", ""), children=tower(20, "two", "").children[::2]),
    )
    both = Node(uid=2, kind="branches", name="both", children=towers)
    reference = Node(uid=1, kind="seq", name="", children=(both,))

    found = rated(reference, treegen.reordered(treegen.reseeded(changed_names(reference))))

    assert {p.confidence for p in found.values()} == {1.0}


def changed_names(node: Node) -> Node:
    return treegen.renamed(node, random.Random(0))
