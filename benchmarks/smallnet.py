"""Dumps of many small tensors: blocks of layers, forward and backward, in one of two trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import (
    CallInfo,
    Content,
    DumpWriter,
    Keep,
    Layout,
    Manifest,
    Mesh,
    ModuleInfo,
    Phase,
    Role,
    StepWriter,
)

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.dumpfile import Stored

__all__ = ["RECORDS_PER_BLOCK", "Grid", "write_grid", "write_small"]

Array = npt.NDArray[Any]

WIDTH = 16
"""A square of float32 of this width is 1 KiB."""
RECORDS_PER_BLOCK = 20
"""Six of each of two layers, four of the activation between them and of the block itself."""
_BLOCKS_PER_STAGE = 32
_PASSES = (Role.INPUT, Role.OUTPUT, Role.GRAD_INPUT, Role.GRAD_OUTPUT)


@dataclass(slots=True)
class _Tree:
    """The modules and calls so far."""

    step: StepWriter
    is_port: bool
    """Whether it is the other framework's form: other names, no activation modules, a wrapper."""
    calls: int
    """How many there will be, beside the root's: gradients come in the reverse order of calls."""
    modules: list[ModuleInfo] = field(default_factory=list)
    layout: Layout | None = None
    """Of weights."""
    order: int = 0
    made: int = 0

    def module(self, path: str, name: str, parent: int | None) -> int:
        """Add a module."""
        package = "paddle.nn" if self.is_port else "torch.nn"
        known = ModuleInfo(
            id=len(self.modules),
            path=path,
            class_name=name,
            class_path=f"{package}.{name}",
            parent=parent,
            attributes={"in_features": WIDTH, "out_features": WIDTH} if name == "Linear" else {},
        )
        self.modules.append(known)
        return known.id

    def enter(self, module: int, parent: int | None) -> tuple[int, int]:
        """Begin a call; gives its id and start."""
        number, start = self.made, self.tick()
        self.made += 1
        self._state(number, module, parent, start, None)
        return number, start

    def leave(self, number: int, module: int, parent: int | None, start: int) -> int:
        """End a call; gives its end."""
        end = self.tick()
        self._state(number, module, parent, start, end)
        return end

    def records(
        self, module: int, call: int, orders: tuple[int, int], values: tuple[Stored, ...]
    ) -> None:
        """Add input, output and their gradients."""
        back = 8 * self.calls + 2 * (self.calls - call)
        when = (*orders, back + 1, back)
        for role, order, value in zip(_PASSES, when, values, strict=True):
            is_forward = role in {Role.INPUT, Role.OUTPUT}
            self.step.add_record(
                module=module,
                call=call,
                phase=Phase.FORWARD if is_forward else Phase.BACKWARD,
                role=role,
                slot="[0]" if role in {Role.INPUT, Role.GRAD_INPUT} else "",
                order=order,
                shape=(WIDTH, WIDTH),
                value=value,
            )

    def weight(self, module: int, value: Stored, gradient: Stored) -> None:
        """Add a weight and its gradient."""
        for phase, role, held in (
            (Phase.FORWARD, Role.WEIGHT, value),
            (Phase.BACKWARD, Role.WEIGHT_GRAD, gradient),
        ):
            self.step.add_record(
                module=module,
                call=None,
                phase=phase,
                role=role,
                slot=".weight",
                order=0 if role is Role.WEIGHT else 100 * self.calls,
                shape=(WIDTH, WIDTH),
                value=held,
                tensor=module,
                layout=self.layout,
            )

    def tick(self) -> int:
        self.order += 1
        return self.order - 1

    def _state(
        self, number: int, module: int, parent: int | None, start: int, end: int | None
    ) -> None:
        self.step.add_call(
            CallInfo(id=number, module=module, index=0, parent=parent, start=start, end=end)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The ranks of a run: the dimension named last is the fastest."""

    replicas: int
    stages: int
    parts: int
    steps: int
    blocks: int
    """Of each stage."""

    @property
    def mesh(self) -> Mesh:
        """Return it as dumps have it."""
        sizes = self.replicas, self.stages, self.parts
        ranks = tuple(range(self.replicas * self.stages * self.parts))
        return Mesh(dims=("dp", "pp", "tp"), sizes=sizes, ranks=ranks)


def write_grid(directory: Path, grid: Grid, *, is_port: bool = False) -> None:
    """Write what ranks record without elements: digests and statistics.

    The ranks of a stage have the same modules, and weights and activations of their own.

    Args:
        directory: Where.
        grid: The ranks.
        is_port: As for ``write_small``.
    """
    layout = Layout(
        mesh=grid.mesh, placements=("R", "R", "S(0)"), shape=(grid.parts * WIDTH, WIDTH)
    )
    with DumpWriter(directory, content=Keep(content=Content.STATS)) as writer:
        for number in range(grid.steps):
            for rank in grid.mesh.ranks:
                first = rank // grid.parts % grid.stages * grid.blocks
                with writer.step(number, rank) as step:
                    calls = (3 if is_port else 4) * grid.blocks
                    tree = _Tree(step, is_port, calls=calls, layout=layout)
                    seed = number * len(grid.mesh.ranks) + rank
                    _run(tree, range(first, first + grid.blocks), np.float32(0), seed)
                    step.add_modules(tree.modules)
        writer.commit(_about(directory, is_port=is_port))


def write_small(directory: Path, blocks: int, *, noise: float, is_port: bool = False) -> None:
    """Write a dump of ``RECORDS_PER_BLOCK`` records for each block, 1 KiB each.

    Args:
        directory: Where.
        blocks: How many.
        noise: What is computed is off by this factor; weights are the same bits.
        is_port: Whether to write it as another framework's port: renamed modules in a wrapper,
            transposed weights, activations that are no modules.
    """
    with DumpWriter(directory) as writer:
        with writer.step(0, 0) as step:
            tree = _Tree(step, is_port, calls=(3 if is_port else 4) * blocks)
            _run(tree, range(blocks), np.float32(noise))
            step.add_modules(tree.modules)
        writer.commit(_about(directory, is_port=is_port))


def _about(directory: Path, *, is_port: bool) -> Manifest:
    return Manifest(
        name=directory.name,
        framework="paddle" if is_port else "torch",
        framework_version="",
        padiff_version="",
        created="2026-01-01T00:00:00Z",
        files=(),
    )


def _run(tree: _Tree, blocks: range, noise: np.float32, seed: int = 0) -> None:
    random = np.random.default_rng(seed)

    def made() -> Array:
        return random.standard_normal((WIDTH, WIDTH), dtype=np.float32)

    def store(array: Array) -> Stored:
        return tree.step.store(array * (1 + noise))

    root = tree.module("", "Net", None)
    outer = root
    if tree.is_port:
        outer = tree.module("encoder", "Encoder", root)
    call, start = tree.enter(root, None)
    stage = outer
    flow, gradients = store(made()), [store(made())]
    first = flow
    for block in blocks:
        number, place = divmod(block, _BLOCKS_PER_STAGE)
        prefix = f"encoder.layers{number}" if tree.is_port else f"stage{number}"
        if not place or block == blocks[0]:
            stage = tree.module(prefix, "LayerList" if tree.is_port else "ModuleList", outer)
        one = tree.module(f"{prefix}.{place}", "Block", stage)
        arrays = [made() for _ in range(10)]
        values = (flow, *map(store, arrays[:3])), (gradients[-1], *map(store, arrays[3:6]))
        gradients.append(values[1][-1])
        flow = values[0][-1]
        weights = [array.T if tree.is_port else array for array in arrays[6:8]]
        held = [tree.step.store(np.ascontiguousarray(array)) for array in weights]
        slopes = [array.T if tree.is_port else array for array in arrays[8:]]
        _block(tree, one, call, values, (held, [store(array) for array in slopes]))
    end = tree.leave(call, root, None, start)
    tree.records(root, call, (start, end), (first, flow, gradients[0], gradients[-1]))


def _block(
    tree: _Tree,
    block: int,
    outer: int,
    values: tuple[tuple[Stored, ...], tuple[Stored, ...]],
    weights: tuple[list[Stored], list[Stored]],
) -> None:
    """Run a block: a layer, an activation, a layer."""
    forward, backward = values
    path = tree.modules[block].path
    call, start = tree.enter(block, outer)
    names = ("proj", "", "out") if tree.is_port else ("fc1", "act", "fc2")
    for place, name in enumerate(names):
        if not name:
            continue
        is_layer = place != 1
        module = tree.module(f"{path}.{name}", "Linear" if is_layer else "ReLU", block)
        number, begun = tree.enter(module, call)
        done = tree.leave(number, module, call, begun)
        moved = (forward[place], forward[place + 1], backward[place], backward[place + 1])
        tree.records(module, number, (begun, done), moved)
        if is_layer:
            tree.weight(module, weights[0][place // 2], weights[1][place // 2])
    end = tree.leave(call, block, outer, start)
    tree.records(block, call, (start, end), (forward[0], forward[3], backward[0], backward[3]))
