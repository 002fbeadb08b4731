"""A branch that is cut off in the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from padiff.comparer import CompareSettings, Divergence, compare
from padiff.dumpfile import Phase, Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import TOKENS, Array, names, normal

if TYPE_CHECKING:
    from pathlib import Path

BRANCH, ARRIVING = normal(2, 6, 8, seed=21), normal(2, 6, 8, seed=22)
BEHIND = normal(2, 6, 8, seed=23)
"""Gradient that the branch passes on."""


def residual(total: Array | None, tmp_path: Path, dtype: type) -> Divergence:
    """Compare two sides of ``x + branch(x)``, of which x has another gradient."""
    arriving: Array = ARRIVING.astype(dtype)
    behind: Array = BEHIND.astype(dtype)
    right: Array = (ARRIVING + BEHIND).astype(dtype)
    paths = []
    for side, found in enumerate((right, total)):
        x: Array = TOKENS.astype(dtype)
        made: Array = BRANCH.astype(dtype)
        built = DumpBuilder().module("", "Net").module("block", "Block")
        built.module("block.branch", "Branch").enter("", inputs=[x]).enter("block", inputs=[x])
        built.call("block.branch", inputs=[x], outputs=[made])
        result: Array = (TOKENS + BRANCH).astype(dtype)
        built.leave(outputs=[result]).leave(outputs=[result])
        built.record("block", Role.GRAD_OUTPUT, arriving)
        built.record("block.branch", Role.GRAD_OUTPUT, None if total is None and side else arriving)
        given = behind if total is None and side else found
        for module in ("block.branch", "block", ""):
            built.record(module, Role.GRAD_INPUT, given, slot="[0]")
        paths.append(built.write(tmp_path / str(side)))
    return compare(paths[0], paths[1], CompareSettings()).origins[0]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("total", "said"),
    [
        (BEHIND, "lacks that of own output"),
        (ARRIVING, "is that of own output alone"),
        (2 * ARRIVING + BEHIND, "holds that of own output besides"),
    ],
)
def test_the_branch_that_a_gradient_lacks_is_named(
    total: Array, said: str, dtype: type, tmp_path: Path
) -> None:
    found = residual(total.astype(dtype), tmp_path, dtype)

    assert found.phase is Phase.BACKWARD
    assert names(found) == ["cut"]
    assert said in found.causes[0].text


def test_a_gradient_that_is_wrong_in_another_way_lacks_no_branch(tmp_path: Path) -> None:
    found = residual(ARRIVING + BEHIND + normal(2, 6, 8, seed=24), tmp_path, np.float32)

    assert names(found) == []


def test_a_call_to_which_no_gradient_comes_back_is_named(tmp_path: Path) -> None:
    found = residual(None, tmp_path, np.float32)

    said = "no gradient comes back to .branch output on the candidate: the flow is cut behind it"
    assert found.evidence[0].startswith(said)
