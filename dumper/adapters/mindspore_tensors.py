"""MindSpore's tensors from and to host memory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import mindspore
import numpy as np
from mindspore.common import dtype as dtypes

from padiff.dumpfile import ConfigError, numpy_dtype

if TYPE_CHECKING:
    from padiff.dumper.adapter import Array, Tensor

_NAMES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "bfloat16", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
"""Dtypes as dumps spell them; MindSpore has ``bool_``."""


@cache
def name_of(dtype: Any) -> str:  # noqa: ANN401 - MindSpore's dtypes have no public class
    """Return a dtype's name as dumps spell it."""
    name = str(dtype).lower()
    return next((one for one in _NAMES if one.replace("_", "") == name.replace("_", "")), name)


def dtype_name(tensor: Tensor) -> str:
    """Name a tensor's dtype, such as ``float32``."""
    return name_of(tensor.dtype)


def dtype_of(name: str) -> Any:  # noqa: ANN401
    """Return the dtype of a name.

    Raises:
        ConfigError: MindSpore has none of it.
    """
    found = getattr(dtypes, "bool_" if name == "bool" else name, None)
    if name not in _NAMES or found is None:
        raise ConfigError(f"cannot use dtype {name!r}: mindspore has no such dtype")
    return found


def elements(tensor: Tensor) -> Array:
    """Return the elements, C-contiguous, in their own dtype and memory where possible."""
    array: Array = np.asarray(tensor.asnumpy(), order="C")
    if array.dtype.kind != "V":
        return array
    return array.view(numpy_dtype(dtype_name(tensor)))  # MindSpore has a bfloat16 of its own


def tensor_of(array: Array, *, dtype: str | None) -> Tensor:
    """Make a tensor from host memory, cast to ``dtype`` if given; 0-d stays 0-d."""
    source = np.array(array, order="C", dtype=array.dtype.newbyteorder("="))
    made = mindspore.Tensor(source)
    return made if dtype is None or dtype_name(made) == dtype else made.astype(dtype_of(dtype))
