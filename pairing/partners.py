"""Partners of two dumps, learned from their first steps before other steps are paired."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpError

from .entry import pair
from .run import RunPartners

if TYPE_CHECKING:
    from collections.abc import Collection

    from padiff.dumpfile import Dump

    from .maps.mapfile import MapFile

__all__ = ["learn_partners"]


def learn_partners(
    reference: Dump,
    candidate: Dump,
    places: Collection[tuple[int, int]],
    map_file: MapFile | None = None,
) -> RunPartners:
    """Learn partners from the first step of each rank, unless that is paired anyway.

    Args:
        reference: The dump held to be right.
        candidate: The dump to judge.
        places: The steps and ranks that will be paired with what this returns, the first first.
        map_file: What the user decided.

    Returns:
        The partners; what cannot be read teaches nothing.
    """
    run = RunPartners(loaded=candidate.loaded_weights)
    sides = [{(info.step, info.rank) for info in dump.files} for dump in (reference, candidate)]
    both = sides[0] & sides[1]
    firsts = {rank: min(step for step, other in both if other == rank) for _, rank in places}
    for place in sorted((step, rank) for rank, step in firsts.items()):
        if place in places:
            continue
        with (
            suppress(DumpError),
            reference.open(*place) as one,
            candidate.open(*place, like=one) as two,
        ):
            pair(one, two, map_file=map_file, run=run, explains_unmatched=False)
    return run
