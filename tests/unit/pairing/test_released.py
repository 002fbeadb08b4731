"""What pairing worked out goes when its result is taken: no cycle keeps the indexes of a step."""

from __future__ import annotations

import gc
import random

import pytest

from padiff.pairing import pair
from tests.support import treegen
from tests.support.extremes import Dialect, extreme


def lost_in_cycles(kind: str, seed: int) -> set[str]:
    """Pair, and give the kinds of objects that only the collector frees."""
    if kind == "port":
        generator = random.Random(seed)
        planted = treegen.plant(generator, 12, is_rich=True)
        other = planted
        for change in (treegen.wrapped, treegen.renamed, treegen.functional):
            other = change(other, generator)
        other = treegen.reseeded(other) if seed else other
        sides = treegen.run(planted, "torch").side, treegen.run(other, "paddle").side
    else:
        sides = extreme(kind, 40, Dialect.SAME), extreme(kind, 40, Dialect.STRANGE, seed=seed)
    pair(*sides)  # caches fill and modules load
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        pair(*sides)
        gc.collect()
        return {type(one).__name__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "kind", ["port", "attentions", "branches of convolutions", "blocks of unknown classes"]
)
def test_nothing_is_left_in_cycles(kind: str, seed: int) -> None:
    assert lost_in_cycles(kind, seed) == set()
