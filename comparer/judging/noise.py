"""The measured noise floor of the dumps, as a lower bound of what a pair may differ by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, DumpFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from padiff.dumpfile import Dump, Floor, Index, RecordFloor


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
        """Return the difference that is noise for a pair of records; None where it is not known."""
        found = [] if self.reference is None else [self.reference[place] for place in references]
        if self.candidate is not None:
            found.append(self.candidate[candidate])
        known = [floor.max_abs for floor in found if floor is not None]
        return self.factor * max(known) if known else None

    def check(self, reference: Index, candidate: Index) -> None:
        """Refuse floors of other records than these.

        Raises:
            DumpFormatError: They are of another number of records.
        """
        for floors, index in ((self.reference, reference), (self.candidate, candidate)):
            if floors is not None and len(floors) != len(index.records):
                raise DumpFormatError(
                    f"cannot use the noise floor of step {index.step} rank {index.rank}: expected "
                    f"{len(index.records)} rows, found {len(floors)}"
                )


def read_noise(
    dumps: tuple[Dump, Dump],
    side: FloorSide | None,
    factor: float,
    places: Iterable[tuple[int, int]],
) -> Mapping[tuple[int, int], Noise]:
    """Read the floors that are wanted, by step and rank; nothing if none is.

    Args:
        dumps: Reference and candidate.
        side: Whose floors count; None reads none.
        factor: What they are multiplied by.
        places: The steps and ranks that are compared.

    Raises:
        ConfigError: A dump has none, or none for one of the steps.
        DumpFormatError: One cannot be read.
    """
    if side is None:
        return {}
    reference, candidate = dumps
    floors = [
        _wanted(dump, name) if side in {own, FloorSide.BOTH} else None
        for dump, name, own in (
            (reference, "reference", FloorSide.REFERENCE),
            (candidate, "candidate", FloorSide.CANDIDATE),
        )
    ]
    return {
        place: Noise(
            reference=_rows(floors[0], reference, place),
            candidate=_rows(floors[1], candidate, place),
            factor=factor,
        )
        for place in places
    }


def _rows(floor: Floor | None, dump: Dump, place: tuple[int, int]) -> Floors | None:
    if floor is None:
        return None
    if place not in floor.records:
        raise ConfigError(
            f"cannot use the noise floor of {str(dump.path)!r}: it has none for step {place[0]} "
            f"rank {place[1]}",
            hint="record it again with `padiff dump --repeat 3`, which measures every step",
        )
    return floor.records[place]


def _wanted(dump: Dump, name: str) -> Floor:
    from padiff.dumpfile import read_floor  # noqa: PLC0415 -- options need but the names above

    floor = read_floor(dump.path)
    if floor is None:
        raise ConfigError(
            f"cannot use the noise floor of the {name} {str(dump.path)!r}: it has none",
            hint="record it with `padiff dump --repeat 3`",
        )
    return floor
