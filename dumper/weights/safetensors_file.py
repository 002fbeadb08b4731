"""Read and write safetensors files: elements are mapped, every size is checked first.

Format: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError
from padiff.dumpfile.strictjson import StrictJSONError, from_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["read_safetensors", "write_safetensors"]

Array = npt.NDArray[Any]

_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64, "F16": np.float16,
    "F32": np.float32, "F64": np.float64, "C64": np.complex64, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_LENGTH_BYTES = 8
_MAX_HEADER = 100 * 2**20
"""The limit of the format's own reader."""
_MOST_AXES = 64
"""What numpy knows."""


def read_safetensors(path: Path, *, what: str = "weights") -> dict[str, Array]:
    """Map the arrays of a file, read-only, by name.

    Args:
        path: The file.
        what: What they are to the user, for messages.

    Raises:
        ConfigError: It is damaged, or its header says what cannot be.
        OSError: It cannot be opened.
    """
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    try:
        header, body = _split(data)
        return _arrays(header, body)
    except (StrictJSONError, ValueError) as error:
        raise ConfigError(
            f"cannot read {what} {str(path)!r}: no valid safetensors file: {error}"
        ) from error


def _split(data: Array) -> tuple[dict[str, Any], Array]:
    """Give the header, and the bytes that follow it."""
    length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    stop = _LENGTH_BYTES + length
    if length > _MAX_HEADER or stop > data.size:
        raise ValueError("the header is cut off, or too long")
    header = from_json(data[_LENGTH_BYTES:stop].tobytes())
    if not isinstance(header, dict):
        raise ValueError("the header is no object")  # noqa: TRY004 - of the file's, not ours
    return header, data[stop:]


def _arrays(header: Mapping[str, Any], body: Array) -> dict[str, Array]:
    """Make the arrays; they lie one after the other and fill the file."""
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    places = {name: _place(name, entry) for name, entry in entries.items()}
    end = 0
    for name, (start, stop) in sorted(places.items(), key=lambda item: item[1]):
        if start != end:
            raise ValueError(f"the data of {name[:80]!r} do not follow on those before")
        end = stop
    if end != body.size:
        raise ValueError(f"expected {end} bytes of data, found {body.size}")
    return {
        name: _array(name, entry, body[slice(*places[name])]) for name, entry in entries.items()
    }


def _place(name: str, entry: Any) -> tuple[int, int]:  # noqa: ANN401 - checked here
    """Give where the data of an entry begin and end."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name[:80]!r} needs a dtype, a shape and data_offsets")
    offsets = entry["data_offsets"]
    if not _are_lengths(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:  # noqa: PLR2004
        raise ValueError(f"{name[:80]!r} has data_offsets that cannot be")
    return offsets[0], offsets[1]


def _array(name: str, entry: Any, data: Array) -> Array:  # noqa: ANN401 - checked here
    shape, dtype = entry["shape"], entry["dtype"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"{name[:80]!r} has the unknown dtype {str(dtype)[:20]!r}")
    if not _are_lengths(shape) or len(shape) > _MOST_AXES:
        raise ValueError(f"{name[:80]!r} has a shape that cannot be")
    kind = np.dtype(_DTYPES[dtype])
    if math.prod(shape) * kind.itemsize != data.size:
        raise ValueError(f"the data of {name[:80]!r} are cut off, or have not its shape")
    return np.frombuffer(data.data, kind).reshape(shape)


def _are_lengths(cell: Any) -> bool:  # noqa: ANN401 - of a file of anybody
    return isinstance(cell, list) and all(
        type(one) is int and 0 <= one <= np.iinfo(np.int64).max for one in cell
    )


def write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name.

    Raises:
        ConfigError: The format has no such dtype.
        OSError: It cannot be written.
    """
    names = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
    header: dict[str, Any] = {}
    offset = 0
    for name, array in arrays.items():
        if array.dtype not in names:
            raise ConfigError(f"cannot write {name!r}: safetensors has no {array.dtype}")
        stop = offset + array.nbytes
        shape = list(array.shape)
        header[name] = {
            "dtype": names[array.dtype], "shape": shape, "data_offsets": [offset, stop]
        }  # fmt: skip
        offset = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            stream.write(np.array(array, order="C").tobytes())
