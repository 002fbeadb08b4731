"""What comes nearest to a parameter that has no partner, for the reader who looks for it."""

from __future__ import annotations

from bisect import bisect_left
from heapq import nsmallest
from typing import TYPE_CHECKING

from padiff.pairing.names import likeness, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .inventory import Entry

__all__ = ["Nearest"]

_MAX_CLOSEST = 3
_MAX_LOOKS = 200_000
"""So many parameters are looked at in all, about; of more, those at about the same place."""
_LEAST = 8
Shape = tuple[int, ...]


class Nearest:
    """The parameters of one side that are alone, those of a shape together."""

    def __init__(self, entries: Sequence[Entry], count: int) -> None:
        """Take them.

        Args:
            entries: In definition order.
            count: How many of the other side will be asked for.
        """
        self._width = max(_LEAST, _MAX_LOOKS // max(1, count))
        self._asked = 0
        self._share = len(entries) / max(1, count)
        self._all = list(entries)
        self._words = [words_of(entry.name) for entry in entries]
        self._by_shape: dict[Shape, list[int]] = {}
        for place, entry in enumerate(entries):
            self._by_shape.setdefault(_form(entry), []).append(place)

    def to(self, entry: Entry) -> tuple[int, ...]:
        """Give up to three records of the same lengths, then of other lengths, by their names.

        Args:
            entry: Each of the other side in its turn, in definition order.
        """
        middle = int(self._asked * self._share)
        self._asked += 1
        words = words_of(entry.name)

        def distance(place: int) -> tuple[float, int]:
            return -likeness(words, self._words[place]), place

        fitting = self._by_shape.get(_form(entry), [])
        found = nsmallest(_MAX_CLOSEST, self._around(fitting, middle), key=distance)
        if len(fitting) < _MAX_CLOSEST:
            same = set(fitting)
            rest = [p for p in self._around(range(len(self._all)), middle) if p not in same]
            found += nsmallest(_MAX_CLOSEST - len(found), rest, key=distance)
        return tuple(self._all[place].record.id for place in found)

    def _around(self, places: Sequence[int], middle: int) -> Sequence[int]:
        """Give the places, of too many those around the middle; they ascend."""
        if len(places) <= self._width:
            return places
        at = bisect_left(places, middle)
        start = min(max(0, at - self._width // 2), len(places) - self._width)
        return places[start : start + self._width]


def _form(entry: Entry) -> Shape:
    return tuple(sorted(entry.neutral_shape))
