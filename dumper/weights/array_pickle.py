"""Read a pickle of dicts and numpy arrays without letting it build anything else.

Not even numpy's own classes are built by the pickle: a made-up state of a dtype crashes the
process. Stand-ins only keep what the pickle says; arrays are made of that afterwards, checked.
"""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .plain_pickle import PlainUnpickler, damage_told, lengths_of, made, ordered, refuse

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

_PLAIN = re.compile(r"[|<>=]?[biufc]\d{1,2}")
"""Dtypes whose elements are plain bytes: no objects, no text."""
_STATE_LENGTH = 5


class _Dtype:
    """What a pickle says about a dtype."""

    def __init__(self, text: object, *_: object) -> None:
        self.text = text
        self.order: object = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.order, *structure = state[:_STATE_LENGTH]
        if any(part is not None for part in structure):
            raise refuse("holds an array of a structured dtype")

    def made(self) -> np.dtype[Any]:
        """Make the dtype, if its elements are plain bytes."""
        if not isinstance(self.text, str):
            raise refuse("holds an array of a wrong form")
        if not _PLAIN.fullmatch(self.text):  # numpy would parse any text as Python
            raise refuse(f"holds an array of dtype {self.text[:20]!r}")
        found: np.dtype[Any] = np.dtype(self.text)
        is_turned = isinstance(self.order, str) and self.order in {"<", ">"}
        return found.newbyteorder(self.order) if is_turned else found  # type: ignore[arg-type]


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
        if not isinstance(dtype, _Dtype) or not isinstance(order, str) or order not in {"C", "F"}:
            raise refuse("holds an array of a wrong form")
        lengths = lengths_of(shape)
        plain = dtype.made()
        if not isinstance(data, bytes):
            raise refuse("holds an array without data")
        if len(data) != math.prod(lengths) * plain.itemsize:
            raise refuse("holds an array whose data do not have its shape")
        array: npt.NDArray[Any] = np.frombuffer(data, plain).reshape(
            lengths, order="F" if order == "F" else "C"
        )
        return array


def _given(*parts: object) -> _Array:
    made_of = _Array()
    made_of.parts = parts
    return made_of


def _from_buffer(data: object, dtype: object, shape: object, order: object) -> _Array:
    return _given(data, dtype, shape, order)


def _scalar(dtype: object, data: object) -> _Array:
    return _given(data, dtype, (), "C")


class _Encoder:
    """Undoes how old protocols write bytes, as often as the file has room for."""

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes

    def __call__(self, text: object, encoding: object) -> bytes:
        """Encode a text."""
        if not isinstance(text, str) or not isinstance(encoding, str) or encoding != "latin1":
            raise refuse("holds bytes of a wrong form")
        self._left -= len(text)
        if self._left < 0:
            raise refuse("makes more bytes than it has")
        return text.encode("latin1")


def _no_bytes() -> bytes:
    """Stand in for the class of bytes, which old protocols call for an empty array."""
    return b""


_NUMPY_NAMES: dict[tuple[str, str], Callable[..., object]] = {
    ("collections", "OrderedDict"): ordered,
    ("builtins", "bytes"): _no_bytes,
    ("__builtin__", "bytes"): _no_bytes,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    **{
        (f"numpy.{home}.{module}", name): stand_in
        for home in ("core", "_core")
        for module, name, stand_in in (
            ("multiarray", "_reconstruct", _Array),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _from_buffer),
        )
    },
}
"""What a pickle of arrays asks for, by the versions of Python and numpy that wrote it."""


def names_for(size_bytes: int) -> dict[tuple[str, str], Callable[..., object]]:
    """Return the names for one pickle of that many bytes."""
    return {**_NUMPY_NAMES, ("_codecs", "encode"): _Encoder(size_bytes)}


def read_array_pickle(data: bytes | mmap.mmap) -> object:
    """Read a pickle; arrays in dicts of any depth come as read-only arrays.

    Raises:
        pickle.UnpicklingError: It is damaged, or holds more than containers and arrays.
    """
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    with damage_told():
        return made(PlainUnpickler(source, names_for(len(data))).load())
