"""Special functions against the standard library and known values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.program.primitives import VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _as_when_executed() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


PLACES = np.concatenate([np.linspace(-6, 6, 2001), [0.0, 0.46875, 4.0, 26.0, -27.0, 1e-300]])


@pytest.mark.parametrize(("name", "exact"), [("erf", math.erf), ("erfc", math.erfc)])
def test_error_functions_are_exact(name: str, exact: object) -> None:
    expected = np.array([exact(x) for x in PLACES])  # type: ignore[operator]

    result = VOCABULARY[name].run(PLACES)

    np.testing.assert_allclose(result, expected, rtol=2e-15, atol=0)


def test_erfinv_turns_erf_around() -> None:
    x = np.linspace(-5, 5, 101)

    result = VOCABULARY["erfinv"].run(VOCABULARY["erf"].run(x))

    # The slope of erfinv at ±5 makes 1e-16 of its argument 1e-5 of the result.
    np.testing.assert_allclose(result[35:66], x[35:66], rtol=1e-13, atol=1e-15)


def test_lgamma_is_that_of_the_standard_library() -> None:
    x = np.linspace(0.05, 60, 997)

    result = VOCABULARY["lgamma"].run(x)

    expected = [math.lgamma(place) for place in x]
    np.testing.assert_allclose(result, expected, rtol=1e-14, atol=2e-14)


def test_digamma_and_trigamma_have_their_known_values() -> None:
    euler = 0.57721566490153286

    assert VOCABULARY["digamma"].run(np.array([1.0]))[0] == pytest.approx(-euler, rel=1e-14)
    trigamma = VOCABULARY["polygamma"].run(np.array([1.0]), order=1)[0]
    assert trigamma == pytest.approx(math.pi**2 / 6, rel=1e-14)


def test_infinities_and_nan_pass() -> None:
    x = np.array([np.inf, -np.inf, np.nan])

    np.testing.assert_array_equal(VOCABULARY["erf"].run(x), [1, -1, np.nan])
    np.testing.assert_array_equal(VOCABULARY["erfc"].run(x), [0, 2, np.nan])


def test_erf_keeps_signs_and_ends() -> None:
    places = np.array([-0.0, np.inf, -np.inf, np.nan, 5.9999, -7.0, 5e-324])

    result = VOCABULARY["erf"].run(places)

    assert np.array_equal(result, [-0.0, 1, -1, np.nan, 1, -1, 5e-324], equal_nan=True)
    assert np.signbit(result[0])


def test_erf_is_exact_between_the_points_of_its_table() -> None:
    places = np.random.default_rng(1).normal(size=40_000)

    result = VOCABULARY["erf"].run(places.reshape(4, -1)).reshape(-1)

    expected = np.array([math.erf(place) for place in places])
    np.testing.assert_allclose(result, expected, rtol=1e-15, atol=0)
