"""All judged pairs of a step, of which those that simply agree are made only if looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, overload

from padiff.dumpfile.bulk import collector_paused

if TYPE_CHECKING:
    from .result import JudgedPair

__all__ = ["JudgedPairs", "picked", "remarkable", "replaced"]


class JudgedPairs(Sequence["JudgedPair"]):
    """The judged pairs of one step, in order; equal to the tuple of them.

    Most pairs of most comparisons match and there is nothing else to say of them. What is known of
    these stays in columns until somebody asks for them one by one.
    """

    def __init__(
        self,
        count: int,
        told: Mapping[int, JudgedPair],
        make: Callable[[Sequence[int]], Sequence[JudgedPair]],
    ) -> None:
        """Keep what there is.

        Args:
            count: How many pairs there are.
            told: By place, at least all that do not match, are fatal, or have a reason.
            make: Makes those of the others that stand at the places given.
        """
        self._count = count
        self._told = told
        self._make: Callable[[Sequence[int]], Sequence[JudgedPair]] | None = make
        """Let go with all that it refers to when all were made."""
        self._plain: dict[int, JudgedPair] = {}
        """Of the others, those that were made."""
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
            self._plain = {}
            self._make = None
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

    def remarkable(self) -> Iterator[tuple[int, JudgedPair]]:
        """Yield (place, pair) of all that do not simply match, in order."""
        return iter(sorted(self._told.items()))

    def replaced(self, pairs: Mapping[int, JudgedPair]) -> JudgedPairs:
        """Give the same with other pairs at some places."""
        return JudgedPairs(self._count, {**self._told, **pairs}, self.some)

    def some(self, places: Sequence[int]) -> list[JudgedPair]:
        """Give the pairs at some places; those that are not there yet are made in one go."""
        if self._all is not None:
            return [self._all[place] for place in places]
        told, plain = self._told, self._plain
        lacking = [place for place in places if place not in told and place not in plain]
        if lacking and self._make is not None:
            plain.update(zip(lacking, self._make(lacking), strict=True))
        return [told[place] if place in told else plain[place] for place in places]


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
