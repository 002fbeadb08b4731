"""What a program takes on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h5py
from h5py import h5o

from padiff.dumpfile import open_dump

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["program_size"]


def program_size(dump: Path) -> tuple[int, int]:
    """Return the operators of a dump's first step, and the bytes of its program.

    Bytes are those of its columns and of what HDF5 notes of each. Both are 0 where there is no
    program.
    """
    path = dump / open_dump(dump).files[0].path
    with h5py.File(path) as file:
        if "program" not in file:
            return 0, 0
        group = file["program"]
        columns = [group[name].id for name in group]
        noted = sum(h5o.get_info(one).hdr.space.total for one in (group.id, *columns))
        stored = sum(one.get_storage_size() for one in columns)
        return int(group["operator_name"].size), noted + stored
