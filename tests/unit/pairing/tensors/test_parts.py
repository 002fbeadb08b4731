"""Values that only hold elements of judged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from padiff.dumpfile import RecordInfo, Role
from padiff.pairing import Absence, SideName, UnmatchedRecord, pair
from padiff.pairing.tensors import parts
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[Any]


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


FUSED = random(2, 5, 24, seed=1)
"""Queries, keys and values of 8 features each."""


def attention(
    given: Sequence[Array], made: Sequence[Array] = (), fused: Array = FUSED
) -> MemorySide:
    """A fused projection, a module that only this side calls, and the root's output."""
    built = DumpBuilder(framework="paddle").module("", "Net").module("qkv", "Linear")
    built.module("rotary", "Rotary").enter("", inputs=[random(2, 4)])
    built.call("qkv", inputs=[random(2, 4)], outputs=[fused])
    built.call("rotary", inputs=list(given), outputs=list(made))
    return built.leave(outputs=[random(3, seed=5)]).side()


def functional(fused: Array = FUSED) -> MemorySide:
    built = DumpBuilder().module("", "Net").module("qkv", "Linear")
    built.enter("", inputs=[random(2, 4)])
    built.call("qkv", inputs=[random(2, 4)], outputs=[fused])
    return built.leave(outputs=[random(3, seed=5)]).side()


def alone(reference: MemorySide, candidate: MemorySide, role: Role) -> list[UnmatchedRecord]:
    records = candidate.index.records
    return [
        one
        for one in pair(reference, candidate).unmatched
        if one.side is SideName.CANDIDATE
        and records[one.record].role is role
        and candidate.index.modules[records[one.record].module].path == "rotary"
    ]


@pytest.mark.parametrize(
    "part",
    [
        FUSED[..., :8].copy(),
        FUSED.reshape(2, 5, 3, 2, 4)[:, :, 1].transpose(0, 2, 1, 3).copy(),
        np.repeat(FUSED[..., 8:16], 2, axis=2),
    ],
    ids=["slice", "heads, transposed", "repeated"],
)
def test_a_part_of_a_judged_value_is_covered(part: Array) -> None:
    found = alone(functional(), attention([part]), Role.INPUT)

    assert [one.absence for one in found] == [Absence.COVERED]
    assert found[0].reason == "elements judged at qkv#0 output"


def test_a_slice_in_bfloat16_is_covered_by_runs_of_its_neighbours() -> None:
    fused = FUSED.astype(ml_dtypes.bfloat16)

    found = alone(functional(fused), attention([fused[..., :8].copy()], fused=fused), Role.INPUT)

    assert [one.absence for one in found] == [Absence.COVERED]


def test_numbers_of_bfloat16_that_others_have_too_are_no_part() -> None:
    fused = random(2, 500, 24, seed=1).astype(ml_dtypes.bfloat16)
    other = np.random.default_rng(4).permutation(fused.reshape(-1)[:80]).reshape(2, 5, 8)

    found = alone(functional(fused), attention([other], fused=fused), Role.INPUT)

    assert [one.absence for one in found] == [Absence.MISSING]


def test_what_was_computed_is_missing() -> None:
    made = FUSED[..., :8] * np.float32(1.5)

    found = alone(functional(), attention([FUSED[..., :8].copy()], [made]), Role.OUTPUT)

    assert [one.absence for one in found] == [Absence.MISSING]


def test_few_elements_tell_nothing() -> None:
    found = alone(functional(), attention([FUSED[0, 0, :8].copy()]), Role.INPUT)

    assert [one.absence for one in found] == [Absence.MISSING]


def test_what_is_joined_from_judged_values_is_covered() -> None:
    joined = np.concatenate([FUSED.reshape(10, 24), np.tile(random(2, 4), (5, 6))])

    found = alone(functional(), attention([joined]), Role.INPUT)

    assert found[0].reason.startswith("elements judged at qkv#0 output and ")


def test_what_was_looked_into_is_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    forget = parts.Parts._forget

    def forgotten(self: parts.Parts) -> None:
        forget(self)
        kept.append(len(self._kept))

    monkeypatch.setattr(parts.Parts, "_forget", forgotten)
    monkeypatch.setattr(parts, "KEPT_KEYS", 0)
    joined = np.concatenate([FUSED.reshape(10, 24), np.tile(random(2, 4), (5, 6))])

    found = alone(functional(), attention([joined]), Role.INPUT)

    assert [one.absence for one in found] == [Absence.COVERED]
    assert len(kept) > 1
    assert set(kept) == {1}


def test_the_work_for_a_side_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_WORK", FUSED.size)

    found = alone(functional(), attention([FUSED[..., :8].copy()]), Role.INPUT)

    assert [one.absence for one in found] == [Absence.MISSING]


def test_no_whole_tensor_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[int] = []
    unique = np.unique

    def counted(array: Array, **options: Any) -> Any:  # noqa: ANN401 - numpy's own
        hashed.append(array.size)
        return unique(array, **options)

    monkeypatch.setattr(np, "unique", counted)

    found = alone(functional(), attention([FUSED[..., :8].copy()]), Role.INPUT)

    assert [one.absence for one in found] == [Absence.COVERED]
    assert max(hashed, default=0) < FUSED[..., :8].size


def test_a_value_that_is_judged_nowhere_is_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[int] = []
    distinct = parts._distinct

    def counted(keys: parts.Keys) -> parts.Keys:
        ordered.append(keys.size)
        return distinct(keys)

    monkeypatch.setattr(parts, "_distinct", counted)
    large = random(100, 100, seed=7)

    found = alone(functional(), attention([large]), Role.INPUT)

    assert [one.absence for one in found] == [Absence.MISSING]
    assert FUSED.size in ordered
    assert large.size not in ordered


def test_unmatched_records_are_explained_only_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[RecordInfo] = []

    def counted(_: parts.Parts, record: RecordInfo) -> str:
        looked.append(record)
        return ""

    monkeypatch.setattr(parts.Parts, "reason", counted)
    sides = functional(), attention([FUSED[..., :8].copy()])

    whole = pair(*sides)
    asked = len(looked)
    short = pair(*sides, explains_unmatched=False)

    assert asked
    assert whole.unmatched
    assert len(looked) == asked
    assert short.unmatched == ()
    assert (short.modules, short.calls, short.records) == (
        whole.modules,
        whole.calls,
        whole.records,
    )
