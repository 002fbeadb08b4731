"""Modules whose border lies elsewhere: what is handed on agrees, what the module gives does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from pathlib import Path

IDS, TABLE, MATRIX = np.arange(4).reshape(2, 2), normal(4, 8, seed=71), normal(8, 8, seed=72)
ROWS, GRADIENT = TABLE[IDS], normal(2, 2, 8, seed=73)


def net(path: Path, *, inside: float, handed: float, returned: bool = False) -> Path:
    """Write an embedding that scales inside, and what goes on to the layer behind it."""
    built = DumpBuilder().module("", "Net").module("embed", "Embedding").module("last", "Linear")
    built.tensor("embed", "weight", TABLE).tensor("last", "weight", MATRIX)
    given = ROWS * np.float32(handed)
    made = np.matmul(given, MATRIX)
    built.enter("", inputs=[IDS]).call("embed", inputs=[IDS], outputs=[ROWS * np.float32(inside)])
    built.call("last", inputs=[given], outputs=[made])
    built.leave(outputs=[made, ROWS * np.float32(inside)] if returned else [made])
    built.record("embed", Role.GRAD_OUTPUT, GRADIENT * np.float32(handed / inside))
    return built.write(path)


@pytest.mark.parametrize("turned", [False, True])
def test_a_scale_inside_or_behind_an_embedding_is_the_same(tmp_path: Path, *, turned: bool) -> None:
    one = net(tmp_path / "one", inside=8.0, handed=8.0)
    two = net(tmp_path / "two", inside=1.0, handed=8.0)

    result = (
        compare(two, one, CompareSettings()) if turned else compare(one, two, CompareSettings())
    )

    assert result.verdict is Verdict.MATCH, result.reasons
    reasons = [pair.reason for pair in result.steps[0].pairs if "handed on" in pair.reason]
    assert len(reasons) == 2
    assert reasons[0].endswith("last input[0]")


def test_a_scale_that_is_lost_stays_a_divergence(tmp_path: Path) -> None:
    one = net(tmp_path / "one", inside=8.0, handed=8.0)
    two = net(tmp_path / "two", inside=1.0, handed=1.0)

    result = compare(one, two, CompareSettings())

    assert [
        found.pair.reference.address.module for found in result.origins if found.pair.reference
    ] == ["embed"]


def test_what_the_model_returns_stays_a_divergence(tmp_path: Path) -> None:
    one = net(tmp_path / "one", inside=8.0, handed=8.0, returned=True)
    two = net(tmp_path / "two", inside=1.0, handed=8.0, returned=True)

    assert compare(one, two, CompareSettings()).verdict is Verdict.DIVERGED
