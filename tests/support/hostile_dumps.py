"""Dumps from somebody who means harm: each function spoils a good one."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5s, h5t

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = "step_000000/rank_0000.h5"
PAGE = "p0000_float32"


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


def edit_index(dump: Path, change: Callable[[Any], object]) -> None:
    def rewrite(file: h5py.File) -> None:
        document = json.loads(file["index"][...].tobytes())
        change(document)
        del file["index"]
        file["index"] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)

    edit_file(dump, rewrite)


def cell(document: Any, table: str, column: str, row: int, value: Any) -> None:  # noqa: ANN401
    """Put something into one cell of an index."""
    document[table]["rows"][row][document[table]["columns"].index(column)] = value


def replace_page(file: h5py.File, **how: Any) -> None:  # noqa: ANN401
    del file[f"values/{PAGE}"]
    file.create_dataset(f"values/{PAGE}", **how)


# -- links


def loop_of_soft_links(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        file[f"values/{PAGE}"] = h5py.SoftLink(f"/values/{PAGE}")

    edit_file(dump, change)


def loop_of_groups(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        file["values/again"] = file["values"]
        file["again"] = file["/"]

    edit_file(dump, change)


def link_to_another_file(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        file[f"values/{PAGE}"] = h5py.ExternalLink(str(dump.parent / "secret.h5"), "/x")

    edit_file(dump, change)


def index_in_another_file(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["index"]
        file["index"] = h5py.ExternalLink(str(dump.parent / "secret.h5"), "/x")

    edit_file(dump, change)


def elements_in_another_file(dump: Path) -> None:
    secret = str(dump.parent / "secret.bin")
    edit_file(
        dump,
        lambda file: replace_page(
            file, shape=(99,), dtype="f4", external=[(secret, 0, h5py.h5f.UNLIMITED)]
        ),
    )


def virtual_elements(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        layout = h5py.VirtualLayout(shape=(99,), dtype="f4")
        layout[:] = h5py.VirtualSource(str(dump.parent / "secret.h5"), "x", shape=(99,))
        file.create_virtual_dataset(f"values/{PAGE}", layout)

    edit_file(dump, change)


def step_file_is_a_link(dump: Path) -> None:
    (dump / FILE).rename(dump.parent / "elsewhere.h5")
    (dump / FILE).symlink_to(dump.parent / "elsewhere.h5")


def step_folder_is_a_link(dump: Path) -> None:
    (dump / "step_000000").rename(dump.parent / "elsewhere")
    (dump / "step_000000").symlink_to(dump.parent / "elsewhere")


def manifest_is_a_link(dump: Path) -> None:
    (dump / "manifest.json").rename(dump.parent / "elsewhere.json")
    (dump / "manifest.json").symlink_to(dump.parent / "elsewhere.json")


def step_file_is_a_pipe(dump: Path) -> None:
    (dump / FILE).unlink()
    os.mkfifo(dump / FILE)


def manifest_is_a_pipe(dump: Path) -> None:
    (dump / "manifest.json").unlink()
    os.mkfifo(dump / "manifest.json")


def manifest_is_a_folder(dump: Path) -> None:
    (dump / "manifest.json").unlink()
    (dump / "manifest.json").mkdir()


# -- sizes


def huge_shape_without_elements(dump: Path) -> None:
    edit_file(dump, lambda file: replace_page(file, shape=(2**48,), dtype="f4"))


def huge_shape_in_chunks(dump: Path) -> None:
    edit_file(dump, lambda file: replace_page(file, shape=(2**48,), dtype="f4", chunks=(2**20,)))


def _bomb(file: h5py.File, chunks: int, chunk_bytes: int) -> None:
    """Store the same packed zeros again and again."""
    del file[f"values/{PAGE}"]
    count = chunks * chunk_bytes // 4
    dataset = file.create_dataset(
        f"values/{PAGE}", shape=(count,), dtype="f4", chunks=(chunk_bytes // 4,), compression=9
    )
    packed = zlib.compress(bytes(chunk_bytes), 9)
    for chunk in range(chunks):
        dataset.id.write_direct_chunk((chunk * chunk_bytes // 4,), packed)


def _claim(document: Any, count: int) -> None:  # noqa: ANN401
    """Let the first value of that page, and its records, be of that many elements."""
    rows = document["values"]["rows"]
    column = document["values"]["columns"].index("dataset")
    value = next(row for row, cells in enumerate(rows) if cells[column] == f"/values/{PAGE}")
    cell(document, "values", "size", value, count)
    cell(document, "values", "offset", value, 0)
    place = document["records"]["columns"].index("value")
    for row, cells in enumerate(document["records"]["rows"]):
        if cells[place] == value:
            cell(document, "records", "shape", row, [count])


def bomb_of_zeros(dump: Path) -> None:
    """Hold 1 GiB of zeros in 1 MB."""
    edit_file(dump, lambda file: _bomb(file, 16, 64 << 20))
    edit_index(dump, lambda document: _claim(document, 16 * (64 << 20) // 4))


def one_huge_chunk(dump: Path) -> None:
    edit_file(dump, lambda file: _bomb(file, 1, 128 << 20))
    edit_index(dump, lambda document: _claim(document, (128 << 20) // 4))


def offset_beyond_the_end(dump: Path) -> None:
    edit_index(dump, lambda document: cell(document, "values", "offset", 0, 2**61))


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


def dataset_outside_the_file(dump: Path) -> None:
    """Move the dataset's address in its object header behind the end of the file."""
    with h5py.File(dump / FILE) as file:
        offset = file[f"values/{PAGE}"].id.get_offset()
    data = (dump / FILE).read_bytes()
    far = (2**40).to_bytes(8, "little")
    (dump / FILE).write_bytes(data.replace(offset.to_bytes(8, "little"), far))


# -- types and structure


def other_dtype(dump: Path) -> None:
    edit_file(dump, lambda file: replace_page(file, data=np.zeros(99, np.int32)))


def text_elements(dump: Path) -> None:
    text = h5py.string_dtype()
    edit_file(dump, lambda file: replace_page(file, data=["x"] * 99, dtype=text))


def references_to_objects(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        replace_page(file, data=[file["index"].ref] * 99, dtype=h5py.ref_dtype)

    edit_file(dump, change)


def user_filter(dump: Path) -> None:
    edit_file(
        dump, lambda file: replace_page(file, data=np.zeros(99, "f4"), chunks=(9,), scaleoffset=2)
    )


def unknown_filter(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file[f"values/{PAGE}"]
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((9,))
        creation.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5s.create_simple((99,))
        h5d.create(file.id, f"values/{PAGE}".encode(), h5t.IEEE_F32LE, space, creation)

    edit_file(dump, change)


def many_attributes(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        space = h5s.create(h5s.SCALAR)
        for number in range(3_000):
            h5a.create(file["index"].id, f"a{number}".encode(), h5t.STD_I8LE, space).close()

    edit_file(dump, change)


def groups_within_groups(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        group = file["values"].id
        for _ in range(5_000):
            group = h5g.create(group, b"g")

    edit_file(dump, change)


def names_that_are_no_text(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        h5g.create(file["values"].id, b"\xff\xfe\x01\x1b[31m")

    edit_file(dump, change)


def index_that_is_no_text(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["index"]
        file["index"] = np.frombuffer(b'{"step": "\xff\xfe"}', dtype=np.uint8)

    edit_file(dump, change)


def deep_index(dump: Path) -> None:
    def change(file: h5py.File) -> None:
        del file["index"]
        file["index"] = np.frombuffer(b"[" * 2_000_000, dtype=np.uint8)

    edit_file(dump, change)


def tree_with_a_cycle(dump: Path) -> None:
    def change(document: Any) -> None:  # noqa: ANN401
        cell(document, "modules", "parent", 1, 2)
        cell(document, "modules", "parent", 2, 1)

    edit_index(dump, change)


def address_twice(dump: Path) -> None:
    def change(document: Any) -> None:  # noqa: ANN401
        rows = document["records"]["rows"]
        rows.append(list(rows[-1]))

    edit_index(dump, change)


def module_path_twice(dump: Path) -> None:
    edit_index(dump, lambda document: cell(document, "modules", "path", 2, "fc1"))


# -- manifests


def manifest_with_long_number(dump: Path) -> None:
    path = dump / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"seed": 0', '"seed": ' + "9" * 1_000_000), encoding="utf-8")


def manifest_with_huge_numbers(dump: Path) -> None:
    edit_manifest(dump, lambda top: top["files"][0].update(step=10**18, records=10**30))


def manifest_with_infinity(dump: Path) -> None:
    path = dump / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"seed": 0', '"seed": 1e999'), encoding="utf-8")


def deep_manifest(dump: Path) -> None:
    text = '{"format": "padiff-dump", "settings": ' + '{"a":' * 500_000
    (dump / "manifest.json").write_text(text, encoding="utf-8")


def manifest_that_is_no_text(dump: Path) -> None:
    (dump / "manifest.json").write_bytes(b'{"format": "padiff-dump\xff"}')


def manifest_of_many_files(dump: Path) -> None:
    def change(top: Any) -> None:  # noqa: ANN401
        first = top["files"][0]
        top["files"] += [
            first | {"step": step, "path": f"step_{step:06d}/rank_0000.h5"}
            for step in range(1, 10_000)
        ]

    edit_manifest(dump, change)


def manifest_that_leads_outside(dump: Path) -> None:
    edit_manifest(dump, lambda top: top["files"][0].update(path="../../../etc/passwd"))


def manifest_beyond_all_size(dump: Path) -> None:
    with (dump / "manifest.json").open("r+b") as file:
        file.truncate(10 << 30)  # sparse


# -- packed


def pack_as_it_is(dump: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        archive.write(dump / FILE, FILE)


def zip_with_a_way_out(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("../../outside", "x")


def zip_with_an_absolute_path(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr(str(dump.parent / "outside"), "x")


def zip_with_a_link(dump: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        link = zipfile.ZipInfo(FILE)
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(dump / FILE))


def zip_bomb(dump: Path, target: Path) -> None:
    """Hold 2 GiB of zeros in 2 MB."""
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        zeros = bytes(64 << 20)
        with archive.open(FILE, "w", force_zip64=True) as member:
            for _ in range(32):
                member.write(zeros)


def zip_of_many_names(dump: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        for step in range(20_000):
            archive.writestr(f"step_{step:06d}/rank_0000.h5", b"")


def zip_with_a_name_twice(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    data = target.read_bytes()
    target.write_bytes(data.replace(FILE.encode(), b"manifest.json".ljust(len(FILE), b"\0")))


def zip_that_is_encrypted(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    data = bytearray(target.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + place] |= 1
            at = data.find(mark, at + 4)
    target.write_bytes(data)


def functions_between(first: str, last: str) -> list[Callable[..., None]]:
    """Give the functions of this module from one to another, in order."""
    names = list(globals())
    chosen = names[names.index(first) : names.index(last) + 1]
    return [globals()[name] for name in chosen if not name.startswith("_")]


DIRECTORIES = functions_between("loop_of_soft_links", "manifest_beyond_all_size")
ARCHIVES = functions_between("zip_with_a_way_out", "zip_that_is_encrypted")
