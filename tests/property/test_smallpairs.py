"""Small pairs measured together are as each measured alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from padiff.comparer import Metrics, Tolerance, measure
from padiff.comparer.judging.blocks import Room
from padiff.comparer.judging.hull import passes
from padiff.comparer.judging.judge import is_small
from padiff.comparer.judging.smallpairs import SMALL, count_small

Array = npt.NDArray[Any]

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine draws arrays slowly; that is no fault of the code under test."""

NUMBERS = st.one_of(
    st.integers(-32, 32).map(lambda number: number / 8),
    st.floats(-1e6, 1e6, width=32),
    st.floats(-(2.0**-20), 2.0**-20, width=32),
)
SPECIAL = st.sampled_from([float("nan"), float("inf"), 0.0])
DTYPES = st.sampled_from([np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
TOLERANCES = st.builds(
    lambda atol, rtol: Tolerance(atol=atol, rtol=rtol),
    st.sampled_from([0.0, 1e-5, 0.5]),
    st.sampled_from([0.0, 1e-6, 0.25, 1.0]),
)
SUMMED = {"mean_abs", "relative_l2", "cosine", "reference_mean_abs"}
"""Added up in another order, so that they may differ in the last bits."""


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=6))
    form = draw(st.sampled_from(["scaled", "moved", "cut", "other", "special"]))
    elements = st.one_of(NUMBERS, SPECIAL) if form == "special" else NUMBERS
    reference = np.asarray(draw(hnp.arrays(np.float64, shape, elements=elements)))
    other = np.asarray(draw(hnp.arrays(np.float64, shape, elements=elements)))
    dtypes = draw(DTYPES), draw(DTYPES)
    with np.errstate(all="ignore"):
        reference = reference.astype(dtypes[0])
        wide = reference.astype(np.float64)
        third = np.arange(reference.size).reshape(shape) % 3
        candidate = {
            "scaled": wide * 1.25,
            "moved": wide + 0.125,
            "cut": np.where(third, wide, 0),
        }.get(form, other)
        return reference, np.asarray(candidate).astype(dtypes[1])


@settings(BUSY, max_examples=200)
@given(st.lists(st.tuples(pairs(), TOLERANCES), min_size=1, max_size=8), TOLERANCES)
def test_a_batch_says_what_each_pair_alone_says(
    batch: list[tuple[tuple[Array, Array], Tolerance]], other: Tolerance
) -> None:
    by_size: dict[int, list[tuple[tuple[Array, Array], Tolerance]]] = {}
    for pair, tolerance in batch:
        by_size.setdefault(pair[0].size, []).append((pair, tolerance))
    room = Room()
    found: list[tuple[tuple[Array, Array], Tolerance, Metrics | None]] = []
    for same in by_size.values():
        arrays, tolerances = [pair for pair, _ in same], [tolerance for _, tolerance in same]
        rows = [
            np.stack([side.reshape(-1).astype(np.float64) for side in sides])
            for sides in zip(*arrays, strict=True)
        ]
        limits = np.array([(one.atol, one.rtol) for one in tolerances]).T
        counted = count_small(*rows, *limits, mean=True, room=room)
        shapes = [had.shape for _, had in arrays]
        measured = counted.metrics(np.arange(len(shapes)), shapes, mean=True)
        has_bad = counted.nonfinite.tolist()
        both = [None if bad else one for bad, one in zip(has_bad, measured, strict=True)]
        found += zip(arrays, tolerances, both, strict=True)

    for pair, tolerance, together in found:
        alone = measure(pair[0], pair[1], tolerance, mean=True)
        is_finite = all(np.isfinite(side.astype(np.float64)).all() for side in pair)
        assert (together is not None) is is_finite
        if together is not None:
            assert_same(together, alone)
            assert passes(together.hull, other) is passes(alone.hull, other)


def lies_within(vertex: tuple[float, float], hull: tuple[tuple[float, float], ...]) -> bool:
    """Tell whether a point is a vertex of a hull, or above a chord by no more than it is rounded.

    Differences are rounded before they are points, so that three on one line are not exactly so.
    """
    if vertex in hull:
        return True
    heights = [
        one[1] + (two[1] - one[1]) * (vertex[0] - one[0]) / (two[0] - one[0])
        for one, two in itertools.pairwise(hull)
        if one[0] <= vertex[0] <= two[0]
    ]
    return any(vertex[1] <= height + np.spacing(vertex[1]) for height in heights)


def assert_same(found: Metrics, wanted: Metrics) -> None:
    for field in fields(Metrics):
        one, other = getattr(found, field.name), getattr(wanted, field.name)
        if field.name == "hull":
            assert all(lies_within(vertex, one) for vertex in other)
        elif field.name in SUMMED and other is not None and math.isfinite(other):
            assert one == pytest.approx(other, rel=1e-9, abs=1e-12), field.name
        else:
            assert one == other, field.name


def test_large_empty_and_other_pairs_are_not_for_a_batch() -> None:
    assert is_small("float32", 3)
    assert not is_small("float32", SMALL + 1)
    assert not is_small("float32", 0)
    assert not is_small("int32", 3)
