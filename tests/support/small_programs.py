"""Lowered programs of a few leaves, for tests of what executes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.program import Lowered
from padiff.program.lowering.builder import Builder, Term
from padiff.program.primitives import Kind, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.program.primitives import Array

__all__ = ["drawn", "lowered"]


def lowered(
    shapes: Mapping[str, tuple[int, ...]], make: Callable[[Mapping[str, Term]], Term]
) -> tuple[Lowered, int]:
    """Return a program with the id of its result; the ids of leaves are their places."""
    builder = Builder()
    builder.operator = 0
    leaves = {name: builder.leaf(Spec(Kind.FLOAT, shape)) for name, shape in shapes.items()}
    result = make(leaves)
    program = Lowered(
        nodes=tuple(builder.nodes),
        specs=tuple(builder.specs),
        terms={place: term.id for place, term in enumerate((*leaves.values(), result))},
        leaves={term.id: place for place, term in enumerate(leaves.values())},
        opaque={},
        random=frozenset(),
        producers=builder.producers,
    )
    return program, len(leaves)


def drawn(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[int, Array]:
    """Return random elements of leaves by their places."""
    random = np.random.default_rng(seed)
    return {place: random.normal(size=shape) for place, shape in enumerate(shapes.values())}
