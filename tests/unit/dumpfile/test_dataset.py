"""Files that try to lead a reader elsewhere, or to make it allocate what is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from padiff.dumpfile import DumpFormatError, ProblemKind, StepFile, open_dump, validate
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BIG = np.arange(40_000, dtype=np.float32)
FILE = "step_000000/rank_0000.h5"
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


def edit_index(dump: Path, change: Callable[[Any], None]) -> Path:
    def rewrite(file: h5py.File) -> None:
        document = json.loads(file["index"][...].tobytes())
        change(document)
        del file["index"]
        file["index"] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)

    return edit(dump, rewrite)


def set_cell(document: Any, table: str, column: str, cell: Any) -> None:  # noqa: ANN401
    position = document[table]["columns"].index(column)
    document[table]["rows"][0][position] = cell


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
        ("values", "size", 10**30, ProblemKind.TYPE),
        ("values", "dtype", "float64", ProblemKind.MISSING),
        ("values", "dtype", "object", ProblemKind.TYPE),
        ("values", "digest", "0", ProblemKind.TYPE),
        ("values", "mean", "nan", ProblemKind.TYPE),
        ("records", "shape", [-1, -40_000], ProblemKind.TYPE),
        ("records", "shape", [2**40, 2**40], ProblemKind.SIZE),
        ("records", "shape", [True], ProblemKind.TYPE),
        ("records", "value", 1, ProblemKind.REFERENCE),
        ("records", "value", -1, ProblemKind.TYPE),
        ("records", "module", 1, ProblemKind.REFERENCE),
        ("records", "call", None, ProblemKind.REFERENCE),
        ("records", "call", 9, ProblemKind.REFERENCE),
        ("records", "role", "outcome", ProblemKind.TYPE),
        ("records", "phase", 3, ProblemKind.TYPE),
        ("calls", "parent", 0, ProblemKind.REFERENCE),
        ("calls", "module", 5, ProblemKind.REFERENCE),
        ("modules", "parent", 0, ProblemKind.REFERENCE),
        ("modules", "attributes", [], ProblemKind.TYPE),
        ("modules", "source", ["f", "1", ""], ProblemKind.TYPE),
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


@pytest.mark.parametrize("table", ["modules", "calls", "values", "records"])
def test_a_table_that_is_missing_or_ragged_is_refused(table: str, dump: Path) -> None:
    edit_index(dump, lambda document: document[table]["rows"][0].append(1))
    assert validate(dump, deep=False)[0].loc == f"{FILE}: {table}.rows"

    edit_index(dump, lambda document: document.pop(table))
    assert validate(dump, deep=False)[0].loc == f"{FILE}: {table}"


@pytest.mark.parametrize("table", ["modules", "calls"])
def test_a_row_that_stands_there_twice_is_refused(table: str, dump: Path) -> None:
    edit_index(dump, lambda document: document[table]["rows"].append(document[table]["rows"][0]))

    found = validate(dump, deep=False)

    assert (f"{FILE}: {table}", ProblemKind.UNEXPECTED) in {(p.loc, p.kind) for p in found}


@pytest.mark.parametrize("data", [b"[]", b"{", b"[" * 100_000, b'{"step":1e999}', b"\xff"])
def test_an_index_that_is_none_is_refused(data: bytes, dump: Path) -> None:
    def replace(file: h5py.File) -> None:
        del file["index"]
        file["index"] = np.frombuffer(data, dtype=np.uint8)

    edit(dump, replace)

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
