"""What stands beside a module in the tree, and below it for what only one side has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumpfile import Phase
from tests.support.drawing import draw
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from pathlib import Path

X, WEIGHT = normal(2, 8, seed=1), normal(8, 8, seed=3)
POSITIONS = np.arange(5)


def net(path: Path, *, is_given: bool, is_told: bool = False) -> Path:
    """Write a stack of layers, each of which may be given positions or tell them."""
    built = DumpBuilder().module("", "Net").enter("", inputs=[X])
    if not is_given:
        built.module("wrap", "Identity").call("wrap", inputs=[X], outputs=[X])
    made = X
    for layer in ("first", "second", "third"):
        built.module(layer, "Linear").tensor(layer, "weight", WEIGHT)
        before, made = made, np.matmul(made, WEIGHT)
        extra = [POSITIONS]
        built.call(
            layer,
            inputs=[before, *extra] if is_given else [before],
            outputs=[made, *extra] if is_told else [made],
        )
    return built.leave(outputs=[made]).write(path)


def compared(tmp_path: Path, *, is_told: bool = False) -> Comparison:
    reference = net(tmp_path / "known", is_given=True, is_told=is_told)
    return compare(reference, net(tmp_path / "found", is_given=False), CompareSettings())


def verdicts(result: Comparison) -> dict[str, Verdict]:
    rows = result.steps[0].tree
    return {row.reference: row.worst[Phase.FORWARD] for row in rows if row.reference is not None}


def test_an_argument_of_one_side_alone_does_not_stand_for_the_module(tmp_path: Path) -> None:
    result = compared(tmp_path)

    assert verdicts(result) == dict.fromkeys(("", "first", "second", "third"), Verdict.MATCH)
    left_out = draw(result).partition("NOT COMPARED")[2]
    assert "3 records without counterpart" in left_out
    assert "first input[1] and 2 more" in left_out
    assert "third input[1]" in draw(result, verbose=True).partition("NOT COMPARED")[2]


def test_an_output_of_one_side_alone_does(tmp_path: Path) -> None:
    assert verdicts(compared(tmp_path, is_told=True))["second"] is Verdict.MISSING
