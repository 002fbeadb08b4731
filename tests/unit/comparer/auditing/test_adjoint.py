"""Directions that gradients are held against are never next to orthogonal to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer.auditing.adjoint import outer_signs, product_of
from padiff.program import Outer

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.program.primitives import Array


def constant(_: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.full(shape, 0.01)


def of_rank_one(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.outer(random.normal(size=shape[0]), random.normal(size=shape[1]))


def of_one_row(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    return np.concatenate([random.normal(size=(1, shape[1])), np.zeros((shape[0] - 1, shape[1]))])


def without_pattern(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    return random.normal(size=shape)


@pytest.mark.parametrize("shape", [(64, 96), (96, 64), (8, 200), (1, 96)])
@pytest.mark.parametrize("draw", [constant, of_rank_one, of_one_row, without_pattern])
def test_the_product_with_a_gradient_is_some_times_its_norm(
    draw: Callable[[np.random.Generator, tuple[int, int]], Array], shape: tuple[int, int]
) -> None:
    products = []
    for seed in range(100):
        gradient = draw(np.random.default_rng(1000 + seed), shape)
        direction = outer_signs(gradient, split=1, seed=seed).dense()
        assert np.array_equal(np.abs(direction), np.ones(shape))
        products.append(float((gradient * direction).sum()) / float(np.linalg.norm(gradient)))

    assert min(products) > 0.5
    assert 3 < np.median(products) < 20


@pytest.mark.parametrize("shape", [(2, 8), (128, 8), (1, 4)])
def test_an_error_that_is_the_same_along_a_short_axis_is_never_hidden(
    shape: tuple[int, int],
) -> None:
    """The gradient of a norm sums to zero: as many signs are plus as minus along it."""
    gradient = np.tile([1.0, -1.0, 0.5, -0.5], shape[0] * shape[1] // 4).reshape(shape)

    for seed in range(100):
        direction = outer_signs(gradient, split=1, seed=seed).dense()
        assert np.abs(direction.sum(axis=1 if shape[0] > 4 else None)).min() > 0


def test_half_of_the_signs_of_no_gradient_are_minus() -> None:
    direction = outer_signs(np.zeros((64, 96)), split=1, seed=1).dense()

    assert 0.4 < float(np.mean(direction < 0)) < 0.6


@pytest.mark.parametrize("size", [1.0, 1e-30, 1e36])
@pytest.mark.parametrize("is_signs", [True, False])
def test_sums_over_products_are_those_of_all_elements(size: float, is_signs: bool) -> None:
    random = np.random.default_rng(1)
    gradient = (random.normal(size=(400, 300)) * size).astype(np.float32)
    left, right = random.normal(size=400), random.normal(size=300)
    if is_signs:
        left, right = np.sign(left), np.sign(right)

    found = product_of(gradient, Outer(left, right))

    products = gradient.astype(np.float64) * np.outer(left, right)
    assert found.count == products.size
    assert found.total == pytest.approx(products.sum(), rel=1e-9)
    assert found.squares == pytest.approx(np.square(products).sum(), rel=1e-12)
    assert found.magnitudes == pytest.approx(np.abs(products).sum(), rel=1e-5)
