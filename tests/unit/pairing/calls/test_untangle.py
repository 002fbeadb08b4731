"""Siblings that are fed one tensor are paired by what tells them apart, not by their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing import pair
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.dumps import MemorySide


def siblings(names: Sequence[str], *, seed: int) -> MemorySide:
    """Linears of one shape, all on the same input, with random weights."""
    random = np.random.default_rng(seed)
    built = DumpBuilder().module("", "Net")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    weights = [random.standard_normal((4, 4)).astype(np.float32) for _ in names]
    for name, weight in zip(names, weights, strict=True):
        built.module(name, "Linear").tensor(name, "weight", weight)
    built.enter("", inputs=[x])
    for name, weight in zip(names, weights, strict=True):
        built.call(name, inputs=[x], outputs=[x @ weight.T])
    return built.leave(outputs=[x]).side()


def names_of(reference: MemorySide, candidate: MemorySide) -> dict[str, str]:
    return {
        reference.index.modules[one.reference].path: candidate.index.modules[one.candidate].path
        for one in pair(reference, candidate).modules
        if one.reference
    }


def test_projections_in_another_order_are_told_by_their_names() -> None:
    reference = siblings(["attn.q", "attn.k", "attn.v"], seed=1)
    candidate = siblings(["mix.wv", "mix.wk", "mix.wq"], seed=2)

    found = names_of(reference, candidate)

    assert found == {"attn.q": "mix.wq", "attn.k": "mix.wk", "attn.v": "mix.wv"}


def test_siblings_that_nothing_tells_apart_keep_their_order() -> None:
    found = names_of(siblings(["a", "b"], seed=1), siblings(["x", "y"], seed=2))

    assert found == {"a": "x", "b": "y"}
