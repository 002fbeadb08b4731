"""What a program takes on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h5py
from h5py import h5o

from padiff.dumpfile import Form, open_dump

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.dumpfile import ProgramColumns

__all__ = ["program_size"]


def program_size(dump: Path) -> tuple[int, int]:
    """Return the operators of a dump's first step, and the bytes of its program.

    Bytes are those of its tables, of the source lines, of the texts and shapes that it uses, and of
    what HDF5 notes of each table. Both are 0 where there is no program.
    """
    opened = open_dump(dump)
    with opened.open() as step:
        program = step.program()
    if program is None:
        return 0, 0
    with h5py.File(dump / opened.files[0].path) as file:
        group, index = file["program"], file["index"]
        tables = [*(group[name].id for name in group), index["sites"].id]
        noted = sum(h5o.get_info(one).hdr.space.total for one in (group.id, *tables))
        stored = sum(one.get_storage_size() for one in tables)
        ends, items = (index[name].dtype.itemsize for name in ("string_ends", "list_items"))
    texts = {program.strings[position].encode() for position in _texts(program)}
    shapes = {program.shape(position) for position in program.value_shape.tolist()}
    stored += sum(len(text) + ends for text in texts)
    stored += sum(len(shape) * items + items for shape in shapes)
    return program.operators, noted + stored


def _texts(program: ProgramColumns) -> set[int]:
    """Return the positions of all texts that a program uses."""
    forms, numbers = program.argument_form, program.argument_number
    used = (
        *(program.value_dtype, program.value_name, program.operator_name, program.argument_key),
        *(program.site_file, program.site_function),
        *(numbers[forms == form] for form in (Form.STRING, Form.DTYPE, Form.OPAQUE)),
    )
    return {position for column in used for position in column.tolist()} - {-1}
