"""All judged pairs of a step, of which those that simply agree are made only if looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Protocol, overload

from padiff.dumpfile.bulk import collector_paused

from .later import packed, unpacked

if TYPE_CHECKING:
    from collections import Counter

    from .overview import Saying, Spot
    from .result import JudgedPair

__all__ = ["JudgedPairs", "Plain", "picked", "remarkable", "replaced"]


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
        told = {
            place: pair
            for place, pair in self.remarkable()
            if pair.verdict != "match" or pair.fatal or pair.reason
        }
        others = [pair for place, pair in enumerate(self) if place not in told]
        return _Arrived, (self._count, told, packed(others))

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


class _Arrived(JudgedPairs):
    """Pairs that another process judged."""

    def __init__(self, count: int, told: Mapping[int, JudgedPair], others: bytes) -> None:
        super().__init__(count, told, None)
        self._others = others

    def __reduce__(self) -> tuple[object, ...]:
        return _Arrived, (self._count, self._told, self._others)

    def replaced(self, pairs: Mapping[int, JudgedPair]) -> JudgedPairs:
        self.some(())
        return super().replaced(pairs)

    def some(self, places: Sequence[int]) -> list[JudgedPair]:
        if self._all is None:
            others = iter(unpacked(self._others))
            told = self._told
            self._all = tuple(
                [told[place] if place in told else next(others) for place in range(self._count)]
            )
        return super().some(places)


def remarkable(pairs: Sequence[JudgedPair]) -> Iterator[tuple[int, JudgedPair]]:
    """Yield (place, pair) of at least all that do not match, are fatal, or have a reason."""
    return pairs.remarkable() if isinstance(pairs, JudgedPairs) else enumerate(pairs)


def replaced(pairs: Sequence[JudgedPair], others: Mapping[int, JudgedPair]) -> Sequence[JudgedPair]:
    """Give judged pairs with others at some places."""
    if isinstance(pairs, JudgedPairs):
        return pairs.replaced(others)
    return tuple([others.get(place, pair) for place, pair in enumerate(pairs)])


def picked(pairs: Sequence[JudgedPair], places: Sequence[int]) -> list[JudgedPair]:
    """Give the judged pairs at some places."""
    return pairs.some(places) if isinstance(pairs, JudgedPairs) else [pairs[at] for at in places]
