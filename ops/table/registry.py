"""All rows, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from . import (
    activations,
    elementwise,
    indexing,
    linear,
    losses,
    networks,
    reductions,
    shapes,
    transforms,
)

if TYPE_CHECKING:
    from .row import Row


class Operators(Mapping[str, "Row"]):
    """Rows by name, in the order of the table."""

    def __init__(self, rooms: Mapping[str, tuple[Row, ...]]) -> None:
        """Join rooms."""
        self._rows: dict[str, Row] = {}
        self._topics: dict[str, str] = {}
        for topic, rows in rooms.items():
            for one in rows:
                self.add(one, topic)

    def __getitem__(self, name: str) -> Row:
        """Return a row."""
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def add(self, row: Row, topic: str) -> None:
        """Add a row.

        Raises:
            ValueError: Its name is taken.
        """
        if row.name in self._rows:
            raise ValueError(f"operator {row.name!r} has two rows")
        self._rows[row.name] = row
        self._topics[row.name] = topic

    def topic(self, name: str) -> str:
        """Return the topic that a row stands under."""
        return self._topics[name]

    def select(self, names: tuple[str, ...]) -> list[Row]:
        """Return rows by name; all of them for no name.

        Raises:
            ConfigError: There is no row of that name.
        """
        for name in names:
            if name not in self._rows:
                near = get_close_matches(name, self._rows, cutoff=0.5)
                raise ConfigError(
                    f"cannot find operator {name!r}: the table has none of that name",
                    hint=f"did you mean {' or '.join(map(repr, near))}?"
                    if near
                    else "see the names with `padiff ops list`",
                )
        return [self._rows[name] for name in dict.fromkeys(names or self._rows)]


TABLE = Operators(
    {
        "activations": activations.ROWS,
        "elementwise": elementwise.ROWS,
        "indexing": indexing.ROWS,
        "linear": linear.ROWS,
        "losses": losses.ROWS,
        "networks": networks.ROWS,
        "reductions": reductions.ROWS,
        "shapes": shapes.ROWS,
        "transforms": transforms.ROWS,
    }
)
