"""Doubt about one layer reaches what depends on it, and only that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing import pair
from tests.support import treegen
from tests.support.treegen import Node

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
