"""The scored corpus: large enough, and a handful of its cases run for real."""

from __future__ import annotations

import pytest

from benchmarks.score import planted
from benchmarks.score.architectures import ARCHITECTURES
from benchmarks.score.case import OriginRank, VerdictRank
from benchmarks.score.corpus import corpus
from benchmarks.score.faults import KINDS
from benchmarks.score.noise import ABOVE
from benchmarks.score.run import run_cases

SEEN = [
    "vit: projections exchanged",
    "resnet: norm in training mode",
    "poolformer: gradient of another sign",
]
"""How the names of faults begin that are far above noise."""


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    faults = planted.read_rows()

    assert len(ARCHITECTURES) >= 20
    assert len(faults) >= 150
    assert {row.kind for row in faults} == set(KINDS)


def test_every_planted_fault_was_above_noise_when_it_was_drawn() -> None:
    below = [row.name for row in planted.read_rows() if row.ratio < ABOVE]

    assert below == []


def test_faults_of_all_sizes_were_drawn() -> None:
    ratios = [row.ratio for row in planted.read_rows()]

    assert sum(ratio < 10 * ABOVE for ratio in ratios) >= 50
    assert sum(ratio > 1e4 for ratio in ratios) >= 50


@pytest.mark.parametrize("begin", SEEN)
def test_a_planted_fault_is_seen_and_its_module_is_named(begin: str) -> None:
    case = next(one for one in corpus(with_shared=False) if one.name.startswith(begin))

    (outcome,) = run_cases([case])

    assert outcome.verdict is VerdictRank.RIGHT, outcome.detail
    assert outcome.origin is OriginRank.EXACT, outcome.detail
