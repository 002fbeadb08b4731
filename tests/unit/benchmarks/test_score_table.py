"""Counting outcomes by line, and holding them against a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.score import baseline
from benchmarks.score.baseline import Stored, compare_with, edges_between, fallen_lines
from benchmarks.score.case import CauseRank, Family, Group, OriginRank, Outcome, VerdictRank
from benchmarks.score.table import COLUMNS, count, printed

if TYPE_CHECKING:
    from pathlib import Path

EXACT = OriginRank.EXACT, CauseRank.RIGHT


def outcome(
    case: str,
    verdict: VerdictRank = VerdictRank.RIGHT,
    ranks: tuple[OriginRank | None, CauseRank | None] = (None, None),
    *,
    group: Group = Group.FAULTS,
    family: str = "",
) -> Outcome:
    return Outcome(
        case=case,
        group=str(group),
        family=family,
        verdict=verdict,
        origin=ranks[0],
        cause=ranks[1],
        cpu_s=1.5,
    )


def stored(*outcomes: Outcome, edge: str = "") -> dict[str, Stored]:
    return {one.case: Stored(outcome=one, is_edge=one.case == edge) for one in outcomes}


def test_a_case_counts_for_its_group_its_family_and_all() -> None:
    found = [
        outcome("one", ranks=EXACT, family=str(Family.CNN)),
        outcome("two", VerdictRank.FALSE_MATCH, group=Group.ATTACKS),
    ]

    lines = {line.name: line for line in count(found)}

    assert set(lines) == {"planted faults", "directed attacks", "CNNs", "all"}
    assert lines["CNNs"].counts == {"cases": 1, "right": 1, "origin exact": 1, "cause right": 1}
    assert lines["directed attacks"].counts == {"cases": 1, "false match": 1}
    assert lines["all"].counts["cases"] == 2
    assert lines["all"].cpu_s == 3.0


def test_the_table_has_a_number_for_each_column() -> None:
    head, line, *_ = printed(count([outcome("one", ranks=EXACT)]))

    assert [name in head for name in COLUMNS.values()] == [True] * len(COLUMNS)
    assert " ".join(line.split()) == "planted faults 1 1 · · · · 1 · · 1 · · 2"


def test_a_line_with_a_false_match_more_is_lower() -> None:
    before = stored(outcome("one", ranks=EXACT), outcome("two", ranks=EXACT))

    fallen = fallen_lines(
        before, [outcome("one", ranks=EXACT), outcome("two", VerdictRank.FALSE_MATCH)]
    )

    assert "planted faults: verdict right 2 → 1" in fallen
    assert "planted faults: false matches 0 → 1" in fallen
    assert "all: origin exact 2 → 1" in fallen


def test_a_case_that_fell_and_one_that_rose_leave_the_line_where_it_was() -> None:
    before = stored(outcome("one", ranks=EXACT), outcome("two", VerdictRank.FALSE_MATCH))
    after = [outcome("one", VerdictRank.FALSE_MATCH), outcome("two", ranks=EXACT)]

    changes = compare_with(before, after)

    assert fallen_lines(before, after) == []
    assert [(one.case, one.is_worse) for one in changes] == [("one", True), ("two", False)]


def test_a_cause_that_became_vague_is_lower_and_one_that_is_known_at_last_is_not() -> None:
    before = stored(outcome("one", ranks=EXACT), outcome("two", VerdictRank.CRASHED))

    vague = [outcome("one", ranks=(OriginRank.EXACT, CauseRank.VAGUE)), outcome("two")]

    assert fallen_lines(before, vague) == [
        "planted faults: cause right 1 → 0",
        "all: cause right 1 → 0",
    ]


def test_a_case_that_depends_on_rounding_is_reported_and_not_held() -> None:
    before = stored(outcome("one", ranks=EXACT), edge="one")
    after = [outcome("one", VerdictRank.FALSE_MATCH)]

    (change,) = compare_with(before, after)

    assert change.is_edge
    assert fallen_lines(before, after) == []


def test_a_new_case_and_one_that_was_not_run_are_not_held() -> None:
    before = stored(outcome("one", ranks=EXACT))

    assert fallen_lines(before, [outcome("new", VerdictRank.CRASHED)]) == []


def test_cases_whose_outcomes_differ_between_two_runs_are_edges() -> None:
    first = [outcome("one", ranks=EXACT), outcome("two")]
    second = [outcome("one", VerdictRank.FALSE_MATCH), outcome("two")]

    assert edges_between(first, second) == {"one"}


def test_a_stored_baseline_is_read_back(tmp_path: Path) -> None:
    found = [outcome("one", ranks=EXACT, family=str(Family.CNN)), outcome("two")]

    baseline.write(tmp_path / "baseline.json", found, edges=frozenset({"two"}))
    back = baseline.read(tmp_path / "baseline.json")

    assert {name: one.outcome.ranks for name, one in back.items()} == {
        "one": "right / exact / right",
        "two": "right",
    }
    assert [name for name, one in back.items() if one.is_edge] == ["two"]
