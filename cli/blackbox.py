"""What a command is doing, kept where it outlives the process that does it."""

from __future__ import annotations

import faulthandler
import mmap
import tempfile
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

__all__ = ["Blackbox", "Note"]

_SLOT_BYTES = 8192
_LENGTH_BYTES = 4
_MOST_BYTES = _SLOT_BYTES - _LENGTH_BYTES
_FRAME = '  File "'


class Note(IntEnum):
    """What is noted."""

    PLACE = 0
    """Directory that the dump is to have."""
    STAGE = 1
    """``forward of step 2 of 5``."""
    CALL = 2
    """The innermost call that is running, ``encoder.0.attn#1``; empty between calls."""
    CODE = 3
    """The exit code, once all is done."""


class Blackbox:
    """Notes that a parent process can read after its child has died. Made before the fork.

    It is the ``Running`` of a recording, and takes part in its ``Progress``.
    """

    def __init__(self) -> None:
        """Share memory, and a nameless file for the last traceback."""
        self._memory = mmap.mmap(-1, len(Note) * _SLOT_BYTES)
        self._trace: IO[bytes] | None = None
        self._watches = False
        with suppress(OSError):  # no room anywhere: then a crash is reported without its lines
            self._trace = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process

    def note(self, what: Note, text: str) -> None:
        """Put a note in the place of the one before."""
        data = text.encode("utf-8", "surrogateescape")[:_MOST_BYTES]
        start = what * _SLOT_BYTES
        self._memory[start : start + _LENGTH_BYTES + len(data)] = (
            len(data).to_bytes(_LENGTH_BYTES, "little") + data
        )

    def read(self, what: Note) -> str:
        """Give what was noted last, ``""`` if nothing was."""
        start = what * _SLOT_BYTES + _LENGTH_BYTES
        length = int.from_bytes(self._memory[start - _LENGTH_BYTES : start], "little")
        data = self._memory[start : start + min(length, _MOST_BYTES)]
        return data.decode("utf-8", "surrogateescape")

    def place(self, directory: Path) -> None:
        """Note where the dump goes."""
        self.note(Note.PLACE, str(directory.absolute()))

    def stage(self, name: str) -> None:
        """Note what is being done; no call runs as it begins."""
        self.note(Note.STAGE, name)
        self.note(Note.CALL, "")
        self.watch_faults()

    def call(self, path: str, index: int) -> None:
        """Note which call runs now."""
        self.note(Note.CALL, f"{path or '(root)'}#{index}")

    def between_calls(self) -> None:
        """Note that no call runs."""
        self.note(Note.CALL, "")

    def watch_faults(self) -> None:
        """Let a fatal signal write the Python lines that were running, before all other handlers.

        Frameworks install handlers of their own when they are imported, which do not hand on to
        earlier ones: so this is done again at each stage. A user's own faulthandler is left alone.
        """
        if self._trace is None or (faulthandler.is_enabled() and not self._watches):
            return
        faulthandler.disable()
        faulthandler.enable(self._trace, all_threads=False)
        self._watches = True

    def last_lines(self) -> tuple[str, ...]:
        """Give the lines that a fatal signal wrote, the innermost first; often there are none."""
        if self._trace is None:
            return ()
        self._trace.seek(0)
        text = self._trace.read().decode("utf-8", "replace")
        return tuple(line.strip() for line in text.splitlines() if line.startswith(_FRAME))
