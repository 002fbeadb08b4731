"""Dumps as large as one likes that take no room on the disk: all elements but one are holes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import xxhash
from h5py import h5d, h5f, h5g, h5p, h5s, h5t

from padiff.dumpfile import CallInfo, FileInfo, ModuleInfo, Phase, Role, Statistics, ValueInfo
from padiff.dumpfile.columns import PoolsBuilder
from padiff.dumpfile.dtypes import hdf5_type
from padiff.dumpfile.indexcodec import TABLES, encode_index
from padiff.dumpfile.manifestcodec import MANIFEST_NAME, encode_manifest, file_path
from tests.support.dumps import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from padiff.dumpfile.dtypes import Array

__all__ = ["write_sparse"]


_ZEROS = bytes(1 << 20)


def write_sparse(directory: Path, tensors: int, elements: int, *, seed: int) -> Path:
    """Write a dump of layers that each give one tensor of float32 zeros but for the first element.

    The model gives what the last layer gives.

    Args:
        directory: Where.
        tensors: How many.
        elements: Of each.
        seed: What the first elements are made of, below any tolerance: dumps of other seeds are
            compared by elements, and match.
    """
    relative = file_path(0, 0)
    path = directory / relative
    path.parent.mkdir(parents=True)
    values = [_value(number, elements, _first(number, seed)) for number in range(tensors)]
    modules, calls = _run(tensors)
    pools = PoolsBuilder()
    end = 2 * tensors + 1
    records = [
        *(_record(number, elements) for number in range(tensors)),
        [0, 0, Phase.FORWARD, Role.OUTPUT, "", end, [elements], tensors - 1, False, None],
    ]
    names = [column.name for column in TABLES["records"]]
    index = encode_index(
        step=0,
        rank=0,
        modules=modules,
        calls=calls,
        values=values,
        records=dict(zip(names, zip(*records, strict=True), strict=True)),
        pools=pools,
    )
    _write_file(path, values, pools.datasets() | index)
    info = FileInfo(
        step=0,
        rank=0,
        path=relative,
        size_bytes=path.stat().st_size,
        calls=len(calls),
        records=tensors + 1,
    )
    about = manifest(name=directory.name, files=(info,))
    (directory / MANIFEST_NAME).write_bytes(encode_manifest(about))
    return directory


def _run(tensors: int) -> tuple[list[ModuleInfo], list[CallInfo]]:
    modules = [ModuleInfo(id=0, path="", class_name="Net", class_path="net.Net", parent=None)]
    calls = [CallInfo(id=0, module=0, index=0, parent=None, start=0, end=2 * tensors + 1)]
    for number in range(1, tensors + 1):
        modules.append(
            ModuleInfo(
                id=number,
                path=f"layer{number}",
                class_name="Linear",
                class_path="torch.nn.modules.linear.Linear",
                parent=0,
            )
        )
        start = 2 * number - 1
        calls.append(
            CallInfo(id=number, module=number, index=0, parent=0, start=start, end=start + 1)
        )
    return modules, calls


def _first(number: int, seed: int) -> np.float32:
    """Give the first element of a tensor, another one for each tensor and seed."""
    return np.float32((seed + 100 * number) * 1e-12)


def _value(number: int, elements: int, first: np.float32) -> ValueInfo:
    size = float(first)
    return ValueInfo(
        id=number,
        digest=_digest(elements, first),
        dtype="float32",
        size=elements,
        statistics=Statistics(
            minimum=0.0, maximum=size, mean=size / elements, l2=size, zeros=elements - 1
        ),
        dataset=f"/values/v{number:08d}",
    )


def _digest(elements: int, first: np.float32) -> str:
    digest = xxhash.xxh3_128(b"float32\0" + first.tobytes())
    left = 4 * elements - 4
    while left:
        size = min(left, len(_ZEROS))
        digest.update(_ZEROS[:size])
        left -= size
    return digest.hexdigest()


def _record(number: int, elements: int) -> Sequence[object]:
    call = number + 1
    return [call, call, Phase.FORWARD, Role.OUTPUT, "", 2 * call, [elements], number, False, None]


def _write_file(path: Path, values: Sequence[ValueInfo], index: Mapping[str, Array]) -> None:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
    access.set_alignment(512, 64)
    file = h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fapl=access)
    for group in (b"values", b"index"):
        h5g.create(file, group).close()
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_layout(h5d.CONTIGUOUS)
    creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    starts: list[int] = []
    for value in values:
        space = h5s.create_simple((value.size,))
        name = (value.dataset or "").encode()
        made = h5d.create(file, name, hdf5_type("float32"), space, creation)
        starts.append(made.get_offset())
        made.close()
    for table_name, table in index.items():
        space = h5s.create_simple((table.size,))
        kind = h5t.py_create(table.dtype)
        made = h5d.create(file, f"/index/{table_name}".encode(), kind, space, creation)
        made.write(h5s.ALL, h5s.ALL, table)
        made.close()
    file.close()
    with path.open("r+b") as raw:
        for value, start in zip(values, starts, strict=True):
            raw.seek(start)
            raw.write(np.float32(value.statistics.maximum).tobytes())
