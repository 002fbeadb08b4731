"""Read torch's checkpoint files without torch: elements are mapped, nothing is executed.

A file of torch 1.6 and later is a zip archive: ``data.pkl`` holds the containers and names each
storage, ``data/<key>`` are its bytes, as they were in memory. Older files are pickles one after the
other: a magic number, a version, facts of the system, the containers, the keys of the storages;
then come, for each, its length and its bytes. Source: torch/serialization.py, torch 2.13.
"""

from __future__ import annotations

import io
import mmap
import pickle
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .array_pickle import names_for
from .plain_pickle import PlainUnpickler, damage_told, made, refuse
from .torch_tensors import TORCH_NAMES, Storage, TypeName

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_PICKLE = "/data.pkl"
_LOCAL_HEADER_BYTES = 30
_NAME_LENGTH_AT, _EXTRA_LENGTH_AT = 26, 28
"""In the header before each member, see APPNOTE.TXT of the zip format, 4.3.7."""
_ENCRYPTED = 1
_COUNT_BYTES = 8


def read_torch_file(path: Path) -> object:
    """Read a file that ``torch.save`` wrote; tensors in dicts of any depth come as arrays.

    They are read-only and mapped, so that a file takes no memory before it is looked at.

    Raises:
        pickle.UnpicklingError: It is damaged, or holds more than tensors and plain containers.
        OSError: It cannot be opened.
    """
    with path.open("rb") as file:
        if not file.seek(0, io.SEEK_END):
            raise pickle.UnpicklingError("the file is empty")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with damage_told():
        is_archive = data[:2] == b"PK"
        return _Archive(path, data).read() if is_archive else _read_old(data)


class _Unpickler(PlainUnpickler):
    """Reads the containers, and keeps the storages that they name."""

    def __init__(self, source: Any, size_bytes: int) -> None:  # noqa: ANN401 - a file or a map
        super().__init__(source, {**names_for(size_bytes), **TORCH_NAMES})
        self.storages: dict[str, Storage] = {}

    def persistent_load(self, pid: object) -> Storage:
        """Return the storage that an entry is about."""
        if not isinstance(pid, tuple) or len(pid) not in {5, 6} or pid[0] != "storage":
            raise refuse("names something else than a storage")
        _, kind, key, _, count, *views = pid
        is_known = isinstance(kind, TypeName) and type(count) is int and count >= 0
        if not is_known or kind.dtype is None or not isinstance(key, str) or any(views):
            raise refuse("holds a storage of a wrong form")
        return self.storages.setdefault(key, Storage(kind.dtype, count))


class _Archive:
    """A zip archive whose members are stored as they are."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._data = data
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = {member.filename: member for member in archive.infolist()}
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
            raise pickle.UnpicklingError(f"the file is damaged or cut off: {error}") from error

    def read(self) -> object:
        """Return what it holds."""
        homes = [name.removesuffix(_PICKLE) for name in self._members if name.endswith(_PICKLE)]
        if len(homes) != 1:
            raise pickle.UnpicklingError("an archive, but none that torch.save wrote")
        home = homes[0]
        text = self._bytes(home + _PICKLE)
        unpickler = _Unpickler(io.BytesIO(text.tobytes()), text.size)
        found = unpickler.load()
        order = f"{home}/byteorder"
        written = (
            self._bytes(order).tobytes().decode().strip() if order in self._members else "little"
        )
        for key, storage in unpickler.storages.items():
            storage.fill(self._bytes(f"{home}/data/{key}"), is_turned=written != sys.byteorder)
        return made(found)

    def _bytes(self, name: str) -> Array:
        """Return the bytes of a member, mapped; all of them are in the file."""
        member = self._members.get(name)
        if member is None:
            raise pickle.UnpicklingError(f"the archive has no {name[-80:]!r}")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
            raise pickle.UnpicklingError(
                f"{name[-80:]!r} is compressed, which torch.save never does"
            )
        header = self._data[member.header_offset : member.header_offset + _LOCAL_HEADER_BYTES]
        lengths = (
            int.from_bytes(header[at : at + 2], "little")
            for at in (_NAME_LENGTH_AT, _EXTRA_LENGTH_AT)
        )
        start = member.header_offset + _LOCAL_HEADER_BYTES + sum(lengths)
        if member.header_offset < 0 or start + member.file_size > len(self._data):
            raise EOFError
        return _mapped(self._data, start, member.file_size)


def _read_old(data: mmap.mmap) -> object:
    def load() -> object:
        return PlainUnpickler(data, names_for(len(data))).load()

    if load() != _MAGIC or load() != _VERSION:
        raise pickle.UnpicklingError("no file that torch.save wrote")
    load()  # sizes of C types
    unpickler = _Unpickler(data, len(data))
    found = unpickler.load()
    keys = load()
    if not isinstance(keys, list):
        raise refuse("names no storages")
    for key in keys:
        storage = unpickler.storages.get(key) if isinstance(key, str) else None
        count = int.from_bytes(data.read(_COUNT_BYTES), "little")
        if storage is None or count != storage.count:
            raise refuse("holds a storage whose data do not have its size")
        if data.tell() + storage.size_bytes > len(data):
            raise EOFError
        storage.fill(_mapped(data, data.tell(), storage.size_bytes))
        data.seek(storage.size_bytes, io.SEEK_CUR)
    return made(found)


def _mapped(data: mmap.mmap, start: int, size_bytes: int) -> Array:
    return np.frombuffer(data, np.uint8, count=size_bytes, offset=start)
