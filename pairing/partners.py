"""Partners of two dumps, learned from their first steps before other steps are paired."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpError

from .entry import pair
from .run import RunPartners

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from contextlib import AbstractContextManager

    from .maps.mapfile import MapFile
    from .side import Side

    Place = tuple[int, int]

__all__ = ["learn_partners"]


def learn_partners(
    opened: Callable[[Place], AbstractContextManager[tuple[Side, Side]]],
    both: Collection[Place],
    places: Collection[Place],
    *,
    loaded: Sequence[tuple[str, str]] = (),
    map_file: MapFile | None = None,
) -> RunPartners:
    """Learn partners from the first step of each rank, unless that is paired anyway.

    Args:
        opened: Opens a step and rank of both dumps.
        both: The steps and ranks that both dumps have.
        places: The steps and ranks that will be paired with what this returns, the first first.
        loaded: Names of weights of the reference, and of those of the candidate made of them.
        map_file: What the user decided.

    Returns:
        The partners; what cannot be read teaches nothing.
    """
    run = RunPartners(loaded=loaded)
    firsts = {rank: min(step for step, other in both if other == rank) for _, rank in places}
    for place in sorted((step, rank) for rank, step in firsts.items()):
        if place in places:
            continue
        with suppress(DumpError), opened(place) as (one, two):
            pair(one, two, map_file=map_file, run=run, explains_unmatched=False)
    return run
