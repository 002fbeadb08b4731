"""What the loading of weights, and earlier steps, say of partners."""

from __future__ import annotations

import numpy as np

from padiff.dumpfile import Phase, Role
from padiff.pairing import Pairing, RunPartners, pair
from tests.support.dumps import DumpBuilder

BATCH, WIDTH, COUNT = 3, 4, 3


def numbers(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal((WIDTH, WIDTH), np.float32)


def side(
    names: str,
    seeds: tuple[int, ...],
    *,
    step: int = 0,
    off: float = 0.0,
    has_update: bool = False,
) -> DumpBuilder:
    """Build Linears that ran in this order, whose outputs say nothing of which is which."""
    builder = DumpBuilder(step=step).module("", "Net")
    for name in names:
        builder.module(name, "Linear")
    for name, seed in zip(names, seeds, strict=True):
        builder.tensor(name, "weight", (numbers(seed) * np.float32(1 + off)).astype(np.float32))
    x = np.ones((BATCH, WIDTH), np.float32)
    builder.enter("", inputs=[x])
    for name in names:
        builder.call(name, inputs=[x], outputs=[x])
    builder.leave(outputs=[x])
    for name, seed in zip(names if has_update else "", seeds, strict=False):
        builder.record(name, Role.WEIGHT, numbers(seed), slot=".weight", phase=Phase.UPDATE)
    return builder


def partners(reference: DumpBuilder, candidate: DumpBuilder, found: Pairing) -> dict[str, str]:
    """Give the paths of the paired modules."""
    return {
        reference.modules[one.reference].path: candidate.modules[one.candidate].path
        for one in found.modules
        if reference.modules[one.reference].path
    }


def paired(
    reference: DumpBuilder, candidate: DumpBuilder, run: RunPartners | None = None
) -> dict[str, str]:
    return partners(reference, candidate, pair(reference.side(), candidate.side(), run=run))


LOADED = (("a.weight", "z.weight"), ("b.weight", "x.weight"), ("c.weight", "y.weight"))
TURNED = {"a": "z", "b": "x", "c": "y"}
ORDER = {"a": "x", "b": "y", "c": "z"}
ROUNDED = 1e-3
"""As far as a dtype of half the width moves a weight."""


def test_weights_that_were_loaded_tell_partners_whatever_their_dtype() -> None:
    reference, candidate = side("abc", (0, 1, 2)), side("xyz", (1, 2, 0), off=ROUNDED)
    assert paired(reference, candidate) == ORDER

    assert paired(reference, candidate, RunPartners(loaded=LOADED)) == TURNED


def test_loading_of_weights_that_are_others_by_now_says_nothing() -> None:
    reference, candidate = side("abc", (0, 1, 2)), side("xyz", (4, 5, 6))

    assert paired(reference, candidate, RunPartners(loaded=LOADED)) == ORDER


def test_loading_of_equal_weights_says_nothing() -> None:
    reference, candidate = side("abc", (0, 0, 0)), side("xyz", (0, 0, 0), off=ROUNDED)

    assert paired(reference, candidate, RunPartners(loaded=LOADED)) == ORDER


def test_later_step_takes_partners_from_the_first() -> None:
    run = RunPartners()
    first = side("abc", (0, 1, 2), has_update=True), side("xyz", (1, 2, 0), has_update=True)
    later = side("abc", (0, 1, 2), step=1), side("xyz", (0, 1, 2), step=1)

    assert paired(*first, run) == TURNED
    assert paired(*later, run) == TURNED


def test_later_step_of_other_calls_is_told_by_what_is_known() -> None:
    run = RunPartners()
    first = side("abc", (0, 1, 2), has_update=True), side("xyz", (1, 2, 0), has_update=True)
    later = side("abc", (0, 1, 2), step=1), side("xyz", (0, 1, 2), step=1)
    for builder, name in zip(later, "ax", strict=True):
        builder.module(f"{name}.more", "Identity")

    assert paired(*first, run) == TURNED
    found = paired(*later, run)
    assert {name: found[name] for name in TURNED} == TURNED


def test_step_that_says_otherwise_is_noted() -> None:
    run = RunPartners()
    first = side("abc", (0, 1, 2)), side("xyz", (1, 2, 0))
    later = side("abc", (0, 1, 2), step=1), side("xyz", (0, 1, 2), step=1)
    pair(first[0].side(), first[1].side(), run=run)

    notes = pair(later[0].side(), later[1].side(), run=run).notes

    assert any("'a' with 'x'" in note and "step 0 were kept" in note for note in notes)
