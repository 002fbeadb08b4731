"""Layers of so many elements that another process may measure them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judging.measured import LARGE_FROM

from .dumps import DumpBuilder, write_dump

if TYPE_CHECKING:
    from pathlib import Path

LAYERS = 7


def write_large(path: Path, change: float, *, ranks: int = 1) -> Path:
    """Write one step of layers, two of three of them large.

    Args:
        path: Where.
        change: By how much of its size each output is another than with 0.
        ranks: How many.
    """
    return write_dump(path, *(_of_rank(rank, change) for rank in range(ranks)))


def _of_rank(rank: int, change: float) -> DumpBuilder:
    random = np.random.default_rng(rank)
    built = DumpBuilder(rank=rank).module("", "Net")
    arrays = []
    for number in range(LAYERS):
        size = LARGE_FROM + number if number % 3 else 100
        arrays.append(random.standard_normal(size).astype(np.float32) * np.float32(1 + change))
        built.module(f"m{number}", "Layer")
    built.enter("", inputs=[np.ones(3, np.float32)])
    for number, array in enumerate(arrays):
        built.call(f"m{number}", inputs=[np.ones(3, np.float32)], outputs=[array])
    return built.leave(outputs=[arrays[-1]])
