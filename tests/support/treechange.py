"""Further changes of generated trees: activations inside layers, other nesting."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .treegen import Node, changed

if TYPE_CHECKING:
    import random

__all__ = ["fused", "nested"]


def fused(node: Node, generator: random.Random) -> Node:
    """Let half of the layers that an activation follows apply it themselves."""

    def fuse(one: Node) -> Node:
        children: list[Node] = []
        for child in one.children:
            before = children[-1] if children and one.kind == "seq" else None
            is_layer = before is not None and before.kind in {"linear", "norm"}
            if (
                before is not None
                and is_layer
                and child.kind == "relu"
                and generator.random() < 0.5
            ):
                children[-1] = replace(before, is_activated=True)
            else:
                children.append(child)
        return replace(one, children=tuple(children))

    return changed(node, fuse)


def nested(node: Node, generator: random.Random) -> Node:
    """Cut plain sequences in two at a random place, and put each half into one of its own."""
    number = iter(range(-(10**9), -2 * 10**9, -1))

    def cut(one: Node) -> Node:
        if one.kind != "seq" or len(one.children) < 2 or generator.random() < 0.5:
            return one
        place = generator.randrange(1, len(one.children))
        halves = one.children[:place], one.children[place:]
        parts = tuple(
            Node(uid=next(number), kind="seq", name=f"half{rank}", children=half)
            for rank, half in enumerate(halves)
        )
        return replace(one, children=parts)

    return changed(node, cut)
