"""Read MindSpore's checkpoint files (``.ckpt``) without MindSpore.

A file is one message of Protocol Buffers: a list of values, each a name and a tensor, which is
sizes, a dtype and the bytes of its elements. Source: ``checkpoint.proto`` of MindSpore 2.10; the
encoding is that of protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from padiff.dumper.adapter import Array

_FIRST_BYTE: Final = b"\x0a"
"""Field 1, of a length: a checkpoint of torch begins as a zip file or as a pickle."""
_MOST_BITS: Final = 63
"""Of a number of variable length that is a size."""
_VARIABLE, _BYTES = 0, 2
"""The kinds of fields that there are."""
_NAME, _TENSOR = 1, 2
_SIZES, _DTYPE, _ELEMENTS = 1, 2, 3

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "Bool": np.dtype(bool),
    "BFloat16": np.dtype(ml_dtypes.bfloat16),
    **{
        f"{kind}{bits}": np.dtype(f"{kind.lower()}{bits}")
        for kind, sizes in (
            ("Int", (8, 16, 32, 64)),
            ("UInt", (8, 16, 32, 64)),
            ("Float", (16, 32, 64)),
            ("Complex", (64, 128)),
        )
        for bits in sizes
    },
}


def is_mindspore_file(path: Path) -> bool:
    """Return whether a file begins as a checkpoint of MindSpore does."""
    with path.open("rb") as stream:
        return stream.read(1) == _FIRST_BYTE


def read_mindspore_file(path: Path) -> dict[str, Array]:
    """Read all tensors of a checkpoint by name.

    Raises:
        ConfigError: The file is damaged, encrypted, or holds other things than tensors.
    """
    data = path.read_bytes()
    try:
        return dict(_value(entry) for _, entry in _fields(memoryview(data)))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected a checkpoint of mindspore, found damaged "
            f"or other data ({type(error).__name__}: {error})",
            hint="load it with mindspore.load_checkpoint and save it anew, not encrypted",
        ) from error


def _value(entry: int | memoryview) -> tuple[str, Array]:
    """Read one value: a name and a tensor."""
    parts = dict(_fields(entry))
    name, dtype, elements = parts[_NAME], "", memoryview(b"")
    sizes: list[int] = []
    for field, part in _fields(parts[_TENSOR]):
        if field == _SIZES and isinstance(part, int):
            sizes.append(part)
        elif field == _DTYPE and isinstance(part, memoryview):
            dtype = str(part, "utf-8")
        elif field == _ELEMENTS and isinstance(part, memoryview):
            elements = part
    if not isinstance(name, memoryview):
        raise TypeError("a value without a name")
    found = np.frombuffer(elements, _DTYPES[dtype])
    is_scalar = sizes == [0] and found.size == 1  # one of the ways of writing one
    return str(name, "utf-8"), found.reshape(() if is_scalar else tuple(sizes))


def _fields(data: int | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and content of each field of a message."""
    if isinstance(data, int):
        raise TypeError("a number where a message is expected")
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind not in (_VARIABLE, _BYTES):
            raise ValueError(f"a field of kind {kind}")
        size, at = _number(data, at)
        if kind == _VARIABLE:
            yield key >> 3, size
            continue
        if at + size > len(data):
            raise ValueError(f"{size} bytes where {len(data) - at} are left")
        yield key >> 3, data[at : at + size]
        at += size


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number of variable length, seven bits a byte; return it and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follow
            return value, at
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError("a number of more than 63 bits")
