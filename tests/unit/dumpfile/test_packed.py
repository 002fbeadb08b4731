"""A packed dump reads as the dump it was, and an archive from anyone does no harm."""

from __future__ import annotations

import errno
import tempfile
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import (
    DumpError,
    DumpFormatError,
    DumpWriteError,
    DumpWriter,
    open_dump,
    validate,
)
from padiff.dumpfile.lock import PlaceLock
from padiff.dumpfile.packed import pack, unpacked
from padiff.dumpfile.scratch import scratch_folder
from tests.support.dumps import DumpBuilder, add_step, manifest
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_packed_dump_is_the_dump(tmp_path: Path) -> None:
    dump = tiny_net().write(tmp_path / "net")
    target = tmp_path / "net.padiff.zip"

    size = pack(dump, target)

    assert size == target.stat().st_size
    with unpacked(target) as place:
        assert files(place) == files(dump)
        assert validate(place, deep=True) == []
    assert not place.exists()


def test_packing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    dump = tiny_net().write(tmp_path / "net")

    for name in ("a", "b"):
        pack(dump, tmp_path / f"{name}.padiff.zip")

    assert (tmp_path / "a.padiff.zip").read_bytes() == (tmp_path / "b.padiff.zip").read_bytes()


def test_directory_is_given_as_it_is(tmp_path: Path) -> None:
    with unpacked(tmp_path) as place:
        assert place == tmp_path


def test_file_is_replaced_only_when_asked(tmp_path: Path) -> None:
    dump = tiny_net().write(tmp_path / "net")
    target = tmp_path / "net.padiff.zip"
    pack(dump, target)

    with pytest.raises(DumpWriteError, match="exists already"):
        pack(dump, target)
    assert pack(dump, target, overwrite=True) > 0
    with pytest.raises(DumpWriteError, match="expected a name"):
        pack(dump, tmp_path / "net.h5")


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "step_000000/../../evil", "step_000000/rank_0000.h5/x", "a.py"]
)
def test_no_member_gets_a_path_of_its_own_choosing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "evil.padiff.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")
        archive.writestr(name, "evil")

    with pytest.raises(DumpError, match="no part of a dump"), unpacked(path):
        pytest.fail("it was unpacked")

    assert list(tmp_path.iterdir()) == [path]


def test_member_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.padiff.zip"
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", "{}" + " " * 100_000)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    path.write_bytes(data)

    with pytest.raises(DumpError), unpacked(path):
        pytest.fail("it was unpacked")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04"])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.padiff.zip"
    path.write_bytes(content)

    with pytest.raises(DumpError, match="cannot read packed dump"), unpacked(path):
        pytest.fail("it was unpacked")


def test_damaged_archive_is_refused(tmp_path: Path) -> None:
    dump = tiny_net().write(tmp_path / "net")
    target = tmp_path / "net.padiff.zip"
    pack(dump, target)
    data = bytearray(target.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 0xFF
    target.write_bytes(data)

    try:
        with unpacked(target) as place:
            problems = [problem.message for problem in validate(place, deep=True)]
    except DumpError as error:
        problems = [error.message]

    assert problems


def test_large_compressed_value_is_mapped_from_a_file_without_name(tmp_path: Path) -> None:
    zeros = np.zeros(40 << 20, np.float32)
    zeros[1_234_567] = 7
    with DumpWriter(tmp_path / "net", compression=1) as writer:
        add_step(writer, DumpBuilder().module("", "Net").call("", inputs=[zeros]))
        path = writer.commit(manifest())

    with open_dump(path).open() as file:
        found = file.array(file.index.records[0])

    assert found.nbytes == zeros.nbytes
    assert found[1_234_567] == 7
    assert np.count_nonzero(found) == 1
    assert not found.flags.writeable


def test_folders_of_killed_processes_are_removed_and_others_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in (".padiff-scratch-dead", ".padiff-scratch-alive", ".padiff-scratch-new"):
        (tmp_path / name / "dump").mkdir(parents=True)
    (tmp_path / ".padiff-scratch-dead" / "lock").write_text("process 1 on nowhere")
    alive = PlaceLock(tmp_path / ".padiff-scratch-alive" / "lock")
    assert alive.acquire() is None

    with scratch_folder() as folder:
        left = {entry.name for entry in tmp_path.iterdir()}

    assert left == {".padiff-scratch-alive", ".padiff-scratch-new", folder.name}
    assert not folder.exists()
    alive.release()


def test_full_temporary_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(tiny_net().write(tmp_path / "net"), tmp_path / "net.padiff.zip")

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)

    with pytest.raises(DumpFormatError) as caught, unpacked(tmp_path / "net.padiff.zip"):
        pytest.fail("it was unpacked")

    assert "No space left" in caught.value.message
    assert "TMPDIR" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["step_000000/rank_0000.h5", "floor.json"])
def test_links_in_a_dump_are_not_packed(name: str, tmp_path: Path) -> None:
    dump = tiny_net().write(tmp_path / "net")
    (tmp_path / "secret").write_bytes(b"x")
    (dump / name).unlink(missing_ok=True)
    (dump / name).symlink_to(tmp_path / "secret")

    with pytest.raises(DumpFormatError, match="link"):
        pack(dump, tmp_path / "net.padiff.zip")

    assert not (tmp_path / "net.padiff.zip").exists()
