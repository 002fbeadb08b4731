"""Deciding a report again says what comparing again says."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from padiff.comparer import CompareSettings, Comparison, Mode, ToleranceRule, Verdict, compare
from padiff.comparer.judging.noise import FloorSide
from padiff.comparer.judging.rejudge import Outcome, Rejudgement, rejudge
from padiff.dumpfile import Floor, RecordFloor, Role, open_dump, write_floor
from tests.support.dumps import DumpBuilder
from tests.support.hostile_names import read as through_json

Array = npt.NDArray[Any]

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine draws arrays slowly; that is no fault of the code under test."""

DYADIC = st.integers(-64, 64).map(lambda number: number / 8)
"""Few bits, so that sums and products are exact and ties are ties."""
SPECIAL = st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -0.0])
ELEMENTS = st.one_of(DYADIC, DYADIC, DYADIC, SPECIAL)
DTYPES = st.sampled_from([np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32])
TOLERANCES = st.sampled_from([None, 0.0, 1 / 64, 1 / 8, 1.0, 4.0, 1e3])
SETTINGS = st.sampled_from(
    [
        CompareSettings(),
        CompareSettings(atol=0.125),
        CompareSettings(rtol=0.5),
        CompareSettings(floor=FloorSide.REFERENCE),
        CompareSettings(mode=Mode.MEAN),
        CompareSettings(rules=(ToleranceRule(pattern="fc", atol=0.25, role=Role.OUTPUT),)),
    ]
)
COUNTING = st.sampled_from(
    [
        CompareSettings(max_mismatched=0.2),
        CompareSettings(mode=Mode.QUANTILE, quantile=0.75),
    ]
)


def written(path: Path, output: Array, gradient: Array) -> Path:
    x = np.ones((3, 4), np.float32)
    built = DumpBuilder().module("", "Net").module("fc", "Linear")
    built.tensor("fc", "weight", np.ones((4, 4), np.float32))
    built.enter("", inputs=[x]).call("fc", inputs=[x], outputs=[output]).leave(outputs=[output])
    built.record("fc", Role.GRAD_OUTPUT, gradient)
    built.record("fc", Role.GRAD_INPUT, gradient * gradient.dtype.type(2), slot="[0]")
    built.record("fc", Role.WEIGHT_GRAD, gradient, slot=".weight")
    return built.write(path)


def with_floor(dump: Path) -> None:
    row = RecordFloor(max_abs=0.25, rms=0.125)
    records = len(open_dump(dump).open().index.records)
    write_floor(dump, Floor(repeats=1, perturb="ulp", records={(0, 0): (row,) * records}))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array, Array, Array]:
    """Output and gradient of both sides; the candidate's often equal in most elements."""
    size = draw(st.integers(1, 12))
    dtype = draw(DTYPES)
    found = []
    for kind in (dtype, np.float32):
        elements = DYADIC if kind is np.int32 else ELEMENTS
        reference = draw(hnp.arrays(np.float64, size, elements=elements)).astype(kind)
        other = draw(hnp.arrays(np.float64, size, elements=elements)).astype(kind)
        keeps = draw(hnp.arrays(np.bool_, size))
        found += [reference, np.where(keeps, reference, other).astype(kind)]
    return found[0], found[2], found[1], found[3]


def both(
    arrays: tuple[Array, Array, Array, Array],
    before: CompareSettings,
    atol: float | None,
    rtol: float | None,
) -> tuple[Rejudgement, Comparison]:
    """Judge the report of one comparison again, and compare again."""
    after = replace(
        before,
        atol=before.atol if atol is None else atol,
        rtol=before.rtol if rtol is None else rtol,
    )
    with tempfile.TemporaryDirectory() as folder:
        known = written(Path(folder) / "known", *arrays[:2])
        found = written(Path(folder) / "found", *arrays[2:])
        with_floor(known)
        return rejudge(through_json(compare(known, found, before)), atol=atol, rtol=rtol), compare(
            known, found, after
        )


@settings(BUSY, max_examples=20)
@given(pairs(), SETTINGS, TOLERANCES, TOLERANCES)
def test_judging_again_is_comparing_again(
    arrays: tuple[Array, Array, Array, Array],
    before: CompareSettings,
    atol: float | None,
    rtol: float | None,
) -> None:
    again, wanted = both(arrays, before, atol, rtol)

    measured = [pair for pair in wanted.steps[0].pairs if pair.metrics is not None]
    assert [pair.agrees for pair in again.pairs] == [
        judged.verdict is Verdict.MATCH for judged in measured
    ]
    assert not again.undecided
    assert bool(again.reasons) is (wanted.verdict is Verdict.DIVERGED)


@settings(BUSY, max_examples=20)
@given(pairs(), COUNTING, TOLERANCES, TOLERANCES)
def test_what_is_decided_by_counts_is_right_or_said_to_be_open(
    arrays: tuple[Array, Array, Array, Array],
    before: CompareSettings,
    atol: float | None,
    rtol: float | None,
) -> None:
    again, wanted = both(arrays, before, atol, rtol)

    measured = [pair for pair in wanted.steps[0].pairs if pair.metrics is not None]
    for pair, judged in zip(again.pairs, measured, strict=True):
        if pair.outcome is not Outcome.UNDECIDED:
            assert pair.agrees is (judged.verdict is not Verdict.DIVERGED)


@pytest.mark.parametrize(
    ("before", "atol", "expected"),
    [(0.25, 0.5, Outcome.MATCH), (0.25, 0.125, Outcome.UNDECIDED), (0.05, 0.01, Outcome.DIVERGED)],
)
def test_a_count_decides_only_towards_its_own_side(
    before: float, atol: float, expected: Outcome
) -> None:
    reference = np.zeros(8, np.float32)
    candidate = np.array([0, 0, 0, 0, 0.1, 0.2, 0.2, 0.3], np.float32)
    counting = CompareSettings(atol=before, rtol=0.0, max_mismatched=0.25)
    arrays = (reference, reference, candidate, reference)

    again, _ = both(arrays, counting, atol, None)

    assert {pair.outcome for pair in again.pairs} == {expected}
