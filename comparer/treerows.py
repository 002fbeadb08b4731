"""The rows of a paired module tree as columns; each row is made when somebody looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from .later import Later
from .result import NodeRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.dumpfile import Phase
    from padiff.pairing import PairedBy

    from .result import Verdict

__all__ = ["Look", "TreeColumns", "TreeRows", "columns_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a row shows beside its names and its place; the fields are those of ``NodeRow``."""

    worst: Mapping[Phase, Verdict]
    covered: frozenset[Phase]
    origin: bool
    inherited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeColumns:
    """A tree, parents before their children; parallel sequences, a cell for each row."""

    parents: Sequence[int | None]
    """Places of rows."""
    references: Sequence[str | None]
    """Module paths."""
    candidates: Sequence[str | None]
    reference_classes: Sequence[str | None]
    candidate_classes: Sequence[str | None]
    paired_by: Sequence[PairedBy | None]
    looks: Sequence[Look]
    """Few objects: rows that look the same share one."""

    def row(self, place: int) -> NodeRow:
        """Make a row."""
        look = self.looks[place]
        return NodeRow(
            id=place,
            parent=self.parents[place],
            reference=self.references[place],
            candidate=self.candidates[place],
            reference_class=self.reference_classes[place],
            candidate_class=self.candidate_classes[place],
            paired_by=self.paired_by[place],
            worst=look.worst,
            origin=look.origin,
            inherited=look.inherited,
            covered=look.covered,
        )


class _Held:
    """Columns that are made once, when they are asked for; and then what makes them is let go."""

    def __init__(self, make: Callable[[], TreeColumns]) -> None:
        self._make: Callable[[], TreeColumns] | TreeColumns = make

    def columns(self) -> TreeColumns:
        """Give the columns."""
        if not isinstance(self._make, TreeColumns):
            self._make = self._make()
        return self._make

    def rows(self) -> list[NodeRow]:
        """Make all rows."""
        columns = self.columns()
        return list(map(columns.row, range(len(columns.parents))))


class TreeRows(Later[NodeRow]):
    """The rows of a tree, of which a report that folds most of them makes few."""

    def __init__(self, make: Callable[[], TreeColumns]) -> None:
        """Keep how to make the columns, with all that it refers to, until they are made.

        Args:
            make: Makes them. Must not need a file that may be closed by then.
        """
        self._held = _Held(make)
        super().__init__(self._held.rows)

    @overload
    def __getitem__(self, place: int) -> NodeRow: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[NodeRow, ...]: ...
    def __getitem__(self, place: int | slice) -> NodeRow | tuple[NodeRow, ...]:
        """Give one row, or some."""
        at = range(len(self))[place]
        row = self.columns.row
        return row(at) if isinstance(at, int) else tuple(map(row, at))

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.columns.parents)

    @property
    def columns(self) -> TreeColumns:
        """Give the columns, made at the first look."""
        return self._held.columns()


def columns_of(rows: Sequence[NodeRow]) -> TreeColumns:
    """Give the columns of a tree."""
    if isinstance(rows, TreeRows):
        return rows.columns
    places = {row.id: place for place, row in enumerate(rows)}
    return TreeColumns(
        parents=[None if row.parent is None else places.get(row.parent) for row in rows],
        references=[row.reference for row in rows],
        candidates=[row.candidate for row in rows],
        reference_classes=[row.reference_class for row in rows],
        candidate_classes=[row.candidate_class for row in rows],
        paired_by=[row.paired_by for row in rows],
        looks=[
            Look(
                worst=row.worst,
                covered=row.covered,
                origin=row.origin,
                inherited=row.inherited,
            )
            for row in rows
        ],
    )
