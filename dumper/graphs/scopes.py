"""The module tree and its calls, rebuilt from the scopes of a graph's nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import LeafKind, ModuleInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .graph import Array, Graph, Leaf, Node, Scope

_QUANTIZED = ("quantized", "scale", "zero_point")
"""What stands behind the name of a weight that ONNX Runtime quantised, for its parts."""
ROOT_CLASS = "Graph"
"""The class of a root that the file does not name."""


@dataclass(slots=True, kw_only=True)
class Call:
    """Nodes in a row that were made in one module, with the calls inside it."""

    id: int
    path: str
    index: int
    """Number of the call among those of its module."""
    parent: int | None
    start: int
    """Position of its first node."""
    end: int
    """Position behind its last node."""
    inputs: list[str] = field(default_factory=list)
    """Values that come in, each once, in the order in which they are taken."""
    outputs: list[str] = field(default_factory=list)
    """Values that were made inside and are taken outside."""


def modules_of(graph: Graph) -> tuple[ModuleInfo, ...]:
    """Build the table of modules: those that nodes ran in, and those that own a weight.

    Parents come first, siblings in the order in which they are met.
    """
    classes: dict[str, str] = {"": ""}
    for node in graph.nodes:
        for scope in node.scopes:
            if not classes.get(scope.path):
                classes[scope.path] = scope.class_path
    for leaf in (*graph.leaves.values(), *graph.restored):
        if leaf.weight:
            classes.setdefault(owner_of(leaf.weight), "")
    children: dict[str, list[str]] = {}
    for path in classes:
        if path:
            children.setdefault(_parent(path, classes), []).append(path)
    order: list[str] = []
    waiting = [""]
    while waiting:
        path = waiting.pop()
        order.append(path)
        waiting += reversed(children.get(path, ()))
    ids = {path: number for number, path in enumerate(order)}
    return tuple(
        _module(number, path, classes[path], ids[_parent(path, classes)] if path else None)
        for path, number in ids.items()
    )


def owner_of(weight: str) -> str:
    """Return the path of the module that owns a weight.

    >>> owner_of("blocks.0.up.weight")
    'blocks.0.up'
    """
    return weight.rpartition(".")[0]


def calls_of(graph: Graph) -> tuple[list[Call], list[int]]:
    """Find the calls of a graph.

    Returns:
        The calls in the order in which they begin, the root's first, and the id of the innermost
        call of each node.
    """
    calls = [Call(id=0, path="", index=0, parent=None, start=0, end=len(graph.nodes))]
    counts: dict[str, int] = {}
    open_ = [calls[0]]
    inner = []
    for place, node in enumerate(graph.nodes):
        paths = _paths(node.scopes)
        while len(open_) > 1 and open_[-1].path not in paths:
            open_.pop().end = place
        for path in paths:
            if any(call.path == path for call in open_):
                continue
            index = counts.get(path, 0)
            counts[path] = index + 1
            made = Call(
                id=len(calls), path=path, index=index, parent=open_[-1].id, start=place,
                end=len(graph.nodes),
            )  # fmt: skip
            calls.append(made)
            open_.append(made)
        inner.append(open_[-1].id)
    _cross_borders(graph, calls, inner)
    return calls, inner


def _cross_borders(graph: Graph, calls: Sequence[Call], inner: Sequence[int]) -> None:
    """Note which values come into each call and which leave it."""
    makers = {
        name: place for place, node in enumerate(graph.nodes) for name in node.outputs if name
    }
    inputs = {port.name for port in graph.inputs}
    chains = [_chain(calls, call.id) for call in calls]
    taken: list[tuple[str, int | None]] = []
    for place, node in enumerate(graph.nodes):
        taken += [(name, place) for name in node.inputs if name in makers or name in inputs]
    taken += [(name, None) for name in graph.outputs]
    for name, reader in taken:
        here = [] if reader is None else chains[inner[reader]]
        there = chains[inner[makers[name]]] if name in makers else []
        for call in here:
            if call not in there and name not in calls[call].inputs:
                calls[call].inputs.append(name)
        for call in there:
            if call not in here and name not in calls[call].outputs:
                calls[call].outputs.append(name)


def _chain(calls: Sequence[Call], call: int) -> list[int]:
    """Return a call and those around it, the innermost first."""
    found = [call]
    above = calls[call].parent
    while above is not None:
        found.append(above)
        above = calls[above].parent
    return found


def _paths(scopes: Iterable[Scope]) -> list[str]:
    """Return the paths of the modules around a node, each once, without the root."""
    return list(dict.fromkeys(scope.path for scope in scopes if scope.path))


def _parent(path: str, known: dict[str, str]) -> str:
    """Return the nearest path above that is a module."""
    while path:
        path = path.rpartition(".")[0]
        if path in known:
            return path
    return ""


def _module(number: int, path: str, class_path: str, parent: int | None) -> ModuleInfo:
    if not path:
        class_path = class_path or ROOT_CLASS
    return ModuleInfo(
        id=number,
        path=path,
        class_name=class_path.rpartition(".")[2],
        class_path=class_path,
        parent=parent,
    )


def in_order(nodes: Sequence[Node], wanted: Iterable[int] | None = None) -> list[Node]:
    """Return nodes so that each stands behind those whose results it takes.

    Args:
        nodes: In any order.
        wanted: Positions in the order that is wanted; each comes as early as it can, behind what
            it takes. None takes the nodes as they stand.
    """
    makers = {name: place for place, node in enumerate(nodes) for name in node.outputs if name}
    found: list[int] = []
    seen: set[int] = set()
    for first in range(len(nodes)) if wanted is None else wanted:
        waiting = [first]
        while waiting:
            place = waiting[-1]
            before = [makers[name] for name in nodes[place].inputs if name in makers]
            open_ = [one for one in before if one not in seen and one not in waiting]
            if place not in seen and open_:
                waiting += reversed(open_)
                continue
            waiting.pop()
            if place not in seen:
                seen.add(place)
                found.append(place)
    return [nodes[place] for place in found]


def with_scopes_of(graph: Graph, source: Graph) -> Graph:
    """Return a rewritten graph with the scopes and weights of the graph that it was made of.

    Names of values survive a rewriting. A node that is new belongs where its result goes.
    """
    known = {name: node for node in source.nodes for name in node.outputs if name}
    leaves = {name: _as_in(source, name, leaf) for name, leaf in graph.leaves.items()}
    nodes: list[Node] = []
    readers: dict[str, list[Node]] = {}
    for node in reversed(in_order(graph.nodes)):
        before = next((known[name] for name in node.outputs if name in known), None)
        made = replace(node, inputs=_own_inputs(node, before, source, leaves))
        if before is not None:
            made = replace(made, scopes=before.scopes, origin=before.origin, sites=before.sites)
        else:
            behind = [one for name in node.outputs for one in readers.get(name, ())]
            made = replace(made, scopes=_shared(behind), sites=behind[0].sites if behind else ())
        nodes.append(made)
        for name in node.inputs:
            readers.setdefault(name, []).append(made)
    nodes.reverse()
    places = {name: place for place, node in enumerate(source.nodes) for name in node.outputs}
    last = len(places)
    order = [min((places.get(name, last) for name in node.outputs), default=last) for node in nodes]
    restored = tuple(_restored(source, graph.leaves))
    held = {leaf.weight for leaf in (*leaves.values(), *restored)}
    weights = dict.fromkeys(leaf.weight for leaf in source.leaves.values() if leaf.weight)
    return replace(
        graph,
        nodes=tuple(in_order(nodes, sorted(range(len(nodes)), key=order.__getitem__))),
        leaves=leaves,
        restored=restored,
        folded=(*source.folded, *(name for name in weights if name not in held)),
    )


def _shared(nodes: Sequence[Node]) -> tuple[Scope, ...]:
    """Return the modules that are around all of some nodes."""
    if not nodes:
        return ()
    first = nodes[0].scopes
    shared = [
        scope
        for place, scope in enumerate(first)
        if all(node.scopes[: place + 1] == first[: place + 1] for node in nodes)
    ]
    return tuple(shared)


def _as_in(source: Graph, name: str, leaf: Leaf) -> Leaf:
    """Return a leaf as what it is in the graph that was rewritten, if it is the same there."""
    before = source.leaves.get(name)
    if before is None or before.shape != leaf.shape:
        return replace(leaf, kind=LeafKind.CONSTANT, weight="", is_transposed=False)
    return replace(leaf, kind=before.kind, weight=before.weight, is_transposed=before.is_transposed)


def _restored(source: Graph, leaves: Mapping[str, Leaf]) -> Iterator[Leaf]:
    """Yield the weights that a rewritten file holds in 8 bits, by the names that are usual."""
    for leaf in source.leaves.values():
        parts = [leaves.get(f"{leaf.name}_{part}") for part in _QUANTIZED]
        known = [part for part in parts if part is not None]
        if leaf.weight and len(known) == len(_QUANTIZED):
            yield replace(leaf, read=partial(_dequantized, *known))


def _dequantized(whole: Leaf, scale: Leaf, zero_point: Leaf) -> Array:
    """Return what integers of few bits stand for."""
    numbers, factor, zero = (
        np.asarray(part.read(), np.float64) for part in (whole, scale, zero_point)
    )
    return np.asarray((numbers - zero) * factor, scale.dtype)


def _own_inputs(
    node: Node, before: Node | None, source: Graph, leaves: dict[str, Leaf]
) -> tuple[str, ...]:
    """Return what a node takes, by the names of its own weights where they were merged.

    Args:
        node: As it is.
        before: As it was; None for a new one.
        source: The graph that was rewritten.
        leaves: What the rewritten file holds; weights of their own are added.
    """
    is_same = before is not None and node.operator == before.operator
    if before is None or not is_same or len(node.inputs) != len(before.inputs):
        return node.inputs
    found = []
    for name, own in zip(node.inputs, before.inputs, strict=True):
        is_weight = name in leaves and own in source.leaves and source.leaves[own].weight
        if is_weight and own not in leaves:
            leaves[own] = _as_in(source, own, replace(leaves[name], name=own))
        found.append(own if is_weight else name)
    return tuple(found)
