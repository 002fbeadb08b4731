"""The measured noise floor of the dumps, as a lower bound of what a pair may differ by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, read_floor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumpfile import Dump, Floor, RecordFloor

__all__ = ["DEFAULT_FACTOR", "FloorSide", "Noise", "read_noise"]

DEFAULT_FACTOR = 5.0
"""Times the largest difference among the further runs. Those are few, and perturbed in weights and
inputs only: the rounding of a port's own sums is as large again. Factors of 2 to 10 gave no false
alarm on the clean pairs of benchmarks/localisation, nor on a badly conditioned port."""

Floors = tuple["RecordFloor | None", ...]


class FloorSide(StrEnum):
    """Whose noise floor is used."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"
    BOTH = "both"
    """The larger one, record by record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The floors of one step and rank."""

    reference: Floors | None
    """By record id; None where this side's floor is not asked for."""
    candidate: Floors | None
    factor: float

    def of(self, references: Sequence[int], candidate: int) -> float | None:
        """Give the difference that is noise for a pair of records; None where it is not known."""
        found = [] if self.reference is None else [self.reference[place] for place in references]
        if self.candidate is not None:
            found.append(self.candidate[candidate])
        known = [floor.max_abs for floor in found if floor is not None]
        return self.factor * max(known) if known else None


def read_noise(
    reference: Dump, candidate: Dump, side: FloorSide | None, factor: float
) -> Mapping[tuple[int, int], Noise]:
    """Read the floors that are wanted, by step and rank; nothing if none is.

    Raises:
        ConfigError: A dump has none.
        DumpFormatError: One cannot be read.
    """
    if side is None:
        return {}
    floors = [
        _wanted(dump, name) if side in {own, FloorSide.BOTH} else None
        for dump, name, own in (
            (reference, "reference", FloorSide.REFERENCE),
            (candidate, "candidate", FloorSide.CANDIDATE),
        )
    ]
    places = [set(floor.records) for floor in floors if floor is not None]
    return {
        place: Noise(
            reference=None if floors[0] is None else floors[0].records[place],
            candidate=None if floors[1] is None else floors[1].records[place],
            factor=factor,
        )
        for place in set.intersection(*places)
    }


def _wanted(dump: Dump, name: str) -> Floor:
    floor = read_floor(dump.path)
    if floor is None:
        raise ConfigError(
            f"cannot use the noise floor of the {name} {str(dump.path)!r}: it has none",
            hint="record it with `padiff dump --repeat 3`",
        )
    return floor
