"""Sequences that are made when somebody looks into them, as most of a result is never looked at."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from padiff.dumpfile.bulk import collector_paused

Item_co = TypeVar("Item_co", covariant=True)

_LEVEL = 1
"""Of compression: the fastest."""


class Later(Sequence[Item_co]):
    """A sequence that is made once, at the first look; equal to the tuple of its items."""

    def __init__(self, make: Callable[[], Iterable[Item_co]]) -> None:
        """Keep how to make the items, with all that it refers to, until they are made.

        Args:
            make: Makes them. Must not need a file that may be closed by then.
        """
        self._make: Callable[[], Iterable[Item_co]] | None = make
        self._items: tuple[Item_co, ...] = ()

    @overload
    def __getitem__(self, place: int) -> Item_co: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Item_co, ...]: ...
    def __getitem__(self, place: int | slice) -> Item_co | tuple[Item_co, ...]:
        """Give one item, or some."""
        return self._all()[place]

    def __len__(self) -> int:
        """Count the items."""
        return len(self._all())

    def __iter__(self) -> Iterator[Item_co]:
        """Yield the items."""
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        """Tell whether another sequence has the same items."""
        if not isinstance(other, Later | tuple):
            return NotImplemented
        return self._all() == tuple(other)

    def __hash__(self) -> int:
        """Hash as the tuple of the items does."""
        return hash(self._all())

    def __repr__(self) -> str:
        """Show the tuple of the items."""
        return repr(self._all())

    def __reduce__(self) -> tuple[object, ...]:
        """Travel as items that are unpacked at the first look, too."""
        return _later, (packed(self._all()),)

    def _all(self) -> tuple[Item_co, ...]:
        if self._make is not None:
            with collector_paused():
                self._items = tuple(self._make())
            self._make = None
        return self._items


def packed(items: Iterable[object]) -> bytes:
    """Return items as they travel to another process, and wait there until they are looked at."""
    return zlib.compress(pickle.dumps(tuple(items), pickle.HIGHEST_PROTOCOL), _LEVEL)


def unpacked(data: bytes) -> tuple[Any, ...]:
    """Return the items that another of our processes packed."""
    found: tuple[Any, ...] = pickle.loads(zlib.decompress(data))
    return found


def _later(data: bytes) -> Later[Any]:
    return Later(partial(unpacked, data))
