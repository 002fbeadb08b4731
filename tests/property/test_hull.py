"""The hull decides at any tolerance as the elements themselves do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from padiff.comparer import Tolerance, measure
from padiff.comparer.judging.hull import Hull, passes

Array = npt.NDArray[Any]

DYADIC = st.integers(-64, 64).map(lambda number: number / 8)
"""Few bits, so that sums and products are exact and ties are ties."""
SPECIAL = st.one_of(DYADIC, DYADIC, st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0]))
PLAIN = st.floats(-1e6, 1e6, width=32)


def arrays(elements: st.SearchStrategy[float]) -> st.SearchStrategy[tuple[Array, Array]]:
    return st.integers(1, 60).flatmap(
        lambda size: st.tuples(
            hnp.arrays(np.float64, size, elements=elements),
            hnp.arrays(np.float64, size, elements=elements),
        )
    )


def directly(reference: Array, candidate: Array, tolerance: Tolerance) -> bool:
    allowed = tolerance.atol + tolerance.rtol * np.abs(reference)
    return bool((np.abs(candidate - reference) <= allowed).all())


@given(arrays(DYADIC), DYADIC.map(abs), DYADIC.map(abs))
def test_ties_and_zeros_are_decided_exactly(
    pair: tuple[Array, Array], atol: float, rtol: float
) -> None:
    tolerance = Tolerance(atol=atol, rtol=rtol)

    hull = measure(*pair, Tolerance(atol=0.0, rtol=0.0)).hull

    assert passes(hull, tolerance) is directly(*pair, tolerance)


@given(arrays(SPECIAL), st.integers(0, 59), DYADIC.map(abs), DYADIC.map(abs))
def test_nan_and_inf_among_the_elements_are_decided_as_by_hand(
    pair: tuple[Array, Array], equal: int, atol: float, rtol: float
) -> None:
    """One by one: nan agrees with nan, inf with the same inf, a number with what is near."""
    reference, candidate = pair
    candidate[:equal] = reference[:equal]
    tolerance = Tolerance(atol=atol, rtol=rtol)

    found = measure(reference, candidate, tolerance)

    agreeing = [
        (math.isnan(one) and math.isnan(other))
        or one == other
        or (
            math.isfinite(one)
            and math.isfinite(other)
            and abs(other - one) <= atol + rtol * abs(one)
        )
        for one, other in zip(reference.tolist(), candidate.tolist(), strict=True)
    ]
    decided = passes(found.hull, tolerance) and not found.nonfinite_mismatched
    assert decided is all(agreeing)
    assert found.mismatched == agreeing.count(False)


@given(arrays(PLAIN), st.floats(0, 1e3), st.floats(0, 10))
def test_random_data_are_decided_alike(pair: tuple[Array, Array], atol: float, rtol: float) -> None:
    tolerance = Tolerance(atol=atol, rtol=rtol)
    allowed = atol + rtol * np.abs(pair[0])
    distance = np.abs(pair[1] - pair[0])
    assume(bool((np.abs(distance - allowed) > 4e-15 * (distance + allowed)).all()))

    hull = measure(*pair, Tolerance(atol=1e-5, rtol=1e-6)).hull

    assert passes(hull, tolerance) is directly(*pair, tolerance)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from(["relative", "absolute", "mixed", "one", "zeros"]),
    st.floats(-9, 0),
    st.floats(-9, 0),
)
def test_many_blocks_are_decided_alike(seed: int, form: str, atol: float, rtol: float) -> None:
    random = np.random.default_rng(seed)
    reference = random.standard_normal(150_000).astype(np.float32)
    noise = random.standard_normal(reference.size).astype(np.float32) * np.float32(1e-4)
    candidate = {
        "relative": reference * (1 + noise),
        "absolute": reference + noise,
        "mixed": reference * (1 + noise) + np.where(random.random(reference.size) < 1e-3, 1, 0),
        "one": np.where(np.arange(reference.size) == seed * 149, reference + 1, reference),
        "zeros": np.where(random.random(reference.size) < 0.5, 0, reference + noise),
    }[form].astype(np.float32)
    tolerance = Tolerance(atol=10**atol, rtol=10**rtol)

    hull = measure(reference, candidate, Tolerance(atol=1e-5, rtol=1.3e-6)).hull

    wide = reference.astype(np.float64), candidate.astype(np.float64)
    assert passes(hull, tolerance) is directly(*wide, tolerance)
    for place in range(40):  # tolerances that are just enough, and just not
        rtol_tried = 10.0 ** (-place / 6)
        excess = np.abs(wide[1] - wide[0]) - rtol_tried * np.abs(wide[0])
        needed = max(float(excess.max()), 0.0)
        for atol_tried in (needed * (1 + 1e-9) + 1e-300, needed * (1 - 1e-9)):
            tried = Tolerance(atol=atol_tried, rtol=rtol_tried)
            assert passes(hull, tried) is directly(*wide, tried)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_are_counted_apart(special: float) -> None:
    reference = np.array([1.0, special, 2.0])

    same = measure(reference, np.array([1.5, special, 2.0]), Tolerance(atol=1.0, rtol=0.0))
    other = measure(reference, np.array([1.5, 3.0, 2.0]), Tolerance(atol=1.0, rtol=0.0))

    assert same.hull == other.hull == ((1.0, 0.5),)
    assert (same.nonfinite_mismatched, other.nonfinite_mismatched) == (0, 1)


@given(
    st.lists(st.tuples(DYADIC.map(abs), DYADIC.map(abs)), min_size=1, max_size=200),
    st.lists(st.integers(1, 40), max_size=12),
)
def test_hull_is_the_same_however_its_points_arrive(
    points: list[tuple[float, float]], portions: list[int]
) -> None:
    whole, parts = Hull(), Hull()

    whole.add(*np.array(points).T)
    for number, size in enumerate([*portions, len(points)]):
        some, points = points[:size], points[size:]
        if some and number % 2:
            parts.add(*np.array(some).T)
        else:
            parts.add_few(some)

    assert parts.points == whole.points


@given(
    st.lists(st.tuples(DYADIC.map(abs), DYADIC.map(abs)), min_size=1, max_size=60),
    st.lists(DYADIC.map(abs), min_size=1, max_size=20),
)
def test_no_screen_is_above_the_hull(
    points: list[tuple[float, float]], places: list[float]
) -> None:
    hull = Hull()
    hull.add(*np.array(points).T)

    x = np.array(places)
    level, slope, height = hull.screen()

    assert (height > 0) is any(d > 0 for _, d in points)
    assert (np.minimum(level + slope * x, height) <= hull.height(x) * (1 + 1e-12)).all()


BLOCKS = np.random.default_rng(11).standard_normal((2, 600_011)).astype(np.float32)
RISING = np.linspace(0, 1, BLOCKS.shape[1], dtype=np.float32)
SHAPED = {
    "growing": (BLOCKS[0] * RISING, BLOCKS[0] * RISING * (1 + np.float32(1e-6) * BLOCKS[1])),
    "shrinking": (BLOCKS[0] / (RISING + 0.01), BLOCKS[0] / (RISING + 0.01) + BLOCKS[1]),
    "of all sizes": (np.exp(5 * BLOCKS[0]), np.exp(5 * BLOCKS[0] + np.float32(1e-6) * BLOCKS[1])),
    "one unit in the last place": (BLOCKS[0], np.nextafter(BLOCKS[0], np.float32(9))),
    "half zeros": (np.maximum(BLOCKS[0], 0), np.maximum(BLOCKS[0] + np.float32(1e-6), 0)),
    "later": (BLOCKS[0], BLOCKS[0] + np.where(RISING > 0.5, np.float32(1e-6), 0)),
    "of sixteen sizes": (
        np.round(BLOCKS[0] * 4) / 4,
        np.round(BLOCKS[0] * 4) / 4 + RISING.round(1),
    ),
}
"""Sides of three blocks each, in which the hull grows late, often, at once or not at all."""


@pytest.mark.parametrize("form", SHAPED)
def test_several_blocks_are_measured_as_whole_float64_arrays(form: str) -> None:
    reference, candidate = (side.astype(np.float32) for side in SHAPED[form])
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    distance, size = np.abs(c - r), np.abs(r)
    with np.errstate(all="ignore"):
        ratio = np.where(distance == 0, 0, distance / size)

    found = measure(reference, candidate, Tolerance(atol=1e-6, rtol=1e-6))

    assert (found.max_abs, found.max_abs_index) == (distance.max(), (int(distance.argmax()),))
    assert (found.max_rel, found.max_rel_index) == (ratio.max(), (int(ratio.argmax()),))
    assert found.mismatched == np.count_nonzero(distance > 1e-6 + 1e-6 * size)
    whole = Hull()
    whole.add(size, distance)
    assert found.hull == whole.points


LARGE = np.random.default_rng(7).standard_normal((2, 300_001)).astype(np.float32)
FORMS = {
    "relative": LARGE[0] * (1 + np.float32(1e-3) * LARGE[1]),
    "noise": LARGE[0] + np.float32(1e-3) * LARGE[1],
    "factor": LARGE[0] * np.float32(1.001),
    "constant": LARGE[0] + np.float32(0.01),
}


@pytest.mark.parametrize("rank", [0, 1, 5, 70_000])
@pytest.mark.parametrize("atol", [0.0, 1e-4])
@pytest.mark.parametrize("form", FORMS)
def test_large_pairs_are_counted_at_the_very_edge(form: str, atol: float, rank: int) -> None:
    """The tolerance is that of one element: those above it are counted, and no other."""
    reference, candidate = LARGE[0], FORMS[form]
    wide = reference.astype(np.float64)
    distance = np.abs(candidate.astype(np.float64) - wide)
    needed = np.sort((distance - atol) / np.abs(wide))
    tolerance = Tolerance(atol=atol, rtol=max(float(needed[-1 - rank]), 0.0))

    found = measure(reference, candidate, tolerance)

    mismatched = ~(distance <= tolerance.atol + tolerance.rtol * np.abs(wide))
    assert found.mismatched == np.count_nonzero(mismatched)
    assert (found.max_abs, found.max_abs_index) == (distance.max(), (int(distance.argmax()),))
