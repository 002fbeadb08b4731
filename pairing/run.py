"""What the steps and ranks of two runs know of partners, and learning it from their first steps.

An update moves weights so that layers of a kind look alike: after Adam's first step each norm is
ones and zeros plus or minus one rate. What a step says of partners is therefore taken from the
first one, where values prove it, and not asked anew of each.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpError

from .entry import pair

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from padiff.pairing.calls.calls import CallPairs
    from padiff.pairing.calls.proof import Proofs
    from padiff.pairing.maps.mapfile import MapFile
    from padiff.pairing.weights.weight_plan import WeightPlan

    from .result import ModulePair
    from .side import Side

    Place = tuple[int, int]

__all__ = ["Alignment", "KnownAlignment", "RunPartners", "learn_partners"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Partners that hold for all steps and ranks of the same structure."""

    calls: CallPairs
    modules: tuple[ModulePair, ...]
    proofs: Proofs
    hidden: tuple[Mapping[int, str], Mapping[int, str]]
    """Calls of each side that the other does without calling a module."""
    plan: WeightPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAlignment:
    """An alignment with where it was made."""

    place: str
    structure: Hashable
    alignment: Alignment
    overruled: frozenset[tuple[int, int]]
    """Calls that values would pair otherwise, and that other evidence did not there."""


@dataclass(slots=True, kw_only=True)
class RunPartners:
    """What is known of the partners of two runs, from the steps that were paired so far."""

    loaded: Sequence[tuple[str, str]] = ()
    """Names of weights of the reference and of those of the candidate that were made of them."""
    known: list[KnownAlignment] = field(default_factory=list)
    sure: dict[str, str] = field(default_factory=dict)
    """Paths of modules whose partner is in no doubt."""
    first_update: int | None = None
    """The first step that ended with an update."""


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
