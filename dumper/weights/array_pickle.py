"""Read a pickle of dicts and numpy arrays without letting it build anything else.

Not even numpy's own classes are built by the pickle: a made-up state of a dtype crashes the
process. Stand-ins only keep what the pickle says; arrays are made of that afterwards, checked.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["read_array_pickle"]

_PLAIN = re.compile(r"[|<>=]?[biufc]\d{1,2}")
"""Dtypes whose elements are plain bytes: no objects, no text."""
_STATE_LENGTH = 5
_LENGTH_BYTES = 8


class _Dtype:
    """What a pickle says about a dtype."""

    def __init__(self, text: object, *_: object) -> None:
        self.text = text
        self.order: Any = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.order, *structure = state[:_STATE_LENGTH]
        if any(part is not None for part in structure):
            raise pickle.UnpicklingError("it holds an array of a structured dtype")

    def made(self) -> np.dtype[Any]:
        """Make the dtype, if its elements are plain bytes."""
        if not _PLAIN.fullmatch(str(self.text)):  # numpy would parse any text as Python
            raise pickle.UnpicklingError(f"it holds an array of dtype {str(self.text)[:20]!r}")
        found: np.dtype[Any] = np.dtype(str(self.text))
        return found.newbyteorder(self.order) if self.order in ("<", ">") else found


class _Array:
    """What a pickle says about an array."""

    def __init__(self, *_: object) -> None:
        self.parts: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        self.parts = (data, dtype, shape, "F" if is_fortran else "C")

    def made(self) -> npt.NDArray[Any]:
        """Make the array, if its data are as long as its shape and dtype say."""
        data, dtype, shape, order = self.parts
        if not isinstance(dtype, _Dtype) or not isinstance(shape, tuple) or order not in ("C", "F"):
            raise pickle.UnpicklingError("it holds an array of a wrong form")
        lengths = [int(length) for length in shape]
        plain = dtype.made()
        if not isinstance(data, bytes):
            raise pickle.UnpicklingError("it holds an array without data")
        if min(lengths, default=0) < 0 or len(data) != math.prod(lengths) * plain.itemsize:
            raise pickle.UnpicklingError("it holds an array whose data do not have its shape")
        array: npt.NDArray[Any] = np.frombuffer(data, plain).reshape(lengths, order=order)
        return array


def _given(*parts: object) -> _Array:
    made = _Array()
    made.parts = parts
    return made


def _from_buffer(data: object, dtype: object, shape: object, order: object) -> _Array:
    return _given(data, dtype, shape, order)


def _scalar(dtype: object, data: object) -> _Array:
    return _given(data, dtype, (), "C")


def _latin1(text: str, encoding: str) -> bytes:
    """Undo how old protocols write bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it wants to encode {encoding}")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Stand in for the class of bytes, which old protocols call for an empty array."""
    return b""


_ALLOWED: dict[tuple[str, str], Callable[..., object]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("_codecs", "encode"): _latin1,
    ("builtins", "bytes"): _no_bytes,
    ("__builtin__", "bytes"): _no_bytes,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}
_REBUILDERS: dict[tuple[str, str], Callable[..., object]] = {
    ("multiarray", "_reconstruct"): _Array,
    ("multiarray", "scalar"): _scalar,
    ("numeric", "_frombuffer"): _from_buffer,
}


def _load_bytearray(unpickler: Any) -> None:  # noqa: ANN401 - of the library's private class
    """Read the data before making room for them, unlike the library."""
    length = int.from_bytes(unpickler.read(_LENGTH_BYTES), "little")
    data = unpickler.read(length)
    if len(data) < length:
        raise EOFError("the data are cut off")
    unpickler.append(bytes(data))


class _ArraysOnly(pickle._Unpickler):
    """An unpickler that can build nothing but containers and stand-ins for arrays.

    It is the one in Python: the one in C allocates what a damaged file asks for, up to the whole
    memory, before it looks for the data.
    """

    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: _load_bytearray,
    }

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as the base class
        """Refuse everything that a state dict of arrays does not need."""
        home, _, part = module.rpartition(".")
        found = _ALLOWED.get((module, name))
        if found is None and home in {"numpy.core", "numpy._core"}:
            found = _REBUILDERS.get((part, name))
        if found is None:
            raise pickle.UnpicklingError(f"it wants to load {module}.{name}")
        return found


def read_array_pickle(data: bytes) -> object:
    """Read a pickle; arrays in dicts of any depth come as read-only arrays.

    Raises:
        pickle.UnpicklingError: It is damaged, or holds more than containers and arrays.
    """
    try:
        return _made(_ArraysOnly(io.BytesIO(data)).load())
    except EOFError as error:
        raise pickle.UnpicklingError("the data are cut off") from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        ImportError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise pickle.UnpicklingError(reason) from error


def _made(found: object) -> object:
    if isinstance(found, dict):
        return {key: _made(item) for key, item in found.items()}
    return found.made() if isinstance(found, _Array) else found
