"""Compressed chunks from somebody who means harm: each function spoils a good dump."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from h5py import h5d, h5p, h5s, h5t, h5z

from tests.support.hostile_dumps import OWN, Cases, claim, edit_file
from tests.support.indexes import edit_index

if TYPE_CHECKING:
    from pathlib import Path

    import h5py

CHUNKS = Cases()
COUNT = 1024


def one_chunk(dump: Path, stream: bytes, filters: tuple[int, ...]) -> None:
    """Let a value be of one chunk that is stored so."""

    def add(file: h5py.File) -> None:
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk((COUNT,))
        for code in filters:
            creation.set_filter(code, h5z.FLAG_MANDATORY, (4,))
        space = h5s.create_simple((COUNT,))
        name = f"values/{OWN}".encode()
        dataset = h5d.create(file.id, name, h5t.IEEE_F32LE, space, creation)
        dataset.write_direct_chunk((0,), stream)

    edit_file(dump, add)
    edit_index(dump, lambda document: claim(document, COUNT))


def zeros(size_bytes: int) -> bytes:
    packer = zlib.compressobj(9)
    parts = [packer.compress(bytes(1 << 24)) for _ in range(size_bytes >> 24)]
    return b"".join(parts) + packer.flush()


@CHUNKS.refused("expected 4096 bytes through all filters")
def bomb_within_a_chunk(dump: Path) -> None:
    """Hold 512 MiB where 4 KiB are declared; HDF5 would unpack it all."""
    one_chunk(dump, zeros(512 << 20), (h5z.FILTER_DEFLATE,))


@CHUNKS.refused("filter 1 comes twice")
def bomb_within_a_bomb(dump: Path) -> None:
    """Hold 512 MiB between two filters."""
    inner = zlib.compress(zeros(512 << 20), 9)
    one_chunk(dump, inner, (h5z.FILTER_DEFLATE, h5z.FILTER_DEFLATE))


@CHUNKS.refused("expected 4096 bytes through all filters")
def chunk_that_is_cut_off(dump: Path) -> None:
    one_chunk(dump, zlib.compress(bytes(100)), (h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE))


@CHUNKS.refused("cannot unpack a chunk: Error -3")
def chunk_of_something_else(dump: Path) -> None:
    one_chunk(dump, b"x" * 100, (h5z.FILTER_DEFLATE,))
