"""What several ranks say alike, reports say once; the JSON report keeps all of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from padiff.comparer import compare
from padiff.comparer.auditing import Soundness
from padiff.comparer.proving import Answer, Execution, FunctionComparison, Place
from padiff.comparer.report.github import to_github
from padiff.comparer.report.html import to_html
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.junit import to_junit
from padiff.comparer.report.markdown import to_markdown
from padiff.comparer.report.overview_page import to_overview
from padiff.comparer.report.sarif import to_sarif
from padiff.comparer.report.wording import owner
from tests.support.drawing import draw
from tests.support.many_ranks import write_ranks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.comparer import Comparison


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., Comparison]:
    """Compare four ranks of three steps each with others, of which some diverge in the last."""

    def make(*faulty: int) -> Comparison:
        write_ranks(tmp_path / "known", ranks=4)
        write_ranks(tmp_path / "found", "paddle", faulty=faulty, ranks=4)
        return compare(tmp_path / "known", tmp_path / "found")

    return make


def numbers(runs: str) -> list[int]:
    """Read ranks of which runs are written by their ends."""
    ends = [[int(end) for end in run.split("-")] for run in runs.split(",")]
    return [rank for run in ends for rank in range(run[0], run[-1] + 1)]


def test_ranks_that_match_are_told_in_one_line(found: Callable[..., Comparison]) -> None:
    text = draw(found())

    assert "steps     3 steps of 3 match on each of ranks 0-3\n" in text


def test_a_fault_of_all_ranks_is_one_origin(found: Callable[..., Comparison]) -> None:
    text = draw(found(0, 1, 2, 3))

    assert text.startswith("DIVERGED: 1 origin (4 over all ranks), ")
    assert "  step 2, each of ranks 0-3: " in text
    assert "FIRST ORIGIN  forward, step 2, ranks 0-3, shown as on rank 0\n" in text
    assert "FURTHER ORIGINS" not in text
    assert "3 steps" not in text
    assert "steps     2 steps of 3 match on each of ranks 0-3\n" in text


def test_a_fault_of_one_rank_names_it_beside_the_others(found: Callable[..., Comparison]) -> None:
    text = draw(found(2))

    assert text.startswith("DIVERGED: 1 origin, ")
    assert "FIRST ORIGIN  forward, step 2, rank 2\n" in text
    assert "MODULE TREE, step 2 rank 2 " in text
    assert "steps     3 steps of 3 match on each of ranks 0-1,3\n" in text
    assert "2 steps of 3 match on rank 2\n" in text


def test_markdown_tells_equal_ranks_once(found: Callable[..., Comparison]) -> None:
    text = to_markdown(found(1, 3))

    assert "### Origin 1: `norm` (forward, step 2 ranks 1,3)\n" in text
    assert "Origin 2" not in text
    assert "| 2 ranks 1,3 | `norm` | `output` |" in text


def test_the_overview_and_annotations_tell_equal_ranks_once(
    found: Callable[..., Comparison],
) -> None:
    result = found(1, 3)
    page = to_overview(result)

    assert "<td>forward, step 2 ranks 1,3</td>" in page
    assert page.count('<td class="number">1,3</td>') == 1
    assert to_github(result).count("::error") == 1
    assert "norm output (forward, step 2 ranks 1,3): max abs" in to_github(result)
    assert "<li>step 2, each of ranks 1,3: " in page


def test_the_page_tells_equal_ranks_once(found: Callable[..., Comparison]) -> None:
    page = to_html(found(1, 3))

    assert re.findall(r"forward, (step [^<]+)</span>", page) == ["step 2 ranks 1,3"]
    assert "<span>1 origin (2 over all ranks), " in page
    assert "<li>step 2, each of ranks 1,3: " in page


def test_the_page_tells_where_programs_part_once(found: Callable[..., Comparison]) -> None:
    result = found()
    place = Place(operator="mul", module="fc1", class_name="Linear", site=None, operators=1)
    parted = Execution(
        function=FunctionComparison(answer=Answer.DIFFERENT, reference=place, candidate=place),
        soundness=(Soundness.SOUND, Soundness.SOUND),
    )

    def page(*where: tuple[int, int]) -> str:
        steps = [
            replace(step, executed=parted if (step.step, step.rank) in where else None)
            for step in result.steps
        ]
        return to_html(replace(result, steps=tuple(steps)))

    heading = r"<h3>the programs part here[^<]*(?: <span class=\"dim\">(.*)</span>)?</h3>"
    assert re.findall(heading, page((2, 1), (2, 3))) == ["step 2, ranks 1,3"]
    assert re.findall(heading, page((1, 1), (2, 1))) == ["in 2 steps"]
    assert re.findall(heading, page((1, 1), (1, 2), (2, 1))) == ["in 2 steps, ranks 1-2"]
    assert re.findall(heading, page((1, 1))) == [""]


def test_the_page_keeps_the_tree_of_every_rank(found: Callable[..., Comparison]) -> None:
    data: Any = json.loads(re.findall(r'id="data">(.*)</script>', to_html(found(1, 3)))[0])

    assert len(data["steps"]) == 12


def test_sarif_tells_equal_ranks_once(found: Callable[..., Comparison]) -> None:
    log: Any = to_sarif(found(1, 3))

    (result,) = log["runs"][0]["results"]
    assert result["message"]["text"].startswith("norm output (forward, step 2 ranks 1,3): max abs")


def test_junit_fails_once_for_an_origin_of_several_ranks(found: Callable[..., Comparison]) -> None:
    root = ET.fromstring(to_junit(found(1, 3)))

    failed = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["norm [step 2 ranks 1,3]"]
    assert "on each of ranks 1,3, shown as on rank 1" in (failed[0].findtext("failure") or "")
    names = [case.get("name") for case in root.iter("testcase")]
    assert "norm [step 2 ranks 0,2]" in names
    assert "norm [step 0 ranks 0-3]" in names


def test_junit_names_every_call_of_every_rank_once(found: Callable[..., Comparison]) -> None:
    result = found(1, 3)
    calls = {
        (end.phase, end.step, end.rank, owner(pair.end), end.call is None)
        for step in result.steps
        for pair in step.pairs
        for end in [pair.end.address]
    }

    told: list[object] = []
    for case in ET.fromstring(to_junit(result)).iter("testcase"):
        name = re.fullmatch(
            r"(\S+)( \(parameters\))? \[step (\d+) ranks? ([\d,-]+)\]", case.get("name") or ""
        )
        if name is not None:
            phase = (case.get("classname") or "").removeprefix("padiff.")
            at = [(phase, int(name[3]), rank, name[1], bool(name[2])) for rank in numbers(name[4])]
            told += at

    assert len(told) == len(calls)
    assert set(told) == calls


def test_reasons_that_ranks_share_are_one_result_and_one_line(
    found: Callable[..., Comparison],
) -> None:
    result = found(0, 1, 2, 3)
    bare = replace(
        result, steps=tuple(replace(step, divergences=(), pairs=()) for step in result.steps)
    )

    log: Any = to_sarif(bare)
    (told,) = log["runs"][0]["results"]
    case = ET.fromstring(to_junit(bare)).find("testsuite/testcase/failure")

    assert told["message"]["text"].startswith("step 2, each of ranks 0-3: ")
    assert case is not None
    assert (case.text or "").splitlines() == [told["message"]["text"]]


def test_the_json_report_keeps_every_rank(found: Callable[..., Comparison]) -> None:
    written: Any = to_json(found(0, 1, 2, 3))

    assert [(one["step"], one["rank"]) for one in written["reasons"]] == [
        (2, rank) for rank in range(4)
    ]
    assert len(written["origins"]) == 4
    assert draw(read_report(written)).startswith("DIVERGED: 1 origin (4 over all ranks), ")
