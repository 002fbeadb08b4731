"""Where the processes of one run meet to make one dump of what each of them recorded.

Rank 0 leaves a call with a fresh number in ``.<name>.ranks``, a hidden sibling of the dump. Each
other rank, when its files are whole, leaves an offer with that number; rank 0 takes the files and
leaves an answer. What an earlier run left there has another number, so it is never taken for this
run's, whatever was killed when.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import FileInfo, Mesh
from padiff.dumpfile.manifestcodec import file_info

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Call", "Meeting", "Offer"]

_CALL = "call.json"
_OURS = re.compile(r"\.?(call|offer-\d{4,}-[0-9a-f]{16}|answer-\d{4,}-[0-9a-f]{16})\.json")
"""Names of the files that may be removed from the meeting place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What rank 0 asks the others for."""

    number: str
    """Drawn anew by each recording."""
    run: str
    """What the launcher calls the run, as far as it does."""
    count: int
    """How many processes there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a rank has recorded."""

    folder: str
    """Name of the hidden directory that its files are in; a sibling of the dump."""
    files: tuple[FileInfo, ...] = ()
    notes: tuple[str, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    """Of the records in the files."""
    lost: str = ""
    """Why there are no files, if the rank has failed."""


class Meeting:
    """The meeting place of one dump."""

    def __init__(self, place: Path) -> None:
        """Note which dump; nothing is made yet."""
        self._folder = place.with_name(f".{place.name}.ranks")

    def call(self, run: str, count: int) -> Call:
        """Call the other ranks, and forget what earlier runs left. Only under the dump's lock.

        Raises:
            OSError: The place cannot be written.
        """
        self._folder.mkdir(exist_ok=True)
        made = Call(number=secrets.token_hex(8), run=run, count=count)
        self._put(_CALL, asdict(made))
        for entry in self._folder.iterdir():
            is_answer = made.number in entry.name  # of a rank that has waited for this call
            if entry.name != _CALL and not is_answer and _OURS.fullmatch(entry.name):
                entry.unlink(missing_ok=True)
        return made

    def called(self) -> Call | None:
        """Return the call that is there, None if there is none."""
        found = self._get(_CALL)
        try:
            return None if found is None else Call(**found)
        except TypeError:
            return None

    def offer(self, call: Call, rank: int, offer: Offer) -> None:
        """Answer a call with what this rank has.

        Raises:
            OSError: The place is gone or cannot be written.
        """
        self._put(f"offer-{rank:04d}-{call.number}.json", asdict(offer))

    def offered(self, call: Call, rank: int) -> Offer | None:
        """Return what a rank offers, None as long as it does not."""
        found = self._get(f"offer-{rank:04d}-{call.number}.json")
        try:
            if found is None:
                return None
            files = tuple(file_info(info) for info in found.pop("files"))
            told = found.pop("meshes")
            meshes = tuple(Mesh(**{key: tuple(cell) for key, cell in one.items()}) for one in told)
            notes = tuple(found.pop("notes"))
            return Offer(**found, notes=notes, meshes=meshes, files=files)
        except (KeyError, TypeError):
            return None

    def answer(self, call: Call, rank: int) -> None:
        """Tell a rank that its files are in a whole dump.

        Raises:
            OSError: It cannot be written.
        """
        self._put(f"answer-{rank:04d}-{call.number}.json", {})

    def is_answered(self, call: Call, rank: int) -> bool:
        """Return whether the dump is whole, and if so take the answer away."""
        path = self._folder / f"answer-{rank:04d}-{call.number}.json"
        if not path.exists():
            return False
        with suppress(OSError):
            path.unlink()
            self._folder.rmdir()  # the last one finds it empty
        return True

    def close(self, call: Call) -> None:
        """End the meeting; answers stay until they are read."""
        with suppress(OSError):
            for entry in self._folder.iterdir():
                if _OURS.fullmatch(entry.name) and not entry.name.startswith("answer"):
                    entry.unlink(missing_ok=True)
            self._folder.rmdir()  # unless an answer waits

    def _put(self, name: str, content: dict[str, Any]) -> None:
        hidden = self._folder / f".{name}"
        hidden.unlink(missing_ok=True)  # it may be a link that somebody put there
        with hidden.open("x", encoding="utf-8") as file:
            file.write(json.dumps(content))
        os.replace(hidden, self._folder / name)  # noqa: PTH105 - over what is there

    def _get(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self._folder / name).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None
