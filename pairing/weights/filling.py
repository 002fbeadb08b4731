"""A fused projection with the parts that fill it, parameter by parameter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.pairing.result import PairedBy

from .fused_layouts import Layout, Parts, heads_around, layouts_of, pairs_under, rows_of
from .fused_parts import GATED
from .inventory import UnitPair
from .lacking import NOT_EMPTY, Lacking, is_empty, zeros_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .inventory import Entry, Inventory, Unit
    from .weight_plan import WeightPair

__all__ = ["Filling", "Way"]

Way = tuple[Layout, "Sequence[WeightPair]"]
_Filled = tuple["Entry", "list[Entry | int]"]
"""A fused parameter and those of its parts; of a part that has none, the rows it would have."""
_NAMED, _GUESS = 0.6, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A fused unit and the parts that fill it."""

    sides: tuple[Inventory, Inventory]
    unit: Unit
    parts: Parts
    lacking: Lacking
    is_join: bool
    """Whether the fused one is the candidate's."""
    leaves_out: bool = False
    """Whether what some parts lack is left without partner."""

    @property
    def leaf(self) -> str:
        """Give the own name of the fused unit."""
        return self.unit.path.rpartition(".")[2]

    @property
    def ways(self) -> list[Way]:
        """Give the layouts that fit, with the pairs that they make; the usual ones first."""
        whole, others = self.sides[self.is_join], self.sides[not self.is_join]
        heads = heads_around(whole, self.unit)
        layouts = layouts_of(
            self.parts, self.leaf, heads.union(*(heads_around(others, u) for u in self.parts.units))
        )
        filled = self.entries
        return [(one, made) for one in layouts if (made := self._pairs(one, filled or ()))]

    @property
    def entries(self) -> list[_Filled] | None:
        """Give the fused parameters with those of their parts, the largest first.

        Returns:
            None if any part lacks one that it should have.
        """
        tables = [{entry.atoms[0]: entry for entry in part.entries} for part in self.parts.units]
        found: list[_Filled] = []
        for entry in sorted(self.unit.entries, key=lambda entry: entry is not self.unit.main):
            atom = entry.atoms[0]
            holders = [table.get(atom) for table in tables]
            lacks = [u for u, own in zip(self.parts.units, holders, strict=True) if own is None]
            if lacks and not self._is_meant(entry, lacks):
                return None
            if not (lacks and self.leaves_out):
                sizes = [(rows_of(unit) or (0,))[0] for unit in self.parts.units]
                found.append(
                    (entry, [own or rows for own, rows in zip(holders, sizes, strict=True)])
                )
        return found

    @property
    def settled(self) -> tuple[Filling, list[Way]]:
        """Give the ways in which nothing is lost, and what they are ways of.

        Where the reference's fused one is not zero for a part that the candidate lacks, in any
        layout, that stays alone and the rest is paired.
        """
        ways = self.ways
        gaps = self._gaps
        if not gaps or self.is_join:
            return self, ways
        kept = [way for way in ways if all(is_empty(self.sides[0], way[0], *gap) for gap in gaps)]
        if kept or not ways:
            return self, kept
        rest = replace(self, leaves_out=True)
        return rest, rest.ways

    @property
    def unit_pairs(self) -> tuple[UnitPair, ...]:
        """Give the fused unit with each of its parts."""
        both = [(self.unit, part)[:: -1 if self.is_join else 1] for part in self.parts.units]
        return tuple(
            UnitPair(reference=one, candidate=two, paired_by=PairedBy.STRUCTURE)
            for one, two in both
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what is zero for a part that has none."""
        gaps = () if self.leaves_out else self._gaps
        units = self.parts.units
        return tuple(
            zeros_note(
                self.unit,
                [unit for unit, own in zip(units, parts, strict=True) if isinstance(own, int)],
                is_join=self.is_join,
            )
            for _, parts in gaps
        )

    @property
    def refused(self) -> dict[int, str]:
        """Say why records of the fused unit stay alone."""
        if not self.leaves_out:
            return {}
        whole = replace(self, leaves_out=False)
        return {entry.record.id: NOT_EMPTY for entry, _ in whole._gaps}

    @property
    def trust(self) -> float:
        """How sure blocks in the usual order are: only gate and up by a name in that order."""
        is_gated = self.parts.roles == GATED and self.parts.spelled(self.leaf) == (0, 1)
        return _NAMED if is_gated else _GUESS

    @property
    def _gaps(self) -> list[_Filled]:
        """Give the fused parameters that not all parts have."""
        return [one for one in self.entries or () if any(isinstance(own, int) for own in one[1])]

    def _is_meant(self, entry: Entry, lacks: Sequence[Unit]) -> bool:
        """Tell whether some parts, not all, are meant to have no such vector."""
        is_vector = len(entry.shape) == 1 and entry is not self.unit.main
        return (
            is_vector
            and len(lacks) < len(self.parts.units)
            and all(self.lacking.is_meant(one, entry.atoms[0]) for one in lacks)
        )

    def _pairs(self, layout: Layout, filled: Sequence[_Filled]) -> list[WeightPair] | None:
        """Pair all entries under a layout; None if it does not fit one."""
        found: list[WeightPair] = []
        for entry, parts in filled:
            made = pairs_under(layout, entry, parts, is_join=self.is_join)
            if made is None:
                return None
            found += made
        return found or None
