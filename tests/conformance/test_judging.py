"""Verdicts on single pairs, as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Mode
from padiff.comparer.judging.judge import judge
from padiff.dumpfile import numpy_dtype
from padiff.pairing import PairedBy, Pairing, RecordPair
from tests.support.dumps import DumpBuilder, MemorySide

CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("judging.json").read_text(encoding="utf-8")
)["cases"]
ONLY_PAIR = Pairing(
    modules=(),
    calls=(),
    records=(RecordPair(reference=(0,), candidate=0, paired_by=PairedBy.NAME),),
    unmatched=(),
    same_structure=True,
)


def side(elements: object, dtype: str) -> MemorySide:
    array = np.asarray(elements, dtype=np.float64 if dtype != "bool" else None)
    built = DumpBuilder().module("", "Net")
    return built.enter("").leave(outputs=[array.astype(numpy_dtype(dtype))]).side()


def test_there_are_cases() -> None:
    assert len(CASES) > 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_verdict(case: dict[str, Any]) -> None:
    dtype = case.get("dtype", "float32")
    reference = side(case["reference"], dtype)
    candidate = side(case["candidate"], case.get("candidate_dtype", dtype))
    settings = CompareSettings(
        atol=case.get("atol"), rtol=case.get("rtol"), mode=Mode(case.get("mode", "strict"))
    )

    found = judge(reference, candidate, ONLY_PAIR, settings)

    assert [str(pair.verdict) for pair in found.pairs] == [case["verdict"]]
