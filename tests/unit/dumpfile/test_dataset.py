"""Files that try to lead a reader elsewhere, or to make it allocate what is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

from padiff.dumpfile import DumpFormatError, ProblemKind, StepFile, open_dump, validate
from tests.support.dumps import DumpBuilder
from tests.support.indexes import (
    FILE,
    edit_index,
    read_tables,
    set_cell,
    with_number,
    write_tables,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BIG = np.arange(40_000, dtype=np.float32)
VALUE = "values/v00000000"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return DumpBuilder().module("", "Net").call("", inputs=[BIG]).write(tmp_path / "net")


def edit(dump: Path, change: Callable[[h5py.File], None]) -> Path:
    path = dump / FILE
    with h5py.File(path, "r+") as file:
        change(file)
    manifest = json.loads((dump / "manifest.json").read_text())
    manifest["files"][0]["size_bytes"] = path.stat().st_size
    (dump / "manifest.json").write_text(json.dumps(manifest))
    return dump


def soft_link(file: h5py.File) -> None:
    del file[VALUE]
    file[VALUE] = h5py.SoftLink("/index")


def external_link(file: h5py.File) -> None:
    del file[VALUE]
    file[VALUE] = h5py.ExternalLink("other.h5", "/x")


def external_storage(file: h5py.File) -> None:
    del file[VALUE]
    size = BIG.nbytes
    file.create_dataset(VALUE, BIG.shape, "f4", external=[("/etc/hostname", 0, size)])


def virtual_dataset(file: h5py.File) -> None:
    del file[VALUE]
    layout = h5py.VirtualLayout(shape=BIG.shape, dtype="f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=BIG.shape)
    file.create_virtual_dataset(VALUE, layout)


def user_filter(file: h5py.File) -> None:
    del file[VALUE]
    file.create_dataset(VALUE, data=BIG, chunks=(100,), scaleoffset=2)


def unallocated_chunks(file: h5py.File) -> None:
    del file[VALUE]
    file.create_dataset(VALUE, BIG.shape, "f4", chunks=(100,))


def never_allocated(file: h5py.File) -> None:
    del file[VALUE]
    file.create_dataset(VALUE, BIG.shape, "f4")


def other_dtype(file: h5py.File) -> None:
    del file[VALUE]
    file[VALUE] = BIG.astype(np.int32)


def two_dimensions(file: h5py.File) -> None:
    del file[VALUE]
    file[VALUE] = BIG.reshape(200, 200)


def a_group_instead(file: h5py.File) -> None:
    del file[VALUE]
    file.create_group(VALUE)


def nothing_there(file: h5py.File) -> None:
    del file[VALUE]


@pytest.mark.parametrize(
    "change",
    [
        soft_link,
        external_link,
        external_storage,
        virtual_dataset,
        user_filter,
        unallocated_chunks,
        never_allocated,
        other_dtype,
        two_dimensions,
        a_group_instead,
        nothing_there,
    ],
)
def test_elements_that_are_not_plainly_in_the_file_are_refused(
    change: Callable[[h5py.File], None], dump: Path
) -> None:
    edit(dump, change)

    with open_dump(dump).open() as file, pytest.raises(DumpFormatError):
        file.array(file.index.records[0])
    assert [problem.loc for problem in validate(dump, deep=False)] == [f"{FILE}: values[0]"]


@pytest.mark.parametrize(
    ("table", "column", "cell", "kind"),
    [
        ("values", "dataset", "/etc/passwd", ProblemKind.MISSING),
        ("values", "dataset", "/values/../index", ProblemKind.MISSING),
        ("values", "dataset", None, ProblemKind.MISSING),
        ("values", "offset", 1, ProblemKind.MISSING),
        ("values", "offset", -1, ProblemKind.TYPE),
        ("values", "offset", 2**61, ProblemKind.MISSING),
        ("values", "size", 40_001, ProblemKind.SIZE),
        ("values", "dtype", "float64", ProblemKind.MISSING),
        ("values", "dtype", "object", ProblemKind.TYPE),
        ("records", "shape", [-1, -40_000], ProblemKind.TYPE),
        ("records", "shape", [2**40, 2**40], ProblemKind.SIZE),
        ("records", "value", 1, ProblemKind.REFERENCE),
        ("records", "value", -2, ProblemKind.REFERENCE),
        ("records", "module", 1, ProblemKind.REFERENCE),
        ("records", "call", None, ProblemKind.REFERENCE),
        ("records", "call", 9, ProblemKind.REFERENCE),
        ("records", "role", "outcome", ProblemKind.TYPE),
        ("records", "phase", "before", ProblemKind.TYPE),
        ("records", "requires_grad", 2, ProblemKind.TYPE),
        ("records", "tensor", 2**62, ProblemKind.TYPE),
        ("calls", "parent", 0, ProblemKind.REFERENCE),
        ("calls", "module", 5, ProblemKind.REFERENCE),
        ("modules", "parent", 0, ProblemKind.REFERENCE),
    ],
)
def test_an_index_that_lies_is_refused(
    table: str, column: str, cell: object, kind: ProblemKind, dump: Path
) -> None:
    edit_index(dump, lambda document: set_cell(document, table, column, cell))

    found = validate(dump, deep=False)

    assert kind in {problem.kind for problem in found}
    with pytest.raises(DumpFormatError), open_dump(dump).open() as file:
        file.array(file.index.records[0])


@pytest.mark.parametrize(
    ("table", "column", "number", "kind"),
    [
        ("modules", "path", -1, ProblemKind.REFERENCE),
        ("modules", "bases", 99, ProblemKind.TYPE),
        ("modules", "source", 99, ProblemKind.REFERENCE),
        ("modules", "attributes", 0, ProblemKind.TYPE),
        ("records", "role", 99, ProblemKind.TYPE),
        ("records", "shape", -1, ProblemKind.TYPE),
    ],
)
def test_a_position_that_is_none_is_refused(
    table: str, column: str, number: int, kind: ProblemKind, dump: Path
) -> None:
    datasets = read_tables(dump)
    datasets[table] = with_number(datasets[table], column, 0, number)
    write_tables(dump, datasets)

    found = [(problem.loc, problem.kind) for problem in validate(dump, deep=False)]

    assert found == [(f"{FILE}: {table}[0].{column}", kind)]


@pytest.mark.parametrize("table", ["step", "modules", "calls", "values", "records", "sites"])
def test_a_table_that_is_missing_is_refused(table: str, dump: Path) -> None:
    datasets = read_tables(dump)
    del datasets[table]
    write_tables(dump, datasets)

    assert validate(dump, deep=False)[0].loc == f"{FILE}: {table}"


@pytest.mark.parametrize("table", ["modules", "calls"])
def test_a_row_that_stands_there_twice_is_refused(table: str, dump: Path) -> None:
    edit_index(dump, lambda document: document[table]["rows"].append(document[table]["rows"][0]))

    found = validate(dump, deep=False)

    assert (f"{FILE}: {table}", ProblemKind.UNEXPECTED) in {(p.loc, p.kind) for p in found}


def index_of_json(file: h5py.File) -> None:
    del file["index"]
    file["index"] = np.frombuffer(b"{}", dtype=np.uint8)


def index_of_groups(file: h5py.File) -> None:
    file["index"].create_group("more")


def chunked_table(file: h5py.File) -> None:
    table = file["index/records"][...]
    del file["index/records"]
    file.create_dataset("index/records", data=table, chunks=(1,))


def nested_table(file: h5py.File) -> None:
    del file["index/modules"]
    file["index/modules"] = np.zeros(1, [("path", [("a", "u1")])])


def big_endian_table(file: h5py.File) -> None:
    ends = file["index/string_ends"][...]
    del file["index/string_ends"]
    file["index/string_ends"] = ends.astype(">i4")


@pytest.mark.parametrize(
    "change", [index_of_json, index_of_groups, chunked_table, nested_table, big_endian_table]
)
def test_an_index_that_is_none_is_refused(change: Callable[[h5py.File], None], dump: Path) -> None:
    edit(dump, change)

    with pytest.raises(DumpFormatError):
        open_dump(dump).open()


def test_bytes_that_are_no_booleans_are_refused(tmp_path: Path) -> None:
    booleans = np.ones(70_000, np.bool_)
    dump = DumpBuilder().module("", "Net").call("", inputs=[booleans]).write(tmp_path / "net")
    data = bytearray((dump / FILE).read_bytes())
    data[data.index(booleans.tobytes())] = 7
    (dump / FILE).write_bytes(data)

    with open_dump(dump).open() as file, pytest.raises(DumpFormatError):
        file.array(file.index.records[0])


def test_any_other_hdf5_file_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["data"] = BIG

    with pytest.raises(DumpFormatError):
        StepFile(tmp_path / "x.h5")


def external_group(file: h5py.File) -> None:
    del file["values"]
    file["values"] = h5py.ExternalLink("other.h5", "/values")


def one_dataset_more(file: h5py.File) -> None:
    file["values/other"] = BIG


def something_beside_the_values(file: h5py.File) -> None:
    file["payload"] = BIG


@pytest.mark.parametrize("change", [external_group, one_dataset_more, something_beside_the_values])
def test_a_file_with_anything_else_in_it_is_refused(
    change: Callable[[h5py.File], None], dump: Path
) -> None:
    edit(dump, change)

    with pytest.raises(DumpFormatError):
        open_dump(dump).open()
    assert validate(dump, deep=False) != []
