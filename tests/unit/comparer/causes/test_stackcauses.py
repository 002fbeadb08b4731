"""Sums of what a loop makes step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Divergence, compare
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import TOKENS, Array, names, normal

if TYPE_CHECKING:
    from pathlib import Path

STATES = normal(2, 6, 8, seed=51)


def looped(weight: float, tmp_path: Path, *, is_cell: bool) -> Divergence:
    """Compare two sides of ``weight * x + stacked states``, with a call for each state.

    Args:
        weight: Of the candidate; the reference's is 1.
        tmp_path: Where to.
        is_cell: Whether a call gives the state, or is given the one before.
    """
    paths = []
    for side, factor in enumerate((1.0, weight)):
        given = (np.float32(factor) * TOKENS + STATES).astype(np.float32)
        built = DumpBuilder().module("", "Net").module("cell", "Cell").module("norm", "Other")
        built.enter("", inputs=[TOKENS])
        for time in range(TOKENS.shape[1]):
            before = STATES[:, time - 1] if time else np.zeros((2, 8), np.float32)
            after: Array = STATES[:, time] if is_cell else normal(2, 8, seed=60 + time)
            built.call("cell", inputs=[before], outputs=[after])
        built.call("norm", inputs=[given], outputs=[given * 2]).leave(outputs=[given * 2])
        paths.append(built.write(tmp_path / str(side)))
    return compare(paths[0], paths[1], CompareSettings()).origins[0]


@pytest.mark.parametrize(
    ("is_cell", "name"),
    [
        (True, "the outputs of all calls of cell"),
        (False, "the states given to cell from its second call on"),
    ],
)
def test_a_sum_with_the_states_of_a_loop_is_said(
    name: str, *, is_cell: bool, tmp_path: Path
) -> None:
    found = looped(0.5, tmp_path, is_cell=is_cell)

    assert names(found) == ["combination"]
    said = f"the candidate 0.5 * (root) input[0] + {name}, stacked along axis 1"
    assert said in found.causes[0].text
