"""What was compared with what, of modules and calls, in the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, compare
from padiff.comparer.report.json_report import read_report, to_json
from tests.support.drawing import draw
from tests.support.dumps import DumpBuilder, write_dump

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "report.schema.json").read_text(encoding="utf-8")
)


def layers(*names: str, seed: int, turns: int = 1) -> DumpBuilder:
    """Run linear layers that nothing tells apart: of one size, fed one tensor."""
    random = np.random.default_rng(seed)
    x = np.random.default_rng(9).standard_normal((3, 4)).astype(np.float32)
    built = DumpBuilder().module("", "Net")
    weights = {name: random.standard_normal((4, 4)).astype(np.float32) for name in names}
    for name, weight in weights.items():
        built.module(name, "Linear").tensor(name, "weight", weight)
    built.enter("", inputs=[x])
    for _ in range(turns):
        for name, weight in weights.items():
            built.call(name, inputs=[x], outputs=[x @ weight.T])
    return built.leave(outputs=[x])


@pytest.fixture
def result(tmp_path: Path) -> Comparison:
    reference = write_dump(tmp_path / "reference", layers("a", "b", seed=1, turns=2))
    candidate = write_dump(tmp_path / "candidate", layers("x", "y", seed=2, turns=2))
    return compare(reference, candidate, CompareSettings())


def listed(report: dict[str, Any]) -> list[dict[str, Any]]:
    return list(report["steps"][0]["calls"])


def test_every_pair_of_calls_says_how_it_was_made_and_how_sure_it_is(result: Comparison) -> None:
    report = to_json(result)

    jsonschema.validate(report, SCHEMA)
    assert listed(report)[0] == {
        "reference": {"module": "", "call": 0},
        "candidate": {"module": "", "call": 0},
        "paired_by": "structure",
        "confidence": 1.0,
    }
    assert listed(report)[3] == {
        "reference": {"module": "a", "call": 1},
        "candidate": {"module": "x", "call": 1},
        "paired_by": "structure",
        "confidence": 0.25,
        "alternatives": [
            {"module": "y", "call": 0},
            {"module": "y", "call": 1},
            {"module": "x", "call": 0},
        ],
    }


def test_calls_that_are_certain_have_no_alternatives(tmp_path: Path) -> None:
    one, two = (write_dump(tmp_path / name, layers("a", "b", seed=1)) for name in ("one", "two"))

    report = to_json(compare(one, two, CompareSettings()))

    assert [(e["confidence"], "alternatives" in e) for e in listed(report)] == [(1.0, False)] * 3


def test_calls_in_doubt_are_listed_at_the_terminal_after_json_too(result: Comparison) -> None:
    text = draw(result, explain_pairing=True)

    assert "PAIRING OF CALLS" in text
    assert "a#1 ~ x#1" in text
    assert draw(read_report(json.loads(json.dumps(to_json(result)))), explain_pairing=True) == text
