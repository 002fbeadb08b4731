"""Further changes of generated trees: layers that do more at once, other nesting, own instances."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .treegen import changed
from .treelayers import Node

if TYPE_CHECKING:
    import random

__all__ = ["folded", "fused", "joined", "nested", "unshared"]


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


def joined(node: Node, generator: random.Random) -> Node:
    """Let half of the attentions make query, key and value in one layer."""
    number = iter(range(-2 * 10**9, -3 * 10**9, -1))

    def join(one: Node) -> Node:
        is_plain = one.kind == "attend" and all(part.kind == "linear" for part in one.children)
        if not is_plain or generator.random() < 0.5:
            return one
        whole = Node(uid=next(number), kind="fused", name="qkv", parts=one.children)
        return replace(one, children=(replace(whole, seed=whole.uid % 10**9),))

    return changed(node, join)


def folded(node: Node, generator: random.Random) -> Node:
    """Fold half of the batch norms into the layer before."""

    def fold(one: Node) -> Node:
        children: list[Node] = []
        for child in one.children:
            before = children[-1] if children and one.kind == "seq" else None
            is_after = before is not None and before.kind == "linear" and child.kind == "bn"
            if before is not None and is_after and generator.random() < 0.5:
                children[-1] = replace(before, folded=child)
            else:
                children.append(child)
        return replace(one, children=tuple(children))

    return changed(node, fold)


def copied(node: Node, number: int) -> Node:
    """Give the same layers with weights of their own, equal to the others'."""
    return changed(node, lambda one: replace(one, copy=number))


def unshared(node: Node, generator: random.Random) -> Node:
    """Run instances one after the other where one ran again, of shared or of copied weights."""

    def unshare(one: Node) -> Node:
        if one.kind != "repeat":
            return one
        is_tied = generator.random() < 0.5
        copies = [
            copied(child, 0 if is_tied else turn)
            for turn in range(one.times)
            for child in one.children
        ]
        names = [f"{child.name}{place}" for place, child in enumerate(copies)]
        children = tuple(replace(c, name=n) for c, n in zip(copies, names, strict=True))
        return replace(one, times=1, children=children)

    return changed(node, unshare)
