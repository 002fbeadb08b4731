"""All judged pairs of a step, of which those that simply agree are made only if looked at."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Protocol, overload

from padiff.dumpfile.bulk import collector_paused

from .later import packed, unpacked
from .saying import is_within, pressure_of, saying_of, spot_of
from .stored import opened

if TYPE_CHECKING:
    from .result import JudgedPair
    from .saying import Saying, Spot

__all__ = [
    "JudgedPairs",
    "PackedPairs",
    "Plain",
    "packed_pairs",
    "picked",
    "remarkable",
    "replaced",
]


class Plain(Protocol):
    """The pairs of a step that match and of which nothing else is to be said, as columns.

    All that is asked of it leaves out the places that are given as ``told``: of the pairs there
    something is to be said after all.
    """

    def made(self, places: Sequence[int]) -> Sequence[JudgedPair]:
        """Make the judged pairs at some places."""

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        """Count the pairs by what a summary says of them."""

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        """Give (place, spot) of the first pair at each spot, in order."""

    def nearest(self, told: Set[int]) -> int | None:
        """Give the place of the first pair that uses up most of its absolute tolerance.

        None where no pair differs.
        """


Columns = tuple[Plain, Set[int]]
"""Pairs that simply match, and the places that they lack."""


class JudgedPairs(Sequence["JudgedPair"]):
    """The judged pairs of one step, in order; equal to the tuple of them.

    Most pairs of most comparisons match and there is nothing else to say of them. What is known of
    these stays in columns until somebody asks for them one by one; what reports say of all pairs
    together (``overview``) is read from the columns, too.
    """

    def __init__(
        self,
        count: int,
        told: Mapping[int, JudgedPair],
        plain: Plain | None,
        made: dict[int, JudgedPair] | None = None,
    ) -> None:
        """Keep what there is.

        Args:
            count: How many pairs there are.
            told: By place, at least all that do not match, are fatal, or have a reason.
            plain: The others; None if all of them are there.
            made: Those of the others that are there already, by place; more are added.
        """
        self._count = count
        self._told = told
        self._plain = plain
        """Let go with all that it refers to when all were made."""
        self._made = {} if made is None else made
        self._listed: list[tuple[int, JudgedPair]] | None = None
        """Those that are told, in order, once that was asked for."""
        self._all: tuple[JudgedPair, ...] | None = None
        """All, once they were made."""

    @overload
    def __getitem__(self, place: int) -> JudgedPair: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[JudgedPair, ...]: ...
    def __getitem__(self, place: int | slice) -> JudgedPair | tuple[JudgedPair, ...]:
        """Give one pair, or some."""
        if self._all is not None:
            return self._all[place]
        if isinstance(place, slice):
            return tuple(self.some(range(self._count)[place]))
        return self.some([range(self._count)[place]])[0]

    def __len__(self) -> int:
        """Count the pairs."""
        return self._count

    def __iter__(self) -> Iterator[JudgedPair]:
        """Yield the pairs."""
        if self._all is None:
            with collector_paused():
                self._all = tuple(self.some(range(self._count)))
            self._made = {}
            self._plain = None
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence has the same pairs."""
        if not isinstance(other, JudgedPairs | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Hash as the tuple of the pairs does."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show the tuple of the pairs."""
        return repr(tuple(self))

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as pairs; those that simply match are unpacked when they are looked at."""
        if isinstance(self._plain, PackedPairs):
            return _arrived, (self._count, self._told, self._plain)
        return _arrived, (self._count, *packed_pairs(self))

    def remarkable(self) -> Iterator[tuple[int, JudgedPair]]:
        """Yield (place, pair) of all that do not simply match, in order."""
        if self._listed is None:
            self._listed = sorted(self._told.items())
        return iter(self._listed)

    def columns(self) -> Columns | None:
        """Give those that simply match, and the places that they lack; None once all are made."""
        return None if self._plain is None else (self._plain, self._told.keys())

    def replaced(self, pairs: Mapping[int, JudgedPair]) -> JudgedPairs:
        """Give the same with other pairs at some places."""
        made = self._made if self._all is None else dict(enumerate(self._all))
        return JudgedPairs(self._count, {**self._told, **pairs}, self._plain, made)

    def some(self, places: Sequence[int]) -> list[JudgedPair]:
        """Give the pairs at some places; those that are not there yet are made in one go."""
        if self._all is not None:
            return [self._all[place] for place in places]
        told, made = self._told, self._made
        lacking = [place for place in places if place not in told and place not in made]
        if lacking and self._plain is not None:
            made.update(zip(lacking, self._plain.made(lacking), strict=True))
        return [told[place] if place in told else made[place] for place in places]


class PackedPairs:
    """Pairs that another process judged and that simply match.

    They are unpacked when they are looked at one by one, and not kept: they take 1 KiB each, packed
    50 bytes. What reports say of all of them together was found there.
    """

    def __init__(
        self,
        places: Sequence[int],
        data: bytes,
        said: tuple[tuple[Saying, int], ...],
        nearest: tuple[int, JudgedPair] | None,
    ) -> None:
        """Keep what arrived.

        Args:
            places: Of the pairs.
            data: They, packed.
            said: What a summary says of them, and of how many.
            nearest: The one that uses up most of its tolerance, and its place.
        """
        self._places = places
        self._data = data
        self._said = said
        self._nearest = nearest

    @classmethod
    def of(cls, pairs: Sequence[JudgedPair], told: Set[int]) -> PackedPairs:
        """Pack the pairs at all other places."""
        others = [(place, pair) for place, pair in enumerate(pairs) if place not in told]
        said = Counter(saying_of(pair) for _, pair in others)
        return cls(
            array("I", [place for place, _ in others]),
            packed(pair for _, pair in others),
            tuple(said.items()),
            _nearest(others),
        )

    def made(self, places: Sequence[int]) -> Sequence[JudgedPair]:
        """Unpack the pairs at some places."""
        if self._nearest is not None and list(places) == [self._nearest[0]]:
            return [self._nearest[1]]
        found = dict(self._unpacked(frozenset()))
        return [found[place] for place in places]

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        """Count the pairs by what a summary says of them."""
        if self._has_any(told):
            return Counter(saying_of(pair) for _, pair in self._unpacked(told))
        return Counter(dict(self._said))

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        """Give (place, spot) of the first pair at each spot, in order."""
        found: dict[Spot, int] = {}
        for place, pair in self._unpacked(told):
            found.setdefault(spot_of(pair), place)
        return [(place, spot) for spot, place in found.items()]

    def nearest(self, told: Set[int]) -> int | None:
        """Give the place of the first pair that uses up most of its absolute tolerance."""
        best = _nearest(self._unpacked(told)) if self._has_any(told) else self._nearest
        return None if best is None else best[0]

    def _has_any(self, told: Set[int]) -> bool:
        """Tell whether some of the pairs are told after all."""
        return not told.isdisjoint(self._places)

    def _unpacked(self, told: Set[int]) -> list[tuple[int, JudgedPair]]:
        with collector_paused():
            pairs = zip(self._places, unpacked(self._data), strict=True)
            return [(place, pair) for place, pair in pairs if place not in told]


def _nearest(pairs: Sequence[tuple[int, JudgedPair]]) -> tuple[int, JudgedPair] | None:
    within = [(place, pair) for place, pair in pairs if is_within(pair)]
    return max(within, key=lambda one: (pressure_of(one[1]), -one[0]), default=None)


def packed_pairs(pairs: Sequence[JudgedPair]) -> tuple[dict[int, JudgedPair], PackedPairs]:
    """Return by place those that do not simply match, and the others packed."""
    told = {
        place: pair
        for place, pair in remarkable(pairs)
        if pair.verdict != "match" or pair.fatal or pair.reason or pair.sampled_of is not None
    }
    return told, PackedPairs.of(pairs, told.keys())


def _arrived(count: int, told: Mapping[int, JudgedPair], plain: Plain) -> JudgedPairs:
    return JudgedPairs(count, told, plain)


def remarkable(pairs: Sequence[JudgedPair]) -> Iterator[tuple[int, JudgedPair]]:
    """Yield (place, pair) of at least all that do not match, are fatal, or have a reason."""
    found = opened(pairs)
    return found.remarkable() if isinstance(found, JudgedPairs) else enumerate(found)


def replaced(pairs: Sequence[JudgedPair], others: Mapping[int, JudgedPair]) -> Sequence[JudgedPair]:
    """Give judged pairs with others at some places."""
    if isinstance(pairs, JudgedPairs):
        return pairs.replaced(others)
    return tuple([others.get(place, pair) for place, pair in enumerate(pairs)])


def picked(pairs: Sequence[JudgedPair], places: Sequence[int]) -> list[JudgedPair]:
    """Give the judged pairs at some places."""
    return pairs.some(places) if isinstance(pairs, JudgedPairs) else [pairs[at] for at in places]
