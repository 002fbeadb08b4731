"""An origin whose own output is judged at the address of the call that made it."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rich.console import Console

from padiff.comparer import CompareSettings, compare
from padiff.comparer.report.github import to_github
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.junit import to_junit
from padiff.comparer.report.markdown import to_markdown
from padiff.comparer.report.page_data import page_data
from padiff.comparer.report.sarif import to_sarif
from padiff.comparer.report.terminal import render
from padiff.comparer.report.wording import owners, what
from padiff.dumpfile import Role, SourceLine
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import TOKENS, normal

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer import Comparison

GATE, UP, FC, HEAD = (normal(8, 8, seed=seed) for seed in (1, 2, 6, 7))


def block(path: Path, *, is_reference: bool) -> Path:
    """A gated block with two layers or a fused one in front, and a fault in its own code."""
    name, inner = ("block", "fc") if is_reference else ("theirs", "last")
    gates = {"gate": GATE, "up": UP} if is_reference else {"both": np.concatenate([GATE, UP])}
    layers = {**{f"{name}.{one}": matrix for one, matrix in gates.items()}, f"{name}.{inner}": FC}
    built = DumpBuilder().module("", "Net")
    built.module(name, "Block", source=SourceLine(file=f"{name}.py", line=3))
    for path_ in (*layers, "head"):
        built.module(path_, "Linear")
    built.enter("", inputs=[TOKENS])
    built.enter(name, inputs=[TOKENS], site=SourceLine(file=f"{name}.py", line=30))
    for one, matrix in gates.items():
        built.call(f"{name}.{one}", inputs=[TOKENS], outputs=[TOKENS @ matrix.T])
    made = (TOKENS @ GATE.T) * (TOKENS @ UP.T) * np.float32(1 if is_reference else 3)
    built.call(f"{name}.{inner}", inputs=[made], outputs=[made @ FC.T])
    built.leave(outputs=[made @ FC.T])
    total = TOKENS + made @ FC.T
    built.call("head", inputs=[total], outputs=[total @ HEAD.T]).leave(outputs=[total @ HEAD.T])
    for path_, array in {**layers, "head": HEAD}.items():
        built.record(path_, Role.WEIGHT, array, slot=".weight")
    return built.write(path)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("dumps")
    reference = block(folder / "reference", is_reference=True)
    return compare(reference, block(folder / "candidate", is_reference=False), CompareSettings())


@pytest.fixture(scope="module")
def report(found: Comparison) -> Comparison:
    return read_report(to_json(found))


def test_both_sides_are_named_with_the_numbers_of_what_covers_them(found: Comparison) -> None:
    (origin,) = found.origins

    ends = origin.pair.reference, origin.pair.candidate
    assert [end and (end.address.module, end.address.role) for end in ends] == [
        ("block", Role.OUTPUT),
        ("theirs", Role.OUTPUT),
    ]
    assert origin.pair.metrics is not None
    assert origin.judged_at is not None
    assert origin.judged_at.metrics is origin.pair.metrics
    assert origin.judged_at.reference is not None
    assert origin.judged_at.reference.address.module == "block.fc"
    assert any(line.startswith("shows first at ") for line in origin.evidence)


def test_annotations_have_file_and_line(report: Comparison) -> None:
    assert to_github(report).startswith("::error file=theirs.py,line=30,title=")
    log = json.dumps(to_sarif(report))
    assert '"uri": "theirs.py"' in log
    assert '"startLine": 30' in log


def test_markdown_names_class_and_source_of_the_candidate(report: Comparison) -> None:
    text = to_markdown(report)

    assert "Block" in text
    assert "`theirs.py:30`" in text
    assert "max abs" in text.partition("### Compared")[0]


def test_junit_fails_the_case_of_the_origin(report: Comparison) -> None:
    (case,) = [part for part in to_junit(report).split("<testcase")
               if 'name="block = theirs"' in part]  # fmt: skip

    assert 'type="origin"' in case
    assert "max abs" in case


def test_page_shows_the_origin_where_it_is_judged(found: Comparison) -> None:
    tables = page_data(found, found.origins)

    places = [at for at, pair in enumerate(found.steps[0].pairs)
              if owners(pair) == "block.fc = theirs.last"
              and what(pair.end) == "output"]  # fmt: skip
    assert tables["origins"] == places


def test_stored_report_is_drawn_as_the_comparison_was(found: Comparison) -> None:
    kept, made = read_report(to_json(found)), found

    assert [one.pair.reason for one in kept.origins] == [one.pair.reason for one in made.origins]
    assert drawn(kept) == drawn(made)


def drawn(comparison: Comparison) -> str:
    text = StringIO()
    render(comparison, Console(file=text, width=110))
    return text.getvalue()
