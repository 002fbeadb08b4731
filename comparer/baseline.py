"""Replace an archived dump by a newer one, and keep a log of why."""

from __future__ import annotations

import errno
import getpass
import json
import os
import shutil
import sys
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from padiff.dumpfile import (
    ConfigError,
    DumpError,
    DumpFormatError,
    DumpNotFoundError,
    DumpWriteError,
    PadiffError,
    validate,
)
from padiff.dumpfile.floor import FLOOR_NAME
from padiff.dumpfile.manifestcodec import MANIFEST_NAME
from padiff.dumpfile.packed import PACKED_SUFFIX, pack, unpacked
from padiff.dumpfile.place import Place, foreign_entry
from padiff.dumpfile.transfer import on_disk
from padiff.dumpfile.urls import url_of

from .comparison import compare
from .result import Evidence
from .settings import CompareSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from padiff.dumpfile import JSON

    from .result import Comparison


_NAMED = 20
"""Origins that the log names."""
_MEASURED = frozenset(Evidence) - {Evidence.DESCRIPTION}


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
    """Return the log of a baseline: a line of JSON for each replacement, beside the dump."""
    return reference.parent / f"{reference.name}.accepted.jsonl"


def accept(
    reference: Path, candidate: Path, *, reason: str, command: Sequence[str] = ()
) -> Accepted:
    """Put a copy of the candidate in the place of the reference, and log it.

    The candidate is read completely first. At every moment one of the two baselines is there as a
    whole; the log gets its line before the swap, so that no replacement goes without.

    Args:
        reference: The archived dump, a folder or packed; it may not exist yet, and is packed then
            if its name says so.
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
    if url_of(reference) is not None:
        raise ConfigError(
            f"cannot replace {url_of(reference)!r}: a baseline is a directory or a packed dump",
            hint="`padiff push --overwrite` replaces a dump in a store",
        )
    if reference.resolve() == candidate.resolve():
        raise ConfigError("the reference and the candidate are the same dump")
    with unpacked(candidate) as packed, on_disk(packed) as new:
        _check(candidate, new)
        verdict, changes = _changes(reference, new)
        line: dict[str, JSON] = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "user": _user(),
            "reason": reason,
            "command": list(command),
            "candidate": str(candidate),
            "verdict": verdict,
            "changes": list(changes),
        }
        _replace(reference, new, json.dumps(line) + "\n")
    return Accepted(
        reference=reference, log=log_of(reference), verdict=verdict, changes=tuple(changes)
    )


def _check(candidate: Path, new: Path) -> None:
    """Read the new baseline completely, and refuse what should not be archived."""
    problems = validate(new, deep=True)
    foreign = None if problems else foreign_entry(new)
    if problems or foreign is not None:
        what = problems[0].message if problems else f"it holds {foreign.name!r}" if foreign else ""
        raise DumpFormatError(f"cannot accept {str(candidate)!r}: {what}")


def _user() -> str | None:
    """Name who runs this, None where the system cannot say."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None


def _changes(reference: Path, candidate: Path) -> tuple[str, list[str]]:
    """Describe in what the new baseline differs from the old one."""
    if not reference.exists():
        return "new", []
    try:
        with unpacked(reference) as old:
            found = compare(old, candidate, CompareSettings())
            floors = [(one / FLOOR_NAME).is_file() for one in (old, candidate)]
    except DumpNotFoundError:
        return "new", []
    except PadiffError as error:
        return "could not be compared", [error.message]
    lines = _lines(found)
    if floors[0] is not floors[1]:
        lines.append(f"noise floor: {' -> '.join('measured' if one else 'none' for one in floors)}")
    return str(found.verdict), lines


def _lines(found: Comparison) -> list[str]:
    lines = [*map(str, found.reasons), *_count_differing(found)]
    old, new = found.reference, found.candidate
    for name in ("framework", "framework_version", "device", "dtype", "seed", "model"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            lines.append(f"{name}: {before} -> {after}")
    lines += [f"origin: {origin.pair.end.address}" for origin in found.origins[:_NAMED]]
    if len(found.origins) > _NAMED:
        lines.append(f"and {len(found.origins) - _NAMED} more origins")
    return lines


def _count_differing(found: Comparison) -> list[str]:
    """Count the records that are not bit-equal, and name the one that moved most."""
    pairs = [pair for pair in found.pairs if pair.rests_on in _MEASURED]
    moved = [pair for pair in pairs if not pair.equal_digest]
    if not moved:
        return ["all records are bit-equal"] if pairs else []
    text = f"{len(moved)} of {len(pairs)} records are not bit-equal"
    sized = [pair for pair in moved if pair.metrics is not None and pair.metrics.relative_l2]
    most = max(
        sized, key=lambda pair: (pair.metrics and pair.metrics.relative_l2) or 0, default=None
    )
    end = None if most is None else most.reference
    if most is not None and most.metrics is not None and end is not None:
        text += f"; most moved {end.address}: relative L2 {most.metrics.relative_l2:.3g}"
    return [text]


def _copy_manifest(candidate: Path, partial: Path) -> None:
    """Copy the manifest last, whole or not at all: with it the copy is a dump."""
    begun = partial / f".{MANIFEST_NAME}.partial"
    shutil.copyfile(candidate / MANIFEST_NAME, begun)
    begun.rename(partial / MANIFEST_NAME)


def _replace(reference: Path, candidate: Path, line: str) -> None:
    """Put the candidate in its place, packed if the reference is."""

    def log() -> None:
        _append(log_of(reference), line)

    if not reference.name.endswith(PACKED_SUFFIX):
        _swap(reference, candidate, log)
        return
    if reference.exists() and not (reference.is_file() and zipfile.is_zipfile(reference)):
        raise DumpWriteError(f"cannot replace {str(reference)!r}: it is no packed dump")
    pack(candidate, reference, overwrite=True, whole=log)


def _append(log: Path, line: str) -> None:
    """Add a line to a log, never through a link: it could be put into any file of the user's."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    if sys.platform != "win32":
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(log, flags, 0o666), "a", encoding="ascii") as file:
            file.write(line)
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        reason = "it is a link, which is not followed" if is_link else error.strerror
        raise DumpWriteError(f"cannot write the log {str(log)!r}: {reason}") from error


def _swap(reference: Path, candidate: Path, log: Callable[[], None]) -> None:
    """Copy beside the old one, log, and swap in."""
    place = Place(reference, overwrite=True)
    place.claim()
    try:
        hidden = shutil.ignore_patterns(MANIFEST_NAME)
        shutil.copytree(candidate, place.partial, ignore=hidden, dirs_exist_ok=True)
        _copy_manifest(candidate, place.partial)
        log()
        place.swap_in()
    except DumpError:
        raise
    except OSError as error:
        # shutil gathers what went wrong with each file; all of it has one cause.
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
        raise DumpWriteError(f"cannot replace {str(reference)!r}: {reason}") from error
    finally:
        with suppress(OSError):
            place.discard()
        place.release()
