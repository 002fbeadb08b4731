"""What several ranks say alike, reports say once; the JSON report keeps all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from padiff.comparer import compare
from padiff.comparer.report.github import to_github
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.markdown import to_markdown
from padiff.comparer.report.overview_page import to_overview
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


def test_the_json_report_keeps_every_rank(found: Callable[..., Comparison]) -> None:
    written: Any = to_json(found(0, 1, 2, 3))

    assert [(one["step"], one["rank"]) for one in written["reasons"]] == [
        (2, rank) for rank in range(4)
    ]
    assert len(written["origins"]) == 4
    assert draw(read_report(written)).startswith("DIVERGED: 1 origin (4 over all ranks), ")
