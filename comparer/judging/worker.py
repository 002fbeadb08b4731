"""Measures pairs that come in as lines, in a process of its own; see ``largepairs``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from padiff.dumpfile.extent import MappedFiles

from .blocks import Room
from .largepairs import pair_of_line
from .metrics import measure

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

__all__ = ["work"]


def work(lines: Iterable[str], written: TextIO) -> None:
    """Measure pairs, and write a line for each.

    Args:
        lines: Pairs as ``LargePair.line`` writes them.
        written: Gets the place and the metrics of each, as a line of JSON.

    Raises:
        DumpFormatError: A file was replaced.
        OSError: One cannot be read.
    """
    files, room = MappedFiles(), Room()
    for line in list(lines):
        pair = pair_of_line(line)
        found = measure(
            files.array(pair.reference).reshape(pair.shape),
            files.array(pair.candidate).reshape(pair.shape),
            pair.tolerance,
            mean=pair.mean,
            release=files.release_pages,
            room=room,
        )
        written.write(json.dumps([pair.place, asdict(found)]) + "\n")
        written.flush()
        files.release_pages()


if __name__ == "__main__":
    work(sys.stdin, sys.stdout)
