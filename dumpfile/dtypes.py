"""The dtypes that a dump can hold: name, numpy dtype and HDF5 type of each; and how many axes.

bfloat16 and both float8 types are HDF5 floating-point types of their exact bit layout, so that
raw bits survive and any HDF5 tool converts them. (float8_e4m3fn has no infinity and uses the
exponent of all ones for numbers; HDF5 cannot say so, and other tools show its magnitudes from
256 up as nan or inf. This package reads the raw bits and is not affected.) Booleans are the
enumeration and complex numbers the compound type that h5py uses. All are little-endian.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import numpy.typing as npt

from .errors import DumpFormatError, RecordError

Array = npt.NDArray[Any]

MOST_AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
"""So many axes an array can have here; torch's tensors end at 64, Paddle's earlier."""

_NUMPY: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "int8": np.dtype("<i1"),
    "int16": np.dtype("<i2"),
    "int32": np.dtype("<i4"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("<u1"),
    "uint16": np.dtype("<u2"),
    "uint32": np.dtype("<u4"),
    "uint64": np.dtype("<u8"),
    "float16": np.dtype("<f2"),
    "float32": np.dtype("<f4"),
    "float64": np.dtype("<f8"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "complex64": np.dtype("<c8"),
    "complex128": np.dtype("<c16"),
}

# Position and width of sign, exponent and mantissa in bits, then the exponent's bias.
_FLOAT_BITS: dict[str, tuple[tuple[int, int, int, int, int], int]] = {
    "bfloat16": ((15, 7, 8, 0, 7), 127),
    "float8_e4m3fn": ((7, 3, 4, 0, 3), 7),
    "float8_e5m2": ((7, 2, 5, 0, 2), 15),
}

_PLAIN_KINDS = "iuf"

DTYPE_NAMES: tuple[str, ...] = tuple(_NUMPY)
"""Names of all dtypes that a dump can hold."""

_NAMES = {dtype: name for name, dtype in _NUMPY.items()}


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Name a numpy dtype as dumps do, whatever its byte order.

    Raises:
        RecordError: Dumps cannot hold this dtype.

    >>> dtype_name(np.dtype(">f4"))
    'float32'
    """
    name = _NAMES.get(dtype)
    if name is None and dtype.kind in "iufc":
        name = _NAMES.get(dtype.newbyteorder("<"))
    if name is None:
        raise RecordError(
            f"cannot store a tensor: expected one of the dtypes {', '.join(_NUMPY)}, "
            f"found {str(dtype)!r}",
            hint="convert the tensor, or exclude the module that produces it",
        )
    return name


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a name, little-endian.

    Raises:
        DumpFormatError: There is no such dtype.

    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    if name not in _NUMPY:
        raise DumpFormatError(f"cannot read a tensor: expected a known dtype, found {name!r}")
    return _NUMPY[name]


def is_floating(name: str) -> bool:
    """Return whether a dtype's name is that of a real floating type.

    >>> is_floating("float8_e5m2"), is_floating("complex64")
    (True, False)
    """
    return "float" in name


def raw_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Return an array's elements in C order as little-endian bytes, without a copy if possible.

    >>> raw_bytes(np.array([[1, 2]], dtype=np.uint16)).tolist()
    [1, 0, 2, 0]
    """
    dtype = _NUMPY[dtype_name(array.dtype)]
    flat = np.ascontiguousarray(array, dtype=dtype).reshape(-1)
    return flat.view(np.uint8)


@cache
def hdf5_type(name: str) -> h5py.h5t.TypeID:
    """Return the HDF5 type that holds a dtype; its elements have the raw bytes of numpy's."""
    dtype = _NUMPY[name]
    if name in _FLOAT_BITS:
        fields, bias = _FLOAT_BITS[name]
        made = h5py.h5t.IEEE_F32LE.copy()
        made.set_fields(*fields)
        made.set_ebias(bias)
        made.set_precision(8 * dtype.itemsize)
        made.set_size(dtype.itemsize)
        return made
    if dtype.kind in _PLAIN_KINDS:
        return h5py.h5t.py_create(dtype)
    if dtype.kind == "b":
        made = h5py.h5t.enum_create(h5py.h5t.STD_I8LE)
        made.enum_insert(b"FALSE", 0)
        made.enum_insert(b"TRUE", 1)
        return made
    part = h5py.h5t.IEEE_F32LE if name == "complex64" else h5py.h5t.IEEE_F64LE
    made = h5py.h5t.create(h5py.h5t.COMPOUND, dtype.itemsize)
    made.insert(b"r", 0, part)
    made.insert(b"i", dtype.itemsize // 2, part)
    return made
