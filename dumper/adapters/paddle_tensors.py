"""Paddle's tensors from and to host memory.

``Tensor.numpy()`` gives bfloat16 as uint16 and float8 as int8, keeps a transposed layout, and fails
on sparse-rows gradients.
"""

from __future__ import annotations

import math
import sys
from ctypes import string_at
from typing import TYPE_CHECKING, Final

import ml_dtypes
import numpy as np
import paddle

from padiff.dumpfile import DTYPE_NAMES, ConfigError, numpy_dtype

from .paddle_sharding import local_of

if TYPE_CHECKING:
    from padiff.dumper.adapter import Array, Tensor

BITS: Final = {
    paddle.bfloat16: np.dtype(ml_dtypes.bfloat16),
    paddle.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    paddle.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
}
"""Dtypes whose bits ``Tensor.numpy()`` hands out under an integer name."""

FLOATING: Final = (
    paddle.float32, paddle.float16, paddle.float64, paddle.complex64, paddle.complex128, *BITS,
)  # fmt: skip
"""Real and complex floating-point dtypes."""

_BITS_OF: Final = {id(kind): bits for kind, bits in BITS.items()}
_NAMES: Final[dict[int, str]] = {}
"""By identity of the dtype: there is one object of each, and to hash or compare it takes 2 µs."""
_ARE_FLOATING: Final = frozenset(map(id, FLOATING))
_COPIED: Final = {
    id(getattr(paddle, name)): (name, numpy_dtype(name).itemsize)
    for name in DTYPE_NAMES
    if sys.byteorder == "little" and isinstance(getattr(paddle, name, None), paddle.dtype)
}
"""Name and bytes of an element of the dtypes whose memory holds what a dump does."""
_SHARED_FROM: Final = 1 << 13
"""Elements from which on sharing memory is cheaper than a copy."""

_WIDER: Final = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}
"""Integers that Paddle lacks (it would take uint16 for bfloat16 bits), and what holds them."""


def elements(tensor: Tensor) -> Array:
    """Return the elements, C-contiguous, in their native dtype; large ones in their own memory."""
    if tensor.is_selected_rows():
        return _dense_rows(tensor)
    tensor = local_of(tensor)
    if not tensor.is_dense():
        tensor = tensor.to_dense()
    bits = _BITS_OF.get(id(tensor.dtype))
    # Tensor.size takes 30 µs.
    is_shared = math.prod(tensor.shape) >= _SHARED_FROM and tensor.place.is_cpu_place()
    array: Array
    if is_shared and bits is None:
        array = np.from_dlpack(tensor.detach())
    elif is_shared and tensor.dtype == paddle.bfloat16:  # which DLPack cannot name
        array = np.from_dlpack(tensor.detach().view(paddle.int16))
    else:
        array = tensor.numpy()
    array = np.asarray(array, order="C")  # not ascontiguousarray: that makes 0-d arrays 1-d
    return array if bits is None else array.view(bits)


def small_bytes(tensor: Tensor, limit: int) -> tuple[bytes, str, tuple[int, ...]] | None:
    """Copy the memory of a tensor in host memory, if it is small, dense and contiguous.

    Returns:
        Its elements, the name of its dtype, and its shape.
    """
    copied = _COPIED.get(id(tensor.dtype))
    is_plain = tensor.is_dense() and not tensor.is_dist() and tensor.is_contiguous()
    if copied is None or not is_plain:
        return None
    shape = tuple(tensor.shape)
    size_bytes = math.prod(shape) * copied[1]
    if not 0 < size_bytes < limit or not tensor.place.is_cpu_place():
        return None
    place = tensor.data_ptr()
    return (string_at(place, size_bytes), copied[0], shape) if place else None


def tensor_of(array: Array, *, device: str, dtype: str | None, requires_grad: bool) -> Tensor:
    """Make a tensor from host memory, cast to ``dtype`` if given; 0-d stays 0-d."""
    wider = _WIDER.get(array.dtype.name)
    array = np.array(array if wider is None else array.astype(wider), order="C")
    bits = next((kind for kind, known in BITS.items() if known == array.dtype), None)
    if bits is None:
        tensor = paddle.to_tensor(array, place=device_name(device))
    elif bits == paddle.bfloat16:
        tensor = paddle.to_tensor(array.view(np.uint16), place=device_name(device))
    else:
        tensor = paddle.to_tensor(array.view(np.uint8), place=device_name(device)).view(bits)
    if dtype is not None and dtype_name(tensor) != dtype:
        tensor = tensor.astype(getattr(paddle, dtype))
    tensor.stop_gradient = not requires_grad
    return tensor


def _dense_rows(gradient: Tensor) -> Array:
    """Add up the rows of a sparse gradient, as an optimizer would."""
    rows = gradient.get_selected_rows()
    parts = gradient.numpy()
    dense = np.zeros((rows.height(), *parts.shape[1:]), parts.dtype)
    np.add.at(dense, rows.rows(), parts)
    return dense


def real(tensor: Tensor) -> Tensor:
    """Return a complex tensor with a last axis for its parts, others as they are."""
    return paddle.as_real(tensor) if tensor.is_complex() else tensor


def dtype_name(tensor: Tensor) -> str:
    """Name a tensor's dtype, such as ``float32``."""
    dtype = tensor.dtype
    name = _NAMES.get(id(dtype))
    if name is None:
        name = str(dtype).removeprefix("paddle.")
        if dtype is getattr(paddle, name, None):  # so that the identity stays taken
            _NAMES[id(dtype)] = name
    return name


def is_floating(tensor: Tensor) -> bool:
    """Return whether a tensor's dtype is real or complex floating point."""
    return id(tensor.dtype) in _ARE_FLOATING


def place_name(tensor: Tensor) -> str:
    """Name the device that holds a tensor."""
    place = tensor.place
    return f"gpu:{place.gpu_device_id()}" if place.is_gpu_place() else "cpu"


def device_name(name: str) -> str:
    """Check a device name and put it in Paddle's words.

    Raises:
        ConfigError: It is unknown, or this build of Paddle cannot use it.
    """
    ours = name.replace("cuda", "gpu")
    try:
        paddle.device._convert_to_place(ours)  # set_device would switch
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"cannot use device {name!r} in this build of paddle: {_first_line(error)}",
            hint="cpu always works; gpu and gpu:N need a GPU build of Paddle",
        ) from error
    return ours


def floating(dtype: str) -> str:
    """Check that a model can be cast to a dtype.

    Raises:
        ConfigError: It cannot.
    """
    known = {"float16", "float32", "float64", "bfloat16"}
    if dtype not in known:
        expected = ", ".join(sorted(known))
        raise ConfigError(f"cannot cast the model: expected a dtype of {expected}, found {dtype!r}")
    return dtype


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
