"""Two dumps that differ in what one layer, or the code around some, gave; and its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.comparer import CompareSettings, Divergence, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.dumpfile import JSON

Array = npt.NDArray[Any]


def normal(*shape: int, seed: int = 0) -> Array:
    """Draw from a seeded normal distribution."""
    made: Array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return made


IMAGE, TOKENS, SQUARE = normal(2, 4, 9, 9, seed=1), normal(2, 6, 8, seed=2), normal(4, 4, seed=3)


def origin(
    expected: Array,
    found: Array,
    tmp_path: Path,
    *,
    kind: str = "Layer",
    source: Array | None = None,
    states: Mapping[str, tuple[Array, Array]] | None = None,
    attributes: Mapping[str, JSON] | None = None,
) -> Divergence:
    """Compare two dumps of one layer that gave ``expected`` and ``found``."""
    paths = []
    given = normal(3, 3) if source is None else source
    for side, output in enumerate((expected, found)):
        built = DumpBuilder().module("", "Net")
        built.module(
            "m", kind, class_path=f"torch.nn.modules.x.{kind}", attributes=dict(attributes or {})
        )
        for name, arrays in (states or {}).items():
            role = Role.BUFFER if name.startswith("running") else Role.WEIGHT
            built.tensor("m", name, arrays[side], role=role)
        built.enter("", inputs=[given]).call("m", inputs=[given], outputs=[output])
        paths.append(built.leave(outputs=[output]).write(tmp_path / str(side)))
    return compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]


def changed(array: Array, where: tuple[Any, ...]) -> Array:
    """Add one to some elements."""
    copy = array.copy()
    copy[where] += 1
    return copy


def glued(right: Array, wrong: Array, tmp_path: Path, *made: Array) -> Divergence:
    """Compare two dumps of a container whose code made an input of its last call."""
    paths = []
    for side, given in enumerate((right, wrong)):
        built = DumpBuilder().module("", "Net")
        for place in range(len(made)):
            built.module(f"part{place}", "Part")
        built.module("last", "Last").enter("", inputs=[TOKENS])
        for place, array in enumerate(made):
            built.call(f"part{place}", inputs=[TOKENS], outputs=[array])
        result = given * 2
        built.call("last", inputs=[given], outputs=[result]).leave(outputs=[result])
        paths.append(built.write(tmp_path / str(side)))
    return compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]
