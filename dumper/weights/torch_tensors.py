"""What stands in for torch's storages and tensors while one of its pickles is read."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .plain_pickle import lengths_of, refuse

Array = npt.NDArray[Any]

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
        """Note where the bytes are.

        Args:
            data: As uint8.
            is_turned: Whether elements have the other byte order than this machine's.
        """
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
