"""Generates pairs of models whose trees differ in known ways, runs them, and knows the truth.

A model is a tree of nodes that numpy can run. ``plant`` grows one; the functions that follow give
a copy with another tree that computes the same: wrapped, unwrapped, renamed, with activations as
functions, branches in another order. ``run`` executes one and gives it as a ``Side``, with the
identity of the node behind each call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import (
    CallInfo,
    Index,
    ModuleInfo,
    Phase,
    RecordInfo,
    Role,
    ValueInfo,
    digest_of,
    dtype_name,
)
from padiff.dumpfile.statistics import statistics_of_parts

from .dumps import MemorySide
from .treelayers import BUFFERS, CLASSES, FREE, LEAVES, WIDTH, Node, computed, made_weights

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Sequence

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """An executed model."""

    side: MemorySide
    uids: tuple[int, ...]
    """Of the node behind each call."""
    leaves: frozenset[int]
    """Ids of the calls of leaves."""


def plant(
    generator: random.Random,
    blocks: int,
    *,
    is_activated_first: bool = False,
    is_rich: bool = False,
) -> Node:
    """Grow a model of so many blocks, each of 3 to 12 leaves.

    Args:
        generator: Of what is left to chance.
        blocks: How many.
        is_activated_first: Some units begin with an activation; two of one input give one value.
        is_rich: Some units have a batch norm, some blocks are attentions.
    """
    counter = iter(range(1, 10**9))

    def node(kind: str, name: str, *children: Node, times: int = 1) -> Node:
        uid = next(counter)
        return Node(uid=uid, kind=kind, name=name, children=children, times=times, seed=uid)

    def unit(name: str) -> Node:
        parts = [node("linear", "fc"), node("relu", "act")]
        kind = _norm(generator, is_rich=is_rich)
        parts[1:1] = [node(kind, kind)] if kind else []
        if generator.random() < 0.3:
            parts.append(node("drop", "drop"))
        if is_activated_first and generator.random() < 0.3:
            parts.insert(0, node("relu", "before"))
        return node("seq", name, *parts)

    def block(number: int) -> Node:
        name, dice = f"block{number}", generator.random()
        if dice > 0.85 and is_rich:
            layers = [node("linear", part) for part in ("query", "key", "value")]
            return node("seq", name, node("attend", "mix", *layers), node("linear", "out"))
        if dice < 0.3:
            return node("residual", name, unit("body"))
        if dice < 0.55:
            words = generator.sample(
                ["left", "right", "short", "deep"], generator.choice((2, 2, 3))
            )
            return node("branches", name, *(unit(word) for word in words))
        if dice < 0.7:
            return node("repeat", name, unit("shared"), times=2)
        return node("seq", name, unit("first"), unit("second"))

    return node("seq", "", *(block(number) for number in range(blocks)))


def _norm(generator: random.Random, *, is_rich: bool) -> str:
    if generator.random() < 0.5:
        return "norm"
    return "bn" if is_rich and generator.random() < 0.5 else ""


def changed(node: Node, change: Callable[[Node], Node]) -> Node:
    """Give a copy with every node changed, the innermost first."""
    return change(replace(node, children=tuple(changed(child, change) for child in node.children)))


def wrapped(node: Node, generator: random.Random) -> Node:
    """Put wrappers around a third of the nodes below the root."""
    number = iter(range(-1, -(10**9), -1))

    def wrap(one: Node) -> Node:
        if one.name == "" or one.is_function or generator.random() > 0.3:
            return one
        inner = replace(one, name="inner")
        return Node(uid=next(number), kind="seq", name=one.name, children=(inner,))

    return changed(node, wrap)


def unwrapped(node: Node, generator: random.Random) -> Node:
    """Splice the content of half of the plain sequences into the sequence around them."""

    def splice(one: Node) -> Node:
        if one.kind != "seq":
            return one
        children: list[Node] = []
        for child in one.children:
            if child.kind == "seq" and generator.random() < 0.5:
                children += [replace(c, name=f"{child.name}_{c.name}") for c in child.children]
            else:
                children.append(child)
        return replace(one, children=tuple(children))

    return changed(node, splice)


def renamed(node: Node, generator: random.Random) -> Node:
    """Give every module a name that says nothing."""

    def rename(one: Node) -> Node:
        names = generator.sample(range(10**6), len(one.children))
        children = zip(one.children, names, strict=True)
        return replace(one, children=tuple(replace(c, name=f"x{n}") for c, n in children))

    return changed(node, rename)


def functional(node: Node, generator: random.Random) -> Node:
    """Turn half of the activations and dropouts into functions."""

    def turn(one: Node) -> Node:
        return replace(one, is_function=one.kind in FREE and generator.random() < 0.5)

    return changed(node, turn)


def reordered(node: Node) -> Node:
    """Run all branches in the opposite order."""

    def turn(one: Node) -> Node:
        is_free = one.kind in {"branches", "attend"}
        return replace(one, children=one.children[::-1]) if is_free else one

    return changed(node, turn)


def skewed(node: Node, generator: random.Random) -> Node:
    """Give one norm another epsilon, or transpose the weight of one product."""
    leaves = [one.uid for one in walk(node) if one.kind in {"linear", "norm", "bn"}]
    chosen = generator.choice(leaves)
    return changed(
        node,
        lambda one: (
            replace(one, epsilon=0.1, is_turned=one.kind == "linear") if one.uid == chosen else one
        ),
    )


def faulty(node: Node, generator: random.Random) -> Node:
    """Scale the output of one leaf with weights by 1.5."""
    leaves = [one.uid for one in walk(node) if one.kind in {"linear", "norm"}]
    chosen = generator.choice(leaves)
    return changed(node, lambda one: replace(one, scale=1.5) if one.uid == chosen else one)


def reseeded(node: Node) -> Node:
    """Give all weights other values."""

    def reseed(one: Node) -> Node:
        inner = None if one.folded is None else reseed(one.folded)
        parts = tuple(map(reseed, one.parts))
        return replace(one, seed=one.seed + 10**6, parts=parts, folded=inner)

    return changed(node, reseed)


def walk(node: Node) -> Iterator[Node]:
    """Give a node and everything below it."""
    yield node
    for child in node.children:
        yield from walk(child)


def run(node: Node, framework: str) -> Run:
    """Execute a model on fixed data, and record it as the framework would."""
    runner = _Runner(framework=framework)
    runner.declare(node, "", None)
    data = np.random.default_rng(0).standard_normal((3, WIDTH)).astype(np.float32)
    runner.execute(node, "", None, data)
    return runner.finish()


def truth(reference: Run, candidate: Run) -> dict[int, int]:
    """Give the partner of each call of a leaf that both sides run as a module."""
    places: dict[tuple[int, int], int] = {}
    counts: dict[int, int] = {}
    for call, uid in enumerate(candidate.uids):
        places[uid, counts.get(uid, 0)] = call
        counts[uid] = counts.get(uid, 0) + 1
    found, counts = {}, {}
    for call, uid in enumerate(reference.uids):
        number = counts.get(uid, 0)
        counts[uid] = number + 1
        if call in reference.leaves and (uid, number) in places:
            found[call] = places[uid, number]
    return found


def values_of(arrays: Sequence[Array], digests: Sequence[str]) -> tuple[ValueInfo, ...]:
    """Describe small arrays of one dtype, whose digests are known, all at once."""
    starts = [0, *accumulate(array.size for array in arrays[:-1])]
    parts = zip(arrays, digests, statistics_of_parts(np.concatenate(arrays), starts), strict=True)
    return tuple(
        ValueInfo(
            id=number,
            digest=digest,
            dtype=dtype_name(array.dtype),
            size=array.size,
            statistics=statistics,
        )
        for number, (array, digest, statistics) in enumerate(parts)
    )


@dataclass(kw_only=True)
class _Runner:
    framework: str
    modules: list[ModuleInfo] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    calls: list[CallInfo] = field(default_factory=list)
    times: dict[int, int] = field(default_factory=dict)
    uids: list[int] = field(default_factory=list)
    leaves: set[int] = field(default_factory=set)
    records: list[RecordInfo] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    tensors: dict[tuple[int, int, str], int] = field(default_factory=dict)
    weights: dict[int, dict[str, Array]] = field(default_factory=dict)
    order: int = 0

    def declare(self, node: Node, path: str, parent: int | None) -> None:
        """Add a module and those below it; functions are none."""
        name = CLASSES[self.framework].get(node.kind, f"User{node.kind.title()}")
        space = f"{self.framework}.nn" if node.kind in LEAVES else "models"
        module = len(self.modules)
        self.modules.append(
            ModuleInfo(
                id=module,
                path=path,
                class_name=name,
                class_path=f"{space}.{name}",
                parent=parent,
                attributes={"act": "relu"} if node.is_activated else {},
            )
        )
        self.ids[path] = module
        self._declare_weights(node, module)
        for child in node.children:
            if not child.is_function:
                self.declare(child, f"{path}.{child.name}".strip("."), module)

    def _declare_weights(self, node: Node, module: int) -> None:
        self.weights[module] = made = made_weights(node)
        for name, array in made.items():
            is_turned = self.framework == "paddle" and array.ndim > 1
            stored = np.ascontiguousarray(array.T) if is_turned else array
            shown = BUFFERS[self.framework].get(name, name)
            role = Role.WEIGHT if shown == name else Role.BUFFER
            tensor = self.tensors.setdefault((node.seed, node.copy, name), len(self.records))
            self._record(module, None, role, f".{shown}", stored, tensor=tensor)

    def execute(self, node: Node, path: str, parent: int | None, data: Array) -> Array:
        """Run one node and record its call, unless it is a function."""
        if node.is_function:
            return self._compute(node, path, None, data)
        module = self.ids[path]
        index = self.times.get(module, 0)
        self.times[module] = index + 1
        call = CallInfo(
            id=len(self.calls),
            module=module,
            index=index,
            parent=parent,
            start=self._tick(),
            end=None,
        )
        self.calls.append(call)
        self.uids.append(node.uid)
        if node.kind in LEAVES:
            self.leaves.add(call.id)
        self._record(module, call.id, Role.INPUT, "[0]", data)
        made = self._compute(node, path, call.id, data)
        self.calls[call.id] = replace(call, end=self._tick())
        self._record(module, call.id, Role.OUTPUT, "", made)
        return made

    def _compute(self, node: Node, path: str, call: int | None, data: Array) -> Array:
        if node.kind in LEAVES:
            made = computed(node, self.weights.get(self.ids.get(path, -1), {}), data)
        elif node.kind == "attend":
            made = self._attend(node, path, call, data)
        elif node.kind == "branches":
            parts = [self._child(node, child, path, call, data) for child in node.children]
            made = np.sum(sorted(parts, key=lambda part: float(part.sum())), axis=0)
        else:
            made = data
            for _ in range(node.times):
                for child in node.children:
                    made = self._child(node, child, path, call, made)
            made = made + data if node.kind == "residual" else made
        made = np.maximum(made, 0) if node.is_activated else made
        return np.asarray(made * np.float32(node.scale), np.float32)

    def _attend(self, node: Node, path: str, call: int | None, data: Array) -> Array:
        """Mix what three layers made, or the three shares of what one made."""
        made: dict[int, Array] = {}
        for child in node.children:
            given = self._child(node, child, path, call, data)
            whole = next((one for one in walk(child) if one.kind == "fused"), None)
            if whole is None:
                made[max(one.uid for one in walk(child))] = given
            else:
                shares = np.split(given, len(whole.parts), axis=-1)
                made |= {part.uid: share for part, share in zip(whole.parts, shares, strict=True)}
        query, key, value = (made[uid] for uid in sorted(made))
        return np.asarray(query * np.tanh(key) + value)

    def _child(self, _node: Node, child: Node, path: str, call: int | None, data: Array) -> Array:
        return self.execute(child, f"{path}.{child.name}".strip("."), call, data)

    def _tick(self) -> int:
        self.order += 1
        return self.order - 1

    def _record(
        self,
        module: int,
        call: int | None,
        role: Role,
        slot: str,
        array: Array,
        *,
        tensor: int | None = None,
    ) -> None:
        digest = digest_of(array)
        if digest not in self.known:
            self.known[digest] = len(self.arrays)
            self.arrays.append(array.reshape(-1).copy())
        self.records.append(
            RecordInfo(
                id=len(self.records),
                module=module,
                call=call,
                phase=Phase.FORWARD,
                role=role,
                slot=slot,
                order=self.order,
                shape=array.shape,
                value=self.known[digest],
                tensor=tensor,
            )
        )

    def finish(self) -> Run:
        """Give the run."""
        index = Index(
            step=0,
            rank=0,
            modules=tuple(self.modules),
            calls=tuple(self.calls),
            records=tuple(self.records),
            values=values_of(self.arrays, list(self.known)),
        )
        return Run(
            side=MemorySide(framework=self.framework, index=index, arrays=tuple(self.arrays)),
            uids=tuple(self.uids),
            leaves=frozenset(self.leaves),
        )
