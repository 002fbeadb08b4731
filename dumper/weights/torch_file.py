"""Read torch's checkpoint files without torch: elements are mapped, nothing is executed.

A file of torch 1.6 and later is a zip archive: ``data.pkl`` holds the containers and names each
storage, ``data/<key>`` are its bytes, as they were in memory. Older files are pickles one after the
other: a magic number, a version, facts of the system, the containers, the keys of the storages;
then come, for each, its length and its bytes. Source: torch/serialization.py, torch 2.13.
"""

from __future__ import annotations

import io
import math
import mmap
import pickle
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .plain_pickle import PlainUnpickler, damage_told, lengths_of, made, names_for, refuse

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


_SMALL_BYTES = 64 << 20
"""Up to this size a tensor may have more elements than its storage, as expanded ones do."""
_DTYPES: dict[str, Any] = {
    "float64": np.float64, "float32": np.float32, "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2, "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "complex64": np.complex64,
    "complex128": np.complex128, "int64": np.int64, "int32": np.int32, "int16": np.int16,
    "int8": np.int8, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
    "uint64": np.uint64, "bool": np.bool_,
}  # fmt: skip
_STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
    "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
    "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64", "UntypedStorage": "uint8",
}  # fmt: skip


class TypeName:
    """A dtype, or a class of storages or tensors, by name; it cannot be called."""

    def __init__(self, dtype: str = "") -> None:
        """Keep the dtype, where it says one."""
        self.dtype = np.dtype(_DTYPES[dtype]) if dtype else None


class Storage:
    """Elements of one dtype; their bytes are known once the file was read."""

    def __init__(self, dtype: np.dtype[Any], count: int) -> None:
        """Keep what the pickle says."""
        self._dtype = dtype
        self._count = count
        self._data: Array | None = None
        self._views: dict[np.dtype[Any], Array] = {}

    @property
    def count(self) -> int:
        """Return the number of elements that the pickle says it has."""
        return self._count

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes that the pickle says it has."""
        return self._count * self._dtype.itemsize

    def fill(self, data: Array, *, is_turned: bool = False) -> None:
        """Note where the bytes are."""
        if data.size != self.size_bytes:
            raise refuse("holds a storage whose data do not have its size")
        self._data = data.view(self._dtype).byteswap().view(np.uint8) if is_turned else data

    def elements(self, dtype: np.dtype[Any] | None) -> Array:
        """Return them all, as another dtype where a tensor says so.

        Raises:
            pickle.UnpicklingError: The file does not have them, or they are no such elements.
        """
        kind = dtype or self._dtype
        if self._data is None:
            raise refuse("holds a tensor without its data")
        if kind not in self._views:
            found: Array = self._data[: self._data.size // kind.itemsize * kind.itemsize].view(kind)
            if kind == np.bool_ and found.view(np.uint8).max(initial=0) > 1:
                raise refuse("holds booleans other than 0 and 1")
            self._views[kind] = found
        return self._views[kind]


class _Tensor:
    """What a pickle says about a tensor: a view of a storage."""

    def __init__(
        self,
        storage: object,
        offset: object,
        size: object,
        stride: object,
        _requires_grad: object = None,
        _hooks: object = None,
        metadata: object = None,
        *,
        dtype: object = None,
    ) -> None:
        self.storage = storage
        self.dtype = dtype
        self.place = (offset, size, stride)
        self.metadata = metadata

    def made(self) -> Array:
        """Return the elements, read-only, without a copy; none lies outside of the storage."""
        offset, size, stride = self.place
        if not isinstance(self.storage, Storage) or type(offset) is not int:
            raise refuse("holds a tensor of a wrong form")
        dtype = self.dtype.dtype if isinstance(self.dtype, TypeName) else None
        flat = self.storage.elements(dtype)
        array = _view(flat, offset, lengths_of(size), lengths_of(stride))
        flags = self.metadata if isinstance(self.metadata, dict) else {}
        array = np.conj(array) if flags.get("conj") is True else array
        array = np.negative(array) if flags.get("neg") is True else array
        array.flags.writeable = False
        return array


def _view(flat: Array, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Array:
    if len(size) != len(stride) or offset < 0:
        raise refuse("holds a tensor of a wrong form")
    count = math.prod(size)
    if count * flat.itemsize > max(_SMALL_BYTES, flat.nbytes):
        raise refuse("holds a tensor that repeats its data too often")
    if count == 0:
        return np.empty(size, flat.dtype)
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if last >= flat.size:
        raise refuse("holds a tensor that lies outside of its data")
    steps = tuple(step * flat.itemsize for step in stride)
    data = flat.view(np.uint8)
    return np.ndarray(size, flat.dtype, data, offset * flat.itemsize, steps)


def _tensor_of_dtype(
    storage: object,
    offset: object,
    size: object,
    stride: object,
    _requires_grad: object,
    _hooks: object,
    dtype: object,
    metadata: object = None,
) -> _Tensor:
    if not isinstance(dtype, TypeName) or dtype.dtype is None:
        raise refuse("holds a tensor of a wrong form")
    return _Tensor(storage, offset, size, stride, None, None, metadata, dtype=dtype)


def _parameter(data: object, *_: object) -> object:
    return data


def _of_type(rebuild: object, _kind: object, arguments: object, _state: object) -> object:
    """Make a tensor that has attributes of its own; they are dropped."""
    known = {_Tensor, _tensor_of_dtype, _parameter}
    if not callable(rebuild) or rebuild not in known or not isinstance(arguments, tuple):
        raise refuse("holds a tensor of a class of its own")
    found: object = rebuild(*arguments)
    return found


def _listed(items: object = ()) -> list[object]:
    """Stand in for a set or a size."""
    if not isinstance(items, list | tuple):
        raise refuse("holds a list of a wrong form")
    return list(items)


def _nothing(*_: object) -> None:
    """Stand in for what says nothing of a tensor: a device, a layout."""


TORCH_NAMES: dict[tuple[str, str], Any] = {
    **{("torch", name): TypeName(dtype) for name, dtype in _STORAGES.items()},
    **{("torch.storage", name): TypeName(dtype) for name, dtype in _STORAGES.items()},
    **{("torch", name): TypeName(name) for name in _DTYPES},
    ("torch", "Tensor"): TypeName(),
    ("torch.nn.parameter", "Parameter"): _parameter,
    ("torch.nn.parameter", "Buffer"): _parameter,
    ("torch._utils", "_rebuild_tensor"): _Tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_of_dtype,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    ("torch._tensor", "_rebuild_from_type_v2"): _of_type,
    ("torch", "Size"): _listed,
    ("torch", "device"): _nothing,
    ("torch.serialization", "_get_layout"): _nothing,
    ("builtins", "set"): _listed,
    ("__builtin__", "set"): _listed,
}
"""What a pickle of tensors asks for. Sparse and quantised tensors are not among it."""
