"""The scored corpus: large enough, and how its cases are judged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.score import foreign, planted
from benchmarks.score.architectures import ARCHITECTURES
from benchmarks.score.case import Case, Group, VerdictRank
from benchmarks.score.corpus import corpus
from benchmarks.score.faults import KINDS
from benchmarks.score.noise import ABOVE
from benchmarks.score.run import run_cases

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TWO = "convnext: layers exchanged in convnext.encoder.stages.1.layers; and "


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    faults = planted.read_rows()
    groups = Counter(case.group for case in corpus(with_shared=False))
    assert len(ARCHITECTURES) >= 20
    assert len(faults) >= 150
    assert groups[Group.REWRITES] >= 60
    assert groups[Group.ATTACKS] >= 60
    assert groups[Group.TOGETHER] >= 60
    assert set(groups) == set(Group) - {Group.PAIRS}
    assert {row.kind for row in faults} == set(KINDS)


def test_every_planted_fault_was_above_noise_when_it_was_drawn() -> None:
    below = [row.name for row in planted.read_rows() if row.ratio < ABOVE]

    assert below == []


def test_faults_of_all_sizes_were_drawn() -> None:
    ratios = [row.ratio for row in planted.read_rows()]

    assert sum(ratio < 10 * ABOVE for ratio in ratios) >= 50
    assert sum(ratio > 1e4 for ratio in ratios) >= 50


def named(begin: str) -> Case:
    return next(one for one in corpus(with_shared=False) if one.name.startswith(begin))


def test_of_several_faults_the_one_that_is_told_least_ranks_the_case() -> None:
    (case,) = [
        one for one in corpus(with_shared=False) if one.group is Group.TOGETHER and TWO in one.name
    ]
    first, second = case.expected.each
    unseen = replace(first, words="of which nobody speaks")
    elsewhere = replace(second, origins=("where nothing is",))

    asked = [
        replace(case, expected=replace(case.expected, each=each))
        for each in ((first, second), (unseen, second), (first, elsewhere))
    ]

    assert [one.ranks for one in run_cases(asked)] == [
        "right / exact / right",
        "right / exact / vague",
        "right / wrong / none",
    ]


def test_an_exception_is_an_outcome() -> None:
    def fail(_: Path) -> Path:
        raise ValueError("no such layer")

    (outcome,) = run_cases([replace(named("vit: recorded again"), reference=fail)])

    assert outcome.verdict is VerdictRank.CRASHED
    assert "ValueError: no such layer" in outcome.detail


def test_pairs_that_do_not_lie_beside_the_checkout_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(foreign, "PLACE", tmp_path)

    (outcome,) = run_cases([next(iter(foreign.cases()))])

    assert outcome.verdict is VerdictRank.CRASHED
    assert "--without-shared leaves it out" in outcome.detail
