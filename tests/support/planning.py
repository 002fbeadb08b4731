"""Sides of layers that have weights and run nothing, and what a plan says of two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from padiff.dumpfile import Role
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from padiff.pairing.weights.weight_plan import WeightPlan

Array = npt.NDArray[Any]


def side_of(
    framework: str,
    leaves: dict[str, tuple[str, dict[str, Array]]],
    *,
    buffers: frozenset[str] = frozenset(),
) -> MemorySide:
    """Give a side of modules by path: a class path, and arrays by name."""
    builder = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    for path, (class_path, arrays) in leaves.items():
        builder.module(path, class_path.rpartition(".")[2], class_path=class_path)
        for name, array in arrays.items():
            role = Role.BUFFER if name in buffers else Role.WEIGHT
            builder.tensor(path, name, array, role=role)
    return builder.side()


def shown(plan: WeightPlan, reference: MemorySide, candidate: MemorySide) -> dict[str, str]:
    """Say of each weight of the candidate what it is made of, and by which rule."""
    return {
        names_of(candidate, [pair.candidate]): f"{names_of(reference, pair.reference)}: {pair.rule}"
        for pair in plan.pairs
    }
