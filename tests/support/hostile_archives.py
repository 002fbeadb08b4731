"""Packed dumps from somebody who means harm: each function packs a good one badly."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from tests.support.hostile_dumps import Cases
from tests.support.indexes import FILE

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVES = Cases()


def pack_as_it_is(dump: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        archive.write(dump / FILE, FILE)


@ARCHIVES.refused("'../../outside' is no part of a dump")
def zip_with_a_way_out(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("../../outside", "x")


@ARCHIVES.refused("outside' is no part of a dump")
def zip_with_an_absolute_path(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr(str(dump.parent / "outside"), "x")


@ARCHIVES.refused("bytes, found")
def zip_with_a_link(dump: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        link = zipfile.ZipInfo(FILE)
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(dump / FILE))


@ARCHIVES.refused("times its size when unpacked")
def zip_bomb(dump: Path, target: Path) -> None:
    """Hold 1088 MiB of zeros in 1 MB."""
    with zipfile.ZipFile(target, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        zeros = bytes(64 << 20)
        with archive.open(FILE, "w", force_zip64=True) as member:
            for _ in range(17):
                member.write(zeros)


@ARCHIVES.refused("compressed by bzip2: expected a stored or deflated member")
def zip_bomb_of_bzip2(dump: Path, target: Path) -> None:
    zip_of_zeros(zipfile.ZIP_BZIP2, dump, target)


@ARCHIVES.refused("compressed by lzma: expected a stored or deflated member")
def zip_bomb_of_lzma(dump: Path, target: Path) -> None:
    zip_of_zeros(zipfile.ZIP_LZMA, dump, target)


@ARCHIVES.refused("compressed by lzma: expected a stored or deflated member")
def zip_of_damaged_lzma(dump: Path, target: Path) -> None:
    zip_of_zeros(zipfile.ZIP_LZMA, dump, target)
    data = bytearray(target.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20] = b"\x5a" * 20
    target.write_bytes(data)


@ARCHIVES.refused("compressed by method 99: expected a stored or deflated member")
def zip_of_a_method_that_nobody_knows(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    data = bytearray(target.read_bytes())
    data[data.rindex(b"PK\x01\x02") + 10] = 99
    target.write_bytes(data)


def zip_of_zeros(method: int, dump: Path, target: Path) -> None:
    """Pack a dump whose one file unpacks to 64 MiB in one call, however little is asked for."""
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        archive.writestr(FILE, bytes(64 << 20), compress_type=method)


@ARCHIVES.refused("is not in its manifest")
def zip_of_many_names(dump: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(dump / "manifest.json", "manifest.json")
        for step in range(20_000):
            archive.writestr(f"step_{step:06d}/rank_0000.h5", b"")


@ARCHIVES.refused("a name occurs twice")
def zip_with_a_name_twice(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    data = target.read_bytes()
    target.write_bytes(data.replace(FILE.encode(), b"manifest.json".ljust(len(FILE), b"\0")))


@ARCHIVES.refused("is encrypted")
def zip_that_is_encrypted(dump: Path, target: Path) -> None:
    pack_as_it_is(dump, target)
    data = bytearray(target.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + place] |= 1
            at = data.find(mark, at + 4)
    target.write_bytes(data)
