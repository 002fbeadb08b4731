"""Metrics agree with float64 formulas over the whole arrays, whatever the dtype and layout."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from padiff.comparer import Metrics, Tolerance, measure

Array = npt.NDArray[Any]

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine draws arrays slowly; that is no fault of the code under test."""

FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
TOLERANCES = st.builds(
    lambda atol, rtol: Tolerance(atol=atol, rtol=rtol),
    st.sampled_from([0.0, 1e-8, 1e-5, 0.5, 3.0]),
    st.sampled_from([0.0, 1e-6, 0.01, 1.0]),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    shape = draw(SHAPES)
    numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)
    drawn = [np.asarray(draw(hnp.arrays(np.float32, shape, elements=numbers))) for _ in range(2)]
    dtypes = [draw(st.sampled_from(FLOATS)) for _ in range(2)]
    with np.errstate(all="ignore"):
        reference, candidate = (
            array.astype(dtype) for array, dtype in zip(drawn, dtypes, strict=True)
        )
    return reference, candidate


def expected(reference: Array, candidate: Array, tolerance: Tolerance) -> dict[str, Any]:
    """Judge element by element in Python's own floats."""
    wide = [array.astype(np.float64).reshape(-1).tolist() for array in (reference, candidate)]
    differences, relative, mismatched, lost = [], [], 0, 0
    for r, c in zip(*wide, strict=True):
        if math.isfinite(r) and math.isfinite(c):
            distance = abs(c - r)
            differences.append(distance)
            relative.append(0.0 if distance == 0 else distance / abs(r) if r else math.inf)
            mismatched += not distance <= tolerance.atol + tolerance.rtol * abs(r)
        elif not (c == r or (math.isnan(c) and math.isnan(r))):
            lost += 1
    return {
        "mismatched": mismatched + lost,
        "nonfinite_mismatched": lost,
        "max_abs": max(differences, default=None),
        "max_rel": max(relative, default=None),
        "mean_abs": math.fsum(differences) / len(differences) if differences else None,
    }


def passes(reference: Array, candidate: Array, tolerance: Tolerance) -> bool:
    return measure(reference, candidate, tolerance).mismatched == 0


@BUSY
@given(pairs(), TOLERANCES)
def test_small_arrays_agree_with_python_floats(
    arrays: tuple[Array, Array], tolerance: Tolerance
) -> None:
    with np.errstate(all="ignore"):
        wanted = expected(*arrays, tolerance)

    found = measure(*arrays, tolerance)

    assert_same(found, wanted, 1e-12)


@BUSY
@given(pairs(), TOLERANCES)
def test_needed_tolerances_pass(arrays: tuple[Array, Array], tolerance: Tolerance) -> None:
    found = measure(*arrays, tolerance)

    if found.needed_atol is not None and math.isfinite(found.needed_atol):
        assert passes(*arrays, Tolerance(atol=found.needed_atol, rtol=tolerance.rtol))
    if found.needed_rtol is not None:
        assert passes(*arrays, Tolerance(atol=tolerance.atol, rtol=found.needed_rtol))


@BUSY
@given(pairs())
def test_an_array_agrees_with_itself(arrays: tuple[Array, Array]) -> None:
    found = measure(arrays[0], arrays[0], Tolerance(atol=0.0, rtol=0.0))

    assert (found.mismatched, found.needed_atol, found.needed_rtol) == (0, 0.0, 0.0)


def large(seed: int, scale: float, noise: float, zeros: float) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    reference = (random.standard_normal((211, 997)) * scale).astype(np.float32)
    reference[random.random(reference.shape) < zeros] = 0
    error = random.standard_normal(reference.shape) * noise * scale
    kept = np.where((reference == 0) & (random.random(reference.shape) < 0.999), 0, error)
    return reference, (reference + kept).astype(np.float32)


def whole(reference: Array, candidate: Array, tolerance: Tolerance) -> dict[str, Any]:
    """Evaluate the definitions with numpy on whole float64 arrays."""
    r, c = reference.astype(np.float64), candidate.astype(np.float64)
    distance, size = np.abs(c - r), np.abs(r)
    with np.errstate(all="ignore"):
        relative = np.where(distance == 0, 0, distance / size)
        above = distance > tolerance.atol
        needed = np.where(above, (distance - tolerance.atol) / size, 0).max()
    return {
        "mismatched": int((distance > tolerance.atol + tolerance.rtol * size).sum()),
        "max_abs": distance.max(),
        "max_rel": relative.max(),
        "needed_atol": max(0.0, (distance - tolerance.rtol * size).max()),
        "needed_rtol": None if math.isinf(needed) else needed,
    }


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 99),
    scale=st.sampled_from([1e-30, 1e-12, 1.0, 1e4, 1e25]),
    noise=st.sampled_from([0.0, 1e-7, 1e-5, 1e-2]),
    zeros=st.sampled_from([0.0, 0.5]),
    share=st.sampled_from([0.0, 1e-3, 1.0]),
)
def test_large_arrays_agree_with_whole_float64_arrays(
    seed: int, scale: float, noise: float, zeros: float, share: float
) -> None:
    arrays = large(seed, scale, noise, zeros)
    tolerance = Tolerance(atol=scale * noise * 4 * share, rtol=1.3e-6)

    found = measure(*arrays, tolerance)

    wanted = whole(*arrays, tolerance)
    assert_same(found, wanted, 1e-9)
    r, c = (array.astype(np.float64) for array in arrays)
    assert_close(found, "relative_l2", float(np.linalg.norm(c - r) / np.linalg.norm(r)))
    assert_close(found, "mean_abs", np.abs(c - r).mean())
    assert_close(found, "cosine", (c * r).sum() / np.linalg.norm(c) / np.linalg.norm(r))
    assert found.max_abs_index is not None
    assert np.abs(c - r)[found.max_abs_index] == found.max_abs


FORMS = {
    "constant offset": lambda r: r + np.float32(0.1),
    "constant factor": lambda r: r * np.float32(1.25),
    "all zero": lambda r: r * 0,
    "opposite": lambda r: -r,
    "one element": lambda r: np.where(np.arange(r.size) == r.size // 3, r + 1, r),
    "equal": lambda r: r.copy(),
}
"""Candidates in which many elements tie for every maximum."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zeros", [0.0, 0.5])
@pytest.mark.parametrize("tolerance", [Tolerance(atol=1e-5, rtol=1e-6), Tolerance(atol=0, rtol=0)])
def test_ties_are_decided_as_by_whole_float64_arrays(
    form: str, zeros: float, tolerance: Tolerance
) -> None:
    reference = large(3, 1.0, 0.0, zeros)[0].reshape(-1)
    candidate = FORMS[form](reference).astype(np.float32)

    found = measure(reference, candidate, tolerance)

    assert_same(found, whole(reference, candidate, tolerance), 1e-12)
    distance = np.abs(candidate.astype(np.float64) - reference)
    assert found.max_abs_index == (int(distance.argmax()),)


def assert_same(found: Metrics, wanted: dict[str, Any], precision: float) -> None:
    for name, number in wanted.items():
        measured = getattr(found, name)
        assert measured == (
            None if number is None else pytest.approx(number, rel=precision, abs=0)
        ), name


def assert_close(found: Metrics, name: str, wanted: float) -> None:
    """Sums are taken in float32 within a block, so that they carry its rounding."""
    assert getattr(found, name) == pytest.approx(wanted, rel=1e-5)


@given(
    hnp.arrays(st.sampled_from([np.int8, np.uint8, np.int64, np.uint64, np.bool_]), (7,)),
    st.data(),
)
def test_integers_are_compared_exactly(reference: Array, data: st.DataObject) -> None:
    candidate = data.draw(hnp.arrays(reference.dtype, (7,)))

    found = measure(reference, candidate, Tolerance(atol=0.0, rtol=0.0))

    wanted = [abs(int(c) - int(r)) for r, c in zip(reference, candidate, strict=True)]
    assert found.mismatched == sum(map(bool, wanted))
    assert found.max_abs == pytest.approx(max(wanted), rel=1e-15)


@given(hnp.arrays(np.complex64, (3, 4), elements=st.complex_numbers(max_magnitude=1e6, width=64)))
def test_complex_numbers_are_compared_by_the_magnitude_of_the_difference(reference: Array) -> None:
    candidate = reference + np.complex64(3 + 4j)

    found = measure(reference, candidate, Tolerance(atol=0.0, rtol=0.0))

    wide = candidate.astype(np.complex128) - reference.astype(np.complex128)
    assert found.max_abs == pytest.approx(np.abs(wide).max())
