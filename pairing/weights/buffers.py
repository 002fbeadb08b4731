"""Buffers that are given others whose names say nothing of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy

from .unit_keys import value_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .inventory import Entry, Inventory
    from .weight_plan import WeightPair

__all__ = ["buffer_notes"]

_NUMBER = re.compile(r"\d+")


def buffer_notes(sides: tuple[Inventory, Inventory], pairs: Iterable[WeightPair]) -> Iterator[str]:
    """Say which buffers of users' own classes are given others for their size alone.

    One author keeps the logarithm of a decay, another the decay: a size does not tell that they
    are the same thing, as it may of the codes of two codebooks.

    Args:
        sides: Both sides.
        pairs: Of the plan.
    """
    told = {PairedBy.VALUE, PairedBy.MAP}
    open_ = [
        pair for pair in pairs
        if sides[1].side.index.records[pair.candidate].role is Role.BUFFER
        if pair.paired_by not in told and len(pair.reference) == 1
    ]  # fmt: skip
    if not open_:
        return
    ours, theirs = (_own(side) for side in sides)
    said: dict[str, None] = {}
    for pair in open_:
        one, two = ours.get(pair.reference[0]), theirs.get(pair.candidate)
        if one is None or two is None or words_of(one.local) & words_of(two.local):
            continue
        values = value_key(sides[0], one), value_key(sides[1], two)
        if None in values or values[0] != values[1]:
            said[f"{_NUMBER.sub('#', two.name)} by {_NUMBER.sub('#', one.name)}"] = None
    if said:
        given = ", ".join(said)
        yield f"buffers are overwritten by others of their size, and no name says so: {given}"


def _own(side: Inventory) -> dict[int, Entry]:
    """Give the entries of users' own classes by record."""
    return {
        entry.record.id: entry
        for unit in side.units
        if not unit.is_laid_out
        for entry in unit.entries
    }
