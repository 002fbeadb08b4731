"""Dumps from somebody who means harm: each function spoils a good one."""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5s, h5t

from padiff.dumpfile.dtypes import MOST_AXES
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

    Spoil = TypeVar("Spoil", bound=Callable[..., Any])

PAGE = "p0000_float32"
ATTRIBUTES = 3_000
OWN = "v00000099"  # a dataset that no good dump here has


class Cases(list[tuple["Callable[..., Any]", str]]):
    """Functions that spoil a dump, each with words by which ``padiff check`` must refuse it."""

    def refused(self, words: str) -> Callable[[Spoil], Spoil]:
        """Add a function."""

        def add(spoil: Spoil) -> Spoil:
            self.append((spoil, words))
            return spoil

        return add


DUMPS = Cases()


def state_size(dump: Path) -> None:
    """Let the manifest state the size that the file has now."""
    edit_manifest(dump, lambda top: top["files"][0].update(size_bytes=size(dump)))


def size(dump: Path) -> int:
    return (dump / FILE).stat().st_size


def edit_manifest(dump: Path, change: Callable[[Any], object]) -> None:
    path = dump / "manifest.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def edit_file(dump: Path, change: Callable[[h5py.File], object]) -> None:
    with h5py.File(dump / FILE, "r+") as file:
        change(file)
    state_size(dump)


def forget_contents(dump: Path) -> None:
    """Leave the table of contents out, as dumps did before there was one."""
    edit_file(dump, lambda file: file.__delitem__("contents"))
    path = dump / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for entry in manifest["files"]:
        entry.pop("contents", None)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def cell(document: Any, table: str, column: str, row: int, value: Any) -> None:  # noqa: ANN401
    """Put something into one cell of an index."""
    set_cell(document, table, column, value, row)


def replace_page(file: h5py.File, **how: Any) -> None:  # noqa: ANN401
    del file[f"values/{PAGE}"]
    file.create_dataset(f"values/{PAGE}", **how)


# -- links


@DUMPS.refused("is a soft or external link")
def loop_of_soft_links(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        file[f"values/{PAGE}"] = h5py.SoftLink(f"/values/{PAGE}")

    edit_file(dump, change)


@DUMPS.refused("expected 1 datasets as the index says, found 3")
def loop_of_groups(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        file["values/again"] = file["values"]
        file["again"] = file["/"]

    edit_file(dump, change)


@DUMPS.refused("is a soft or external link")
def link_to_another_file(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        file[f"values/{PAGE}"] = h5py.ExternalLink(str(dump.parent / "secret.h5"), "/x")

    edit_file(dump, change)


@DUMPS.refused("'index' is a soft or external link")
def index_in_another_file(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["index"]
        file["index"] = h5py.ExternalLink(str(dump.parent / "secret.h5"), "/x")

    edit_file(dump, change)


@DUMPS.refused("'records' is a soft or external link")
def table_in_another_file(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["index/records"]
        file["index/records"] = h5py.ExternalLink(str(dump.parent / "secret.h5"), "/x")

    edit_file(dump, change)


@DUMPS.refused("in another file, which is never opened")
def elements_in_another_file(dump: Path) -> None:
    secret = str(dump.parent / "secret.bin")
    edit_file(
        dump,
        lambda file: replace_page(
            file, shape=(99,), dtype="f4", external=[(secret, 0, h5py.h5f.UNLIMITED)]
        ),
    )


@DUMPS.refused("neither contiguous nor chunked")
def virtual_elements(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        layout = h5py.VirtualLayout(shape=(99,), dtype="f4")
        layout[:] = h5py.VirtualSource(str(dump.parent / "secret.h5"), "x", shape=(99,))
        file.create_virtual_dataset(f"values/{PAGE}", layout)

    edit_file(dump, change)


@DUMPS.refused("it is a link")
def step_file_is_a_link(dump: Path) -> None:
    (dump / FILE).rename(dump.parent / "elsewhere.h5")
    (dump / FILE).symlink_to(dump.parent / "elsewhere.h5")


@DUMPS.refused("it is a link")
def step_folder_is_a_link(dump: Path) -> None:
    (dump / "step_000000").rename(dump.parent / "elsewhere")
    (dump / "step_000000").symlink_to(dump.parent / "elsewhere")


@DUMPS.refused("expected a plain file")
def step_file_is_a_pipe(dump: Path) -> None:
    (dump / FILE).unlink()
    os.mkfifo(dump / FILE)


# -- sizes


@DUMPS.refused("expected 1125899906842624 bytes in the file")
def huge_shape_without_elements(dump: Path) -> None:
    edit_file(dump, lambda file: replace_page(file, shape=(2**48,), dtype="f4"))


@DUMPS.refused(f"records[0].shape: type: expected list of at most {MOST_AXES} sizes, found")
def shape_of_more_axes_than_an_array_can_have(dump: Path) -> None:
    def change(document: Any) -> None:  # noqa: ANN401
        column = document["records"]["columns"].index("shape")
        for row in document["records"]["rows"]:
            row[column] = [1] * MOST_AXES + row[column]

    edit_index(dump, change)


@DUMPS.refused("0 stored bytes cannot hold")
def huge_shape_in_chunks(dump: Path) -> None:
    edit_file(dump, lambda file: replace_page(file, shape=(2**48,), dtype="f4", chunks=(2**20,)))


def _bomb(file: h5py.File, chunks: int, chunk_bytes: int) -> None:
    """Store the same packed zeros again and again."""
    count = chunks * chunk_bytes // 4
    dataset = file.create_dataset(
        f"values/{OWN}", shape=(count,), dtype="f4", chunks=(chunk_bytes // 4,), compression=9
    )
    packed = zlib.compress(bytes(chunk_bytes), 9)
    for chunk in range(chunks):
        dataset.id.write_direct_chunk((chunk * chunk_bytes // 4,), packed)


def claim(document: Any, count: int) -> int:  # noqa: ANN401
    """Let a value lie in a dataset of its own, of that many elements; gives its number."""
    rows = document["values"]["rows"]
    column = document["values"]["columns"].index("dataset")
    value = next(row for row, cells in enumerate(rows) if cells[column] == f"/values/{PAGE}")
    cell(document, "values", "size", value, count)
    cell(document, "values", "dataset", value, f"/values/{OWN}")
    cell(document, "values", "offset", value, 0)
    place = document["records"]["columns"].index("value")
    for row, cells in enumerate(document["records"]["rows"]):
        if cells[place] == value:
            cell(document, "records", "shape", row, [count])
    return value


@DUMPS.refused("values[0].digest: digest: expected")
def bomb_of_zeros(dump: Path) -> None:
    """Hold 448 MiB of zeros, more than there is memory, in 448 KB."""
    edit_file(dump, lambda file: _bomb(file, 7, 64 << 20))
    edit_index(dump, lambda document: claim(document, 7 * (64 << 20) // 4))


@DUMPS.refused("a chunk of 134217728 bytes")
def one_huge_chunk(dump: Path) -> None:
    edit_file(dump, lambda file: _bomb(file, 1, 128 << 20))
    edit_index(dump, lambda document: claim(document, (128 << 20) // 4))


@DUMPS.refused("cannot store 2147483647 bytes")
def chunk_that_claims_to_be_large(dump: Path) -> None:
    """Let the file say that the last chunk takes 2 GiB in it, so that all could be 2 TiB."""
    size = 54_321

    def change(file: h5py.File) -> None:
        shape, chunks = (2**37,), (1 << 20,)
        dataset = file.create_dataset(
            f"values/{OWN}", shape=shape, dtype="f4", chunks=chunks, compression=9
        )
        packed = zlib.compress(bytes(4 << 20), 9)
        dataset.id.write_direct_chunk((shape[0] - chunks[0],), packed + bytes(size - len(packed)))

    edit_file(dump, change)
    data = (dump / FILE).read_bytes()
    assert data.count(size.to_bytes(4, "little")) == 1
    (dump / FILE).write_bytes(
        data.replace(size.to_bytes(4, "little"), (2**31 - 1).to_bytes(4, "little"))
    )
    edit_index(dump, lambda document: claim(document, 2**37))


@DUMPS.refused("expected elements 2305843009213693952")
def offset_beyond_the_end(dump: Path) -> None:
    edit_index(dump, lambda document: cell(document, "values", "offset", 0, 2**61))


@DUMPS.refused("overlap with those of")
def overlapping_values(dump: Path) -> None:
    def change(document: Any) -> None:  # noqa: ANN401
        first = document["values"]["rows"][0]
        column = document["values"]["columns"].index
        second = next(
            row
            for row, cells in enumerate(document["values"]["rows"])
            if row and cells[column("dataset")] == first[column("dataset")]
        )
        cell(document, "values", "offset", second, first[column("offset")])

    edit_index(dump, change)


@DUMPS.refused("HDF5 says")
def dataset_outside_the_file(dump: Path) -> None:
    """Move a dataset's address behind the end of a file of the old form, without checksums."""
    with h5py.File(dump / FILE) as file:
        names = (*(f"index/{name}" for name in file["index"]), f"values/{PAGE}")
        found = {name: file[name][...] for name in names}
    with h5py.File(dump / FILE, "w", libver="earliest") as file:
        file.create_group("values")
        for name, elements in found.items():
            file[name] = elements
    with h5py.File(dump / FILE) as file:
        offset = file[f"values/{PAGE}"].id.get_offset()
    data = (dump / FILE).read_bytes()
    far = (2**40).to_bytes(8, "little")
    assert data.count(offset.to_bytes(8, "little")) == 1
    (dump / FILE).write_bytes(data.replace(offset.to_bytes(8, "little"), far))
    state_size(dump)


# -- types and structure


@DUMPS.refused("expected the elements to be float32")
def other_dtype(dump: Path) -> None:
    edit_file(dump, lambda file: replace_page(file, data=np.zeros(99, np.int32)))


def sample_of_five_equal_axes(dump: Path) -> None:
    """Let as many positions be drawn as may be, each in 120 orders of the axes."""
    count, side = 1 << 20, 64

    def sample(document: Any) -> None:  # noqa: ANN401
        value = claim(document, side**5)
        cell(document, "values", "content", value, "sample")
        names = ["value", "count", "shape"]
        document["samples"] = {"columns": names, "rows": [[value, count, [side] * 5]]}

    def add(file: h5py.File) -> None:
        file.create_dataset(f"values/{OWN}", data=np.zeros(2 * count, np.float32))

    edit_file(dump, add)
    edit_index(dump, sample)
    forget_contents(dump)


@DUMPS.refused("expected the elements to be float32")
def text_elements(dump: Path) -> None:
    text = h5py.string_dtype()
    edit_file(dump, lambda file: replace_page(file, data=["x"] * 99, dtype=text))


@DUMPS.refused("expected the elements to be float32")
def references_to_objects(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        replace_page(file, data=[file["index/step"].ref] * 99, dtype=h5py.ref_dtype)

    edit_file(dump, change)


@DUMPS.refused("filter 6 is neither")
def user_filter(dump: Path) -> None:
    edit_file(
        dump, lambda file: replace_page(file, data=np.zeros(99, "f4"), chunks=(9,), scaleoffset=2)
    )


@DUMPS.refused("filter 32015 is neither")
def unknown_filter(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((9,))
        creation.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5s.create_simple((99,))
        h5d.create(file.id, f"values/{PAGE}".encode(), h5t.IEEE_F32LE, space, creation)

    edit_file(dump, change)


@DUMPS.refused("HDF5 attributes, which a dump does not have")
def many_attributes(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        space = h5s.create(h5s.SCALAR)
        for number in range(ATTRIBUTES):
            h5a.create(file["index/step"].id, f"a{number}".encode(), h5t.STD_I8LE, space).close()

    edit_file(dump, change)


@DUMPS.refused("expected 1 datasets as the index says, found 2")
def groups_within_groups(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        group = file["values"].id
        for _ in range(5_000):
            group = h5g.create(group, b"g")

    edit_file(dump, change)


@DUMPS.refused("expected 1 datasets as the index says, found 2")
def names_that_are_no_text(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        h5g.create(file["values"].id, b"\xff\xfe\x01\x1b[31m")

    edit_file(dump, change)


def edit_table(dump: Path, name: str, change: Callable[[Any], Any]) -> None:
    datasets = read_tables(dump)
    write_tables(dump, {**datasets, name: change(datasets[name])})


@DUMPS.refused("can't decode byte 0xff")
def texts_that_are_no_text(dump: Path) -> None:
    edit_table(dump, "string_bytes", lambda data: np.where(np.arange(data.size) == 9, 255, data))


@DUMPS.refused("attributes: type: expected the JSON text of an object, found '[[[")
def deep_attributes(dump: Path) -> None:
    deep = "[" * 2_000_000

    def change(document: Any) -> None:  # noqa: ANN401
        cell(document, "modules", "class_name", 1, deep)

    edit_index(dump, change)
    rows = read_tables(dump)["modules"]
    position = int(rows["class_name"][1])
    edit_table(dump, "modules", lambda table: with_number(table, "attributes", 1, position))


@DUMPS.refused("expected distinct texts")
def millions_of_empty_texts(dump: Path) -> None:
    edit_table(dump, "string_ends", lambda ends: np.append(np.zeros(5_000_000, np.int64), ends))


@DUMPS.refused("expected ascending ends")
def texts_that_end_beyond_all(dump: Path) -> None:
    edit_table(dump, "string_ends", lambda ends: with_number(ends, None, -1, 2**62))


@DUMPS.refused("expected ascending ends")
def lists_that_end_before_they_begin(dump: Path) -> None:
    edit_table(dump, "list_ends", lambda ends: with_number(ends, None, 0, -(2**62)))


@DUMPS.refused("records[0].slot: reference: expected one of the strings")
def text_beyond_the_table(dump: Path) -> None:
    edit_table(dump, "records", lambda table: with_number(table, "slot", 0, 2**62))


@DUMPS.refused("expected the columns path, class_name")
def table_without_a_column(dump: Path) -> None:
    names = ["path", "class_name"]
    edit_table(
        dump, "modules", lambda table: np.array(table[names].tolist(), [(n, "u1") for n in names])
    )


@DUMPS.refused("modules.path: type: expected integers, found float64")
def column_of_another_kind(dump: Path) -> None:
    def change(table: Any) -> Any:  # noqa: ANN401
        kinds = [(name, "<f8" if name == "path" else "<i4") for name in table.dtype.names]
        return np.array(table.tolist(), kinds)

    edit_table(dump, "modules", change)


@DUMPS.refused("expected fields of integers, float64 or 16 bytes")
def column_of_references(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["index/modules"]
        kind = np.dtype([("path", h5py.ref_dtype)])
        file.create_dataset("index/modules", shape=(3,), dtype=kind)

    edit_file(dump, change)


@DUMPS.refused("calls: missing: expected the dataset, found none")
def table_that_is_not_there(dump: Path) -> None:
    datasets = read_tables(dump)
    del datasets["calls"]
    write_tables(dump, datasets)


@DUMPS.refused("payload: unexpected: unknown dataset")
def table_that_nobody_knows(dump: Path) -> None:
    write_tables(dump, read_tables(dump) | {"payload": np.zeros(9, np.uint8)})


@DUMPS.refused("modules[1].parent: reference: expected an earlier row")
def tree_with_a_cycle(dump: Path) -> None:
    def change(document: Any) -> None:  # noqa: ANN401
        cell(document, "modules", "parent", 1, 2)
        cell(document, "modules", "parent", 2, 1)

    edit_index(dump, change)


@DUMPS.refused("the same address as records")
def address_twice(dump: Path) -> None:
    def change(document: Any) -> None:  # noqa: ANN401
        rows = document["records"]["rows"]
        rows.append(list(rows[-1]))

    edit_index(dump, change)


@DUMPS.refused("a module path stands there twice")
def module_path_twice(dump: Path) -> None:
    edit_index(dump, lambda document: cell(document, "modules", "path", 2, "fc1"))
