"""Pair two sides of a comparison: at once where they are equal, else stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile.bulk import collector_paused

from .equal import pair_equal
from .maps.mapfile import MapFile
from .weights.class_rule import registered_classes

if TYPE_CHECKING:
    from .result import Pairing
    from .run import RunPartners
    from .side import Side

__all__ = ["pair"]


def pair(
    reference: Side,
    candidate: Side,
    *,
    map_file: MapFile | None = None,
    explains_unmatched: bool = True,
    run: RunPartners | None = None,
) -> Pairing:
    """Find what of the candidate should equal what of the reference.

    Args:
        reference: One step and rank of the dump held to be right.
        candidate: The same step and rank of the dump to judge.
        map_file: What the user decided; it goes before everything else.
        explains_unmatched: Whether records without a pair are listed, each with the reason. It is
            looked for in their elements, which takes long where two runs have little in common.
        run: What other steps and ranks of the same two runs say of partners; learns from these.

    Returns:
        Every record of both sides, paired or with the reason why not. Deterministic; the
        pairs of a dump with itself are the identity; exchanging the sides exchanges the result.

    Raises:
        ConfigError: An entry of the map file matches nothing.
    """
    with collector_paused():
        chosen = map_file or MapFile()
        is_free = chosen == MapFile() and not registered_classes()
        equal = pair_equal(reference, candidate) if is_free else None
        if equal is not None:
            return equal
        from .stages import pair_by_stages  # noqa: PLC0415 -- four fifths of this package

        return pair_by_stages(
            reference, candidate, chosen, run, explains_unmatched=explains_unmatched
        )
