"""The pairs of a step that simply agree, as columns: made, counted and found by their places."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from padiff.comparer.judgedpairs import Saying, Spot
from padiff.comparer.result import Evidence, Verdict
from padiff.dumpfile import Phase, Role

from .numbered import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from padiff.comparer.result import JudgedPair
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import RecordPair

    from .blocks import Array
    from .building import Builder


class Judged(Protocol):
    """Pairs that were judged together, by row."""

    def built(self, rows: Sequence[int]) -> list[JudgedPair]:
        """Make judged pairs of some rows."""

    def pressures(self) -> Array:
        """Give the part of its absolute tolerance that each pair needs, float64, >= 0.

        0 where that tolerance is 0; -1 for pairs without any difference.
        """


@dataclass(frozen=True, kw_only=True)
class PlainPairs:
    """Pairs that agree, by their place among all; implements ``Plain``."""

    builder: Builder
    pairs: Sequence[RecordPair]
    groups: Sequence[tuple[Sequence[int], Judged]]
    """Those that were measured, with the places of their rows, ascending; the digests of the
    others are equal."""

    def made(self, places: Sequence[int]) -> list[JudgedPair]:
        """Make the judged pairs at some places."""
        found: dict[int, JudgedPair] = {}
        for (_, group), rows in zip(self.groups, self._rows, strict=True):
            mine = [at for at in places if at in rows]
            found |= zip(mine, group.built([rows[at] for at in mine]), strict=True)
        rest = [at for at in places if at not in found]
        equal = {"verdict": Verdict.MATCH, "equal_digest": True}
        found |= zip(
            rest, self.builder.built([self.pairs[at] for at in rest], same=equal), strict=True
        )
        return [found[at] for at in places]

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        """Count the pairs by what a summary says of them."""
        is_plain = self._is_plain(told)
        is_equal = is_plain.copy()
        for places, _ in self.groups:
            is_equal[places] = False
        roles = tuple(Role)
        codes = numbered([record.role for record in self._known], roles)
        found: Counter[Saying] = Counter()
        for is_digest, mask in ((True, is_equal), (False, is_plain & ~is_equal)):
            rests_on = Evidence.DIGEST if is_digest else Evidence.ELEMENTS
            counts = np.bincount(codes[mask], minlength=len(roles)).tolist()
            for role, count in zip(roles, counts, strict=True):
                if count:
                    saying = Saying(Verdict.MATCH, rests_on, role, is_digest)
                    found[saying] = count
        return found

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        """Give (place, spot) of the first pair at each spot, in order."""
        phases = tuple(Phase)
        at = np.flatnonzero(self._is_plain(told))
        modules = np.array([record.module for record in self._known], np.int64)
        codes = modules * len(phases) + numbered([record.phase for record in self._known], phases)
        _, firsts = np.unique(codes[at], return_index=True)
        places = np.sort(at[firsts])
        return [
            (place, Spot(record.module, record.phase, Verdict.MATCH))
            for place in places.tolist()
            for record in (self._known[place],)
        ]

    def nearest(self, told: Set[int]) -> int | None:
        """Give the place of the first pair that uses up most of its absolute tolerance."""
        is_plain = self._is_plain(told)
        best: tuple[float, int] | None = None
        for places, group in self.groups:
            found = np.where(is_plain[places], group.pressures(), -1.0)
            row = int(np.argmax(found)) if found.size else 0
            if found.size and found[row] >= 0:
                here = float(found[row]), -places[row]
                best = here if best is None else max(best, here)
        return None if best is None else -best[1]

    @cached_property
    def _known(self) -> list[RecordInfo]:
        """Give the reference's record of each pair, the first one of several."""
        records = self.builder.reference.records
        return [records[pair.reference[0]] for pair in self.pairs]

    @cached_property
    def _rows(self) -> list[dict[int, int]]:
        """Give for each group the row of each of its places."""
        return [{at: row for row, at in enumerate(places)} for places, _ in self.groups]

    def _is_plain(self, told: Set[int]) -> Array:
        """Tell of each pair whether it is not among those told."""
        mask = np.ones(len(self.pairs), np.bool_)
        mask[[place for place in told if place < len(self.pairs)]] = False
        return mask
