"""Replace an archived dump by a newer one, and keep a log of why."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from padiff.dumpfile import (
    ConfigError,
    DumpFormatError,
    DumpNotFoundError,
    DumpWriteError,
    PadiffError,
    validate,
)
from padiff.dumpfile.manifestcodec import MANIFEST_NAME
from padiff.dumpfile.place import Place, foreign_entry

from .compare import compare
from .settings import CompareSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from padiff.dumpfile import JSON

    from .result import Comparison

__all__ = ["Accepted", "accept", "log_of"]

_NAMED = 20
"""Origins that the log names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What was replaced."""

    reference: Path
    log: Path
    verdict: str
    """``match``, ``diverged``, ``new`` where nothing was there, or why it could not be compared."""
    changes: tuple[str, ...]
    """What the old and the new baseline differ in, a line each."""


def log_of(reference: Path) -> Path:
    """Give the log of a baseline: a line of JSON for each replacement, beside the dump."""
    return reference.parent / f"{reference.name}.accepted.jsonl"


def accept(
    reference: Path, candidate: Path, *, reason: str, command: Sequence[str] = ()
) -> Accepted:
    """Put a copy of the candidate in the place of the reference, and log it.

    The candidate is read completely first. At every moment one of the two baselines is there as a
    whole; the log gets its line before the swap, so that no replacement goes without.

    Args:
        reference: The archived dump; it may not exist yet.
        candidate: The dump that is to be the reference from now on; it stays where it is.
        reason: Why, in the words of whoever decided it.
        command: The command line, for the log.

    Raises:
        ConfigError: There is no reason, or both are the same dump.
        DumpFormatError: The candidate is damaged.
        DumpWriteError: The place cannot be written.
    """
    if not reason.strip():
        raise ConfigError("accepting a baseline needs a reason that says why it changes")
    if reference.resolve() == candidate.resolve():
        raise ConfigError("the reference and the candidate are the same dump")
    problems = validate(candidate, deep=True)
    foreign = None if problems else foreign_entry(candidate)
    if problems or foreign is not None:
        what = problems[0].message if problems else f"it holds {foreign.name!r}" if foreign else ""
        raise DumpFormatError(f"cannot accept {str(candidate)!r}: {what}")
    verdict, changes = _changes(reference, candidate)
    line: dict[str, JSON] = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "reason": reason,
        "command": list(command),
        "candidate": str(candidate),
        "verdict": verdict,
        "changes": list(changes),
    }
    _swap(reference, candidate, json.dumps(line) + "\n")
    return Accepted(
        reference=reference, log=log_of(reference), verdict=verdict, changes=tuple(changes)
    )


def _changes(reference: Path, candidate: Path) -> tuple[str, list[str]]:
    """Say in what the new baseline differs from the old one."""
    try:
        found = compare(reference, candidate, CompareSettings())
    except DumpNotFoundError:
        return "new", []
    except PadiffError as error:
        return "could not be compared", [error.message]
    return str(found.verdict), _lines(found)


def _lines(found: Comparison) -> list[str]:
    lines = list(found.reasons)
    old, new = found.reference, found.candidate
    for name in ("framework", "framework_version", "device", "dtype", "seed", "model"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            lines.append(f"{name}: {before} -> {after}")
    for origin in found.origins[:_NAMED]:
        end = origin.pair.reference or origin.pair.candidate
        if end is not None:
            lines.append(f"origin: {end.address}")
    if len(found.origins) > _NAMED:
        lines.append(f"and {len(found.origins) - _NAMED} more origins")
    return lines


def _copy_manifest(candidate: Path, partial: Path) -> None:
    """Copy the manifest last, whole or not at all: with it the copy is a dump."""
    begun = partial / f".{MANIFEST_NAME}.partial"
    shutil.copyfile(candidate / MANIFEST_NAME, begun)
    begun.rename(partial / MANIFEST_NAME)


def _swap(reference: Path, candidate: Path, line: str) -> None:
    """Copy beside the old one, log, and swap in."""
    place = Place(reference, overwrite=True)
    place.claim()
    try:
        hidden = shutil.ignore_patterns(MANIFEST_NAME)
        shutil.copytree(candidate, place.partial, ignore=hidden, dirs_exist_ok=True)
        _copy_manifest(candidate, place.partial)
        with log_of(reference).open("a", encoding="ascii") as log:
            log.write(line)
        place.swap_in()
    except OSError as error:
        raise DumpWriteError(
            f"cannot replace {str(reference)!r}: {error.strerror or error}"
        ) from error
    finally:
        with suppress(OSError):
            place.discard()
        place.release()
