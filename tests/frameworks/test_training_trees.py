"""Mistakes in trainings of ports with other trees; the score holds more, and right ports."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from padiff.comparer import CompareSettings, Comparison, Kind, compare
from padiff.comparer.report.fault_words import evidence_of
from tests.support.ports.training_trees import BY_HAND, FAULTS, Side, dump, write_batches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Paddle says so at each training-mode BatchNorm whose track_running_stats was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder with the batches of each model."""
    path = tmp_path_factory.mktemp("training_trees")
    write_batches(path)
    known, before = set(sys.modules), list(sys.path)
    yield path
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if "training_trees" in name:
            del sys.modules[name]


def trained(folder: Path, net: str, reference: Side, candidate: Side, *, steps: int) -> Comparison:
    """Train torch's side and Paddle's port of it, and compare."""
    sides = [replace(side, steps=steps) for side in (reference, candidate)]
    known = dump(folder, "torch", net, sides[0])
    return compare(known, dump(folder, "paddle", net, sides[1], known), CompareSettings())


def test_hand_made_update_leaves_no_learning_rate_to_agree_with(folder: Path) -> None:
    by_hand = Side(optimizer="by_hand", options=BY_HAND)

    comparison = trained(folder, "ResNet", Side(), by_hand, steps=2)

    first = comparison.first_divergence
    assert first is not None
    assert "the candidate recorded no learning rate" in evidence_of(first)
    assert not any("momentum_buffer agrees" in line for line in evidence_of(first))


@pytest.mark.parametrize("fault", ["place of epsilon", "momentum left out"])
def test_mistake_is_named_once(folder: Path, fault: str) -> None:
    net, reference, candidate, place, cause = FAULTS[fault]

    comparison = trained(folder, net, reference, candidate, steps=place[0] + 2)

    (found,) = comparison.origins
    assert found.pair.reference is not None
    assert found.kind is Kind.ORIGIN
    address = found.pair.reference.address
    assert (address.step, found.phase, address.role) == place
    assert cause in " | ".join(evidence_of(found))
