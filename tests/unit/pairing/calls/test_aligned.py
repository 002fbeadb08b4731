"""Layers that order left alone: what feeds them must not say that they are others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.pairing import pair
from tests.support.dumps import DumpBuilder, MemorySide
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTH = 8
NORMS = {name: normal(WIDTH, seed=seed) for name, seed in (("n1", 81), ("n2", 82), ("n3", 83))}


def block(layers: Mapping[str, tuple[str, int]]) -> MemorySide:
    """Write three norms one after the other, and layers that take what one of them gives.

    Args:
        layers: For each the norm that feeds it, and how many features it gives.
    """
    built = DumpBuilder(framework="torch").module("", "Net").module("block", "Block")
    for name, scale in NORMS.items():
        built.module(f"block.{name}", "LayerNorm", class_path="torch.nn.LayerNorm")
        built.tensor(f"block.{name}", "weight", scale)
    for place, (name, (_, size)) in enumerate(layers.items()):
        built.module(f"block.{name}", "Linear", class_path="torch.nn.Linear")
        built.tensor(f"block.{name}", "weight", normal(size, WIDTH, seed=90 + place + size))
    x = normal(3, WIDTH, seed=84)
    built.enter("", inputs=[x]).enter("block", inputs=[x])
    for norm, scale in NORMS.items():
        given, x = x, x * scale
        built.call(f"block.{norm}", inputs=[given], outputs=[x])
        for place, (name, (feeder, size)) in enumerate(layers.items()):
            if feeder == norm:
                made = np.matmul(x, normal(size, WIDTH, seed=90 + place + size).T)
                built.call(f"block.{name}", inputs=[x], outputs=[made])
    return built.leave(outputs=[x]).leave(outputs=[x]).side()


@pytest.mark.parametrize("turned", [False, True])
def test_layers_fed_by_others_are_no_partners_though_alone_of_their_size(*, turned: bool) -> None:
    split = block({"q": ("n1", 4), "k": ("n1", 6), "gate": ("n2", 16), "up": ("n2", 12)})
    fused = block({"gating": ("n2", 28), "qkv": ("n1", 16)})
    one, two = (fused, split) if turned else (split, fused)

    found = pair(one, two)

    paths = {
        (one.index.modules[p.reference].path, two.index.modules[p.candidate].path)
        for p in found.modules
    }
    assert {(f"block.{name}", f"block.{name}") for name in NORMS} <= paths
    assert not {("block.gate", "block.qkv"), ("block.qkv", "block.gate")} & paths
