"""A BatchNorm that applies its own activation, against BatchNorm and ReLU."""

from __future__ import annotations

import numpy as np

from padiff.pairing import Absence, pair
from tests.support.dumps import DumpBuilder, MemorySide

RANDOM = np.random.default_rng(0)
DATA, NORMED = (RANDOM.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
WEIGHT = RANDOM.uniform(0.5, 1.5, 4).astype(np.float32)
ACTIVE = np.maximum(NORMED, 0)


def separate() -> MemorySide:
    built = DumpBuilder(framework="torch").module("", "Net").module("bn", "BatchNorm1d")
    built.module("relu", "ReLU").tensor("bn", "weight", WEIGHT).enter("", inputs=[DATA])
    built.call("bn", inputs=[DATA], outputs=[NORMED])
    return built.call("relu", inputs=[NORMED], outputs=[ACTIVE]).leave(outputs=[ACTIVE]).side()


def fused() -> MemorySide:
    built = DumpBuilder(framework="paddle").module("", "Net")
    built.module("bn", "BatchNorm", attributes={"act": "relu"}).tensor("bn", "weight", WEIGHT)
    built.enter("", inputs=[DATA]).call("bn", inputs=[DATA], outputs=[ACTIVE])
    return built.leave(outputs=[ACTIVE]).side()


def test_an_activated_output_is_paired_with_that_of_the_activation() -> None:
    reference, candidate = separate(), fused()

    found = pair(reference, candidate)

    pairs = {
        (
            str(reference.index.address(reference.index.records[p.reference[0]])),
            str(candidate.index.address(candidate.index.records[p.candidate])),
        )
        for p in found.records
    }
    assert ("step 0 relu#0 output", "step 0 bn#0 output") in pairs
    assert ("step 0 bn#0 output", "step 0 bn#0 output") not in pairs


def test_it_works_the_other_way_round() -> None:
    ahead, back = pair(separate(), fused()), pair(fused(), separate())

    assert {(p.reference, (p.candidate,)) for p in ahead.records} == {
        ((p.candidate,), p.reference) for p in back.records
    }


def test_the_value_before_the_activation_is_skipped_with_its_reason() -> None:
    found = pair(separate(), fused())

    alone = [u for u in found.unmatched if u.absence is not Absence.COVERED]
    assert {u.absence for u in alone} == {Absence.SKIPPED}
    assert {"BatchNorm(act='relu')" in u.reason for u in alone} == {True}
