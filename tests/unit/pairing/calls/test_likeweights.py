"""Calls that are told by what they give."""

from __future__ import annotations

import numpy as np

from padiff.pairing.calls.likeweights import told_by_next
from padiff.pairing.tensors.sketch import Sketches

ODD = 3
"""The only call of the candidate that gives what the reference's first one gives."""


def sketches(numbers: np.ndarray) -> Sketches:
    return Sketches(size=np.full(len(numbers), 64, np.int64), numbers=numbers)


def told(given: np.ndarray, other: np.ndarray) -> list[tuple[int, int]]:
    """Pair calls of which only the last one's weights are known on both sides."""
    weights = np.full(len(given), -1, np.int64)
    weights[-1] = 0
    unknown = sketches(np.full_like(given, np.nan))
    return sorted(
        told_by_next((weights, weights), (sketches(given), sketches(other)), [(unknown, unknown)])
    )


def test_folded_layers_are_told_by_what_they_give() -> None:
    numbers = np.random.default_rng(0).uniform(1, 9, (7, 3)) * [-1, 1, 8]

    assert told(numbers, numbers * 1.0001) == [(at, at) for at in range(6)]


def test_one_call_that_looks_alike_among_others_is_chance() -> None:
    random = np.random.default_rng(0)
    given, other = (random.uniform(1, 9, (7, 3)) * [-1, 1, 8] for _ in range(2))
    other[ODD] = given[0] * 1.0001

    assert told(given, other) == []
