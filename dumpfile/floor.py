"""The noise floor of a dump: how far further runs of the same model were from the recorded one.

It lies beside the manifest as ``floor.json``, written after it and by rename; a dump without one is
complete. See docs/format.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import DumpFormatError
from .store import store_of
from .strictjson import StrictJSONError, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .schema import JSON

FLOOR_NAME = "floor.json"
FLOOR_FORMAT = "padiff-floor"
FLOOR_VERSION = 1
_TOO_LARGE = 2**1024
"""The first power of two that is no float64; an infinite number is written as text."""
MOST_BYTES = 1 << 28
"""A larger file is refused: it would be that of millions of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFloor:
    """How far one record moved, at most over the further runs."""

    max_abs: float
    """Largest absolute difference from the recorded run; inf where nan or inf came and went."""
    rms: float
    """Largest root mean square of the differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The noise floor of a whole dump."""

    repeats: int
    """Number of further runs."""
    perturb: str
    """``ulp``: inputs and weights were moved by rounding; ``none``: plain repeats."""
    records: Mapping[tuple[int, int], tuple[RecordFloor | None, ...]]
    """By step and rank: one entry for each record of the index, None where nothing compares."""


def write_floor(directory: Path, floor: Floor) -> None:
    """Put a floor into a complete dump, whole or not at all.

    Raises:
        OSError: It cannot be written.
    """
    steps: list[JSON] = []
    for (step, rank), rows in sorted(floor.records.items()):
        cells: list[JSON] = [
            None if row is None else [_finite(row.max_abs), _finite(row.rms)] for row in rows
        ]
        columns: list[JSON] = ["max_abs", "rms"]
        steps.append({"step": step, "rank": rank, "columns": columns, "rows": cells})
    text = to_json(
        {
            "format": FLOOR_FORMAT,
            "format_version": FLOOR_VERSION,
            "repeats": floor.repeats,
            "perturb": floor.perturb,
            "steps": steps,
        }
    )
    partial = directory / f".{FLOOR_NAME}.partial"
    partial.write_text(text, encoding="ascii")
    partial.replace(directory / FLOOR_NAME)


def read_floor(directory: Path) -> Floor | None:
    """Read a dump's floor, None if it has none.

    Raises:
        DumpFormatError: The file is no floor.
    """
    path = directory / FLOOR_NAME
    try:
        data = store_of(directory).extra(FLOOR_NAME, MOST_BYTES)
        if data is None:
            return None
        document = from_json(data)
    except (OSError, StrictJSONError) as error:
        raise _refuse(path, "strict JSON", str(error)) from None
    found = _mapping(path, document)
    if found.get("format") != FLOOR_FORMAT or found.get("format_version") != FLOOR_VERSION:
        what = f"{found.get('format')!r} version {found.get('format_version')!r}"
        raise _refuse(path, f"{FLOOR_FORMAT!r} version {FLOOR_VERSION}", what)
    repeats, perturb = found.get("repeats"), found.get("perturb")
    if not isinstance(repeats, int) or not isinstance(perturb, str):
        raise _refuse(path, "a number of repeats and a perturbation", f"{repeats!r}, {perturb!r}")
    return Floor(
        repeats=repeats,
        perturb=perturb,
        records=dict(_step(path, step) for step in _list(path, found.get("steps"))),
    )


def _step(path: Path, step: JSON) -> tuple[tuple[int, int], tuple[RecordFloor | None, ...]]:
    entry = _mapping(path, step)
    place = entry.get("step"), entry.get("rank")
    if not (isinstance(place[0], int) and isinstance(place[1], int)):
        raise _refuse(path, "a step and a rank", repr(place))
    if entry.get("columns") != ["max_abs", "rms"]:
        raise _refuse(path, "the columns max_abs and rms", repr(entry.get("columns")))
    rows = tuple(_row(path, row) for row in _list(path, entry.get("rows")))
    return (place[0], place[1]), rows


def _row(path: Path, row: JSON) -> RecordFloor | None:
    if row is None:
        return None
    cells = [math.inf if cell == "inf" else cell for cell in _list(path, row)]
    numbers = [
        float(cell)
        for cell in cells
        if isinstance(cell, int | float) and not isinstance(cell, bool) and cell >= 0
        if isinstance(cell, float) or cell < _TOO_LARGE
    ]
    if len(cells) != 2 or len(numbers) != 2:  # noqa: PLR2004
        raise _refuse(path, "two numbers >= 0", repr(row))
    return RecordFloor(max_abs=numbers[0], rms=numbers[1])


def _finite(number: float) -> JSON:
    return number if math.isfinite(number) else "inf"


def _mapping(path: Path, value: JSON) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise _refuse(path, "an object", repr(value))
    return value


def _list(path: Path, value: JSON) -> list[JSON]:
    if not isinstance(value, list):
        raise _refuse(path, "a list", repr(value))
    return value


def _refuse(path: Path, expected: str, found: str) -> DumpFormatError:
    return DumpFormatError(
        f"cannot read the noise floor {str(path)!r}: expected {expected}, found {found[:80]}"
    )
