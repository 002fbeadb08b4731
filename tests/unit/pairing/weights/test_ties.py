"""Weights that only one side ties are remarked upon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing import pair
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from tests.support.dumps import MemorySide


def net(*, is_tied: bool) -> MemorySide:
    table = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    built = DumpBuilder().module("", "Net").module("embed", "Embedding").module("head", "Linear")
    for number, owner in enumerate(("embed", "head")):
        built.tensor(owner, "weight", table, tensor=0 if is_tied else number)
    built.enter("").call("embed", outputs=[table[:2]])
    built.call("head", inputs=[table[:2]], outputs=[table[:2] @ table.T])
    return built.leave().side()


def test_a_tie_of_one_side_is_noted_on_either_side() -> None:
    for sides, word in (((True, False), "reference"), ((False, True), "candidate")):
        notes = pair(*(net(is_tied=tied) for tied in sides)).notes

        assert [f"one tensor on the {word}" in note for note in notes] == [True]
        assert "'embed.weight' and 'head.weight'" in notes[0]


def test_equal_ties_are_no_remark() -> None:
    for tied in (True, False):
        assert pair(net(is_tied=tied), net(is_tied=tied)).notes == ()
