"""Stages of a pipeline make one tree, and their microbatches one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer import compare
from padiff.comparer.sharding.joining import join
from padiff.dumpfile import CompareError, Role
from tests.support.dumps import DumpBuilder, write_dump

if TYPE_CHECKING:
    from pathlib import Path

Array = np.ndarray[Any, Any]
DRAW = np.random.default_rng(0)
X, UP, DOWN = (DRAW.standard_normal(shape).astype(np.float32) for shape in ((4, 4), (6, 4), (3, 6)))
Y = X @ UP.T
Z = Y @ DOWN.T


def stage(
    rank: int, name: str, weight: Array, taken: Array, given: Array, runs: int
) -> DumpBuilder:
    """Build one stage, which runs some microbatches."""
    made = DumpBuilder().module("", "Net").module(name, "Linear").tensor(name, "weight", weight)
    for x, y in zip(np.split(taken, runs), np.split(given, runs), strict=True):
        made.enter("", inputs=[x]).call(name, inputs=[x], outputs=[y]).leave(outputs=[y])
    for call, y in enumerate(np.split(given, runs)):
        made.record(name, Role.GRAD_OUTPUT, runs * y, call=call)
    made.rank = rank
    return made


def stages(runs: int = 1, name: str = "fc2") -> list[DumpBuilder]:
    return [stage(0, "fc1", UP, X, Y, runs), stage(1, name, DOWN, Y, Z, runs)]


def whole() -> DumpBuilder:
    return (
        DumpBuilder()
        .module("", "Net")
        .module("fc1", "Linear")
        .module("fc2", "Linear")
        .tensor("fc1", "weight", UP)
        .tensor("fc2", "weight", DOWN)
        .enter("", inputs=[X])
        .call("fc1", inputs=[X], outputs=[Y])
        .call("fc2", inputs=[Y], outputs=[Z])
        .leave(outputs=[Z])
        .record("fc2", Role.GRAD_OUTPUT, Z)
        .record("fc1", Role.GRAD_OUTPUT, Y)
    )


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_stages_and_microbatches_match_one_run(tmp_path: Path, runs: int) -> None:
    known = whole().write(tmp_path / "one")
    found = write_dump(tmp_path / "two", *stages(runs))

    result = compare(known, found)

    assert result.verdict == "match", result.reasons
    assert result.counts["match"] == 10
    assert result.counts["skipped"] == result.counts["missing"] == 0


def test_stages_follow_each_other_and_the_backward_pass_turns_round() -> None:
    joined = join({built.rank: built.side().index for built in stages()})

    paths = [joined.modules[call.module].path for call in joined.calls]
    gradients = [one for one in joined.records if one.key.role is Role.GRAD_OUTPUT]
    assert paths == ["", "fc1", "fc2"]
    assert [call.parent for call in joined.calls] == [None, 0, 0]
    assert [one.key.module for one in gradients] == ["fc2", "fc1"]


def test_model_takes_what_the_first_stage_takes_and_gives_what_the_last_gives() -> None:
    joined = join({built.rank: built.side().index for built in stages()})

    ranks = {one.key.role: list(one.parts) for one in joined.records if not one.key.module}
    assert ranks == {Role.INPUT: [0], Role.OUTPUT: [1]}


def test_stages_with_other_weights_of_one_name_are_an_error() -> None:
    built = stages()
    for one in built:
        one.module("own" + str(one.rank), "Identity")
    built[1] = stage(1, "fc1", DOWN, Y, Z, 1).module("own1", "Identity")

    with pytest.raises(CompareError, match=r"'fc1.weight' is another weight on each"):
        join({one.rank: one.side().index for one in built})
