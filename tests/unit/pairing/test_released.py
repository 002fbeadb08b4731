"""What pairing worked out goes when its result is taken: no cycle keeps the indexes of a step.

The collector sees a whole process, so pairing has one of its own here: what threads of other tests
leave behind is not pairing's.
"""

from __future__ import annotations

import gc
import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import pytest

from padiff.pairing import pair
from tests.support import treegen
from tests.support.extremes import Dialect, extreme

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def own_process() -> Iterator[ProcessPoolExecutor]:
    """Give a process in which nothing else has run."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        yield pool


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
def test_nothing_is_left_in_cycles(own_process: ProcessPoolExecutor, kind: str, seed: int) -> None:
    assert own_process.submit(lost_in_cycles, kind, seed).result() == set()
