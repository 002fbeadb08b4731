"""Sequences of which the items lie in a file: they are read at each look, and not kept.

They stand in the fields of a step for tuples, which they are equal to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast, overload

from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from .judgedpairs import Saying
    from .result import Divergence, JudgedPair

Item_co = TypeVar("Item_co", covariant=True)
Item = TypeVar("Item")

Divergences = Sequence["Divergence"]
_PHASES = tuple(Phase)


class LikeTuple(Sequence[Item_co]):
    """A sequence that stands for the tuple of its items: equal to it, with its hash and repr."""

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has the same items."""
        if not isinstance(other, LikeTuple | tuple):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Hash as the tuple of the items does."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show the tuple of the items."""
        return repr(tuple(self))


class Stored(LikeTuple[Item_co]):
    """A sequence that is read whenever somebody looks into it; equal to the tuple of its items."""

    def __init__(self, count: int, read: Callable[[], Sequence[Item_co]]) -> None:
        """Keep where the items are."""
        self._count = count
        self._read = read

    @overload
    def __getitem__(self, place: int) -> Item_co: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item_co]: ...
    def __getitem__(self, place: int | slice) -> Item_co | Sequence[Item_co]:
        """Return one item, or some."""
        return self._read()[place]

    def __len__(self) -> int:
        """Count the items, without reading them."""
        return self._count

    def __iter__(self) -> Iterator[Item_co]:
        """Yield the items."""
        return iter(self._read())

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as the items: the file may not be there where they arrive."""
        return tuple, (list(self._read()),)

    def read(self) -> Sequence[Item_co]:
        """Read all items."""
        return self._read()

    def changed(
        self: Stored[Item], change: Callable[[Sequence[Item]], Sequence[Item]]
    ) -> Stored[Item]:
        """Return the same with a change that is made after each reading.

        Args:
            change: Makes it; the number of items must stay.
        """
        return Stored(self._count, lambda: change(self._read()))


class StoredPairs(Stored["JudgedPair"]):
    """The judged pairs of a step; what summaries say of them is known without reading."""

    def __init__(
        self,
        count: int,
        read: Callable[[], Sequence[JudgedPair]],
        said: tuple[tuple[Saying, int], ...],
        nearest: tuple[float, int] | None,
    ) -> None:
        """Keep what is known.

        Args:
            count: How many there are.
            read: Reads all of them.
            said: What a summary says of them, and of how many.
            nearest: The part of its absolute tolerance that a matching pair uses up at most, and
                the place of the first such pair; None where none differs.
        """
        super().__init__(count, read)
        self.said = said
        self.nearest = nearest

    def changed(
        self, change: Callable[[Sequence[JudgedPair]], Sequence[JudgedPair]]
    ) -> StoredPairs:
        """Return the same with a change that summaries do not tell."""
        return StoredPairs(self._count, lambda: change(self._read()), self.said, self.nearest)


class StoredDivergences(Stored["Divergence"]):
    """The divergences of a step, of which the origins and the earliest are kept."""

    def __init__(
        self, count: int, read: Callable[[], Divergences], kept: Mapping[int, Divergence]
    ) -> None:
        """Keep what is known.

        Args:
            count: How many there are.
            read: Reads all of them.
            kept: By place, in order: the origins, and the first of the earliest phase.
        """
        super().__init__(count, read)
        self.kept = kept

    def changed_at(
        self, places: Collection[int], change: Callable[[Divergence], Divergence]
    ) -> StoredDivergences:
        """Return the same with some of them changed; none becomes an origin."""
        kept = {at: change(one) if at in places else one for at, one in self.kept.items()}
        return StoredDivergences(
            self._count, lambda: _changed_at(self._read(), places, change), kept
        )


def opened(items: Sequence[Item]) -> Sequence[Item]:
    """Return a sequence that is in memory."""
    return items.read() if isinstance(items, Stored) else items


def changed(
    items: Sequence[Item], change: Callable[[Sequence[Item]], Sequence[Item]]
) -> Sequence[Item]:
    """Change a sequence: at once what is in memory, else whenever it is read."""
    return items.changed(change) if isinstance(items, Stored) else change(items)


def changed_at(
    found: tuple[Divergence, ...],
    places: Collection[int],
    change: Callable[[Divergence], Divergence],
) -> tuple[Divergence, ...]:
    """Change some divergences: at once those in memory, else whenever they are read."""
    if isinstance(found, StoredDivergences):
        return cast("tuple[Divergence, ...]", found.changed_at(places, change))
    return _changed_at(found, places, change)


def origins_of(found: Divergences) -> list[Divergence]:
    """Return the origins among the divergences of a step, in order, without reading them."""
    known = found.kept.values() if isinstance(found, StoredDivergences) else found
    return [one for one in known if one.kind == "origin"]


def earliest_of(found: Divergences) -> Divergence | None:
    """Return the first divergence of the earliest phase of a step, without reading them."""
    known = found.kept.values() if isinstance(found, StoredDivergences) else found
    return min(known, key=lambda one: _PHASES.index(one.phase), default=None)


def kept_of(found: Divergences) -> dict[int, Divergence]:
    """Return by place what ``origins_of`` and ``earliest_of`` need."""
    earliest = earliest_of(found)
    return {
        place: one for place, one in enumerate(found) if one.kind == "origin" or one is earliest
    }


def _changed_at(
    found: Divergences, places: Collection[int], change: Callable[[Divergence], Divergence]
) -> tuple[Divergence, ...]:
    return tuple([change(one) if at in places else one for at, one in enumerate(found)])
