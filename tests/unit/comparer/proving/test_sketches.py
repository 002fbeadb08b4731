"""Sketches pair values that are the same up to the order of axes, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.comparer.proving.alignment import Partners, sketch_of

X = np.random.default_rng(1).standard_normal((3, 4, 5))


def pairs(one: np.ndarray, two: np.ndarray) -> bool:
    """Return whether the second array finds the first."""
    partners = Partners()
    partners.add(one.size, sketch_of(one), 7)
    partners.add(one.size, sketch_of(one * 2), 8)
    partners.seal()
    return partners.find(two.size, sketch_of(two)) == [7]


@pytest.mark.parametrize(
    "other",
    [X, X * (1 + 1e-12), X.reshape(12, 5), X.transpose(2, 0, 1), X[:, None]],
    ids=["equal", "rounded", "reshaped", "transposed", "another axis"],
)
def test_the_same_values_are_partners(other: np.ndarray) -> None:
    assert pairs(X, other)


@pytest.mark.parametrize(
    "other",
    [
        X[::-1],
        np.roll(X, 1, 1),
        X[:, [1, 0, 2, 3]],
        X * (1 + 1e-7),
        -X,
        X + 1e-7,
        X.transpose(2, 0, 1).reshape(3, 4, 5),
    ],
    ids=["flipped", "rolled", "two exchanged", "scaled", "negated", "moved", "read otherwise"],
)
def test_other_values_are_none(other: np.ndarray) -> None:
    assert not pairs(X, other)


def test_phases_are_told_apart() -> None:
    one = X[..., :4] + 1j * X[..., 1:]

    assert pairs(one, one.transpose(2, 0, 1))
    assert not pairs(one, one.conj())
    assert not pairs(one, one * np.exp(0.1j))
    assert not pairs(one, np.abs(one) + 0j)


@pytest.mark.parametrize("least", [-1e9, float(np.finfo(np.float32).min), -np.inf])
def test_masked_scores_are_told_apart(least: float) -> None:
    mask = np.where(np.tri(5) > 0, 0.0, least)
    scores = X @ X.transpose(0, 2, 1) @ X / 1000

    masked = [one[:, :, None] + mask for one in (scores, scores * (1 + 1e-12), scores[:, ::-1])]
    assert pairs(masked[0], masked[1])
    assert not pairs(masked[0], masked[2])


def test_orders_are_told_where_a_norm_makes_all_sums_zero() -> None:
    normal = (X - X.mean(-1, keepdims=True)) / X.std(-1, keepdims=True)

    assert pairs(normal, normal.transpose(1, 0, 2))
    assert not pairs(normal, normal[:, ::-1])


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 3)), np.empty((0, 3)), np.array(2.0), np.array([np.nan, np.inf, 1.0]),
     np.array([True, False]), np.array([1 + 2j, 3j])],
    ids=["zeros", "empty", "no axes", "no numbers", "bool", "complex"],
)  # fmt: skip
def test_every_value_has_a_sketch(array: np.ndarray) -> None:
    found = sketch_of(array)

    assert np.isfinite([found.size, found.order, *found.moments, *found.axes]).all()
