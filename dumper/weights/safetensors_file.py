"""Read and write safetensors files: the library checks and writes, elements are mapped.

Format: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError
from padiff.dumpfile.strictjson import from_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Array = npt.NDArray[Any]

_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64, "F16": np.float16,
    "F32": np.float32, "F64": np.float64, "C64": np.complex64, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_LENGTH_BYTES = 8


def read_safetensors(path: Path, *, what: str = "weights") -> dict[str, Array]:
    """Map the arrays of a file, read-only, by name.

    The library holds the header against the file (places, sizes, names); it is not asked for the
    arrays themselves, since its view for numpy knows no float8 and copies.

    Raises:
        ConfigError: It is damaged, its header says what cannot be, or it holds an unknown dtype.
        OSError: It cannot be opened.
    """
    import safetensors  # noqa: PLC0415 -- only where such a file is read

    with path.open("rb") as stream:
        try:
            with safetensors.safe_open(path, framework="np"):
                pass
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            header: Any = from_json(stream.read(length))
            return _map(path, header, _LENGTH_BYTES + length)
        except (safetensors.SafetensorError, OSError, ValueError) as error:
            raise ConfigError(
                f"cannot read {what} {str(path)!r}: no valid safetensors file: {error}"
            ) from error


def _map(path: Path, header: dict[str, Any], start: int) -> dict[str, Array]:
    """Map the arrays of a checked file.

    Raises:
        ValueError: A dtype is unknown, or a shape is none of numpy's.
    """
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    has_data = path.stat().st_size > start
    data = np.memmap(path, np.uint8, "r", start).data if has_data else memoryview(b"")
    arrays: dict[str, Array] = {}
    for name, entry in entries.items():
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{name!r} has the unknown dtype {entry['dtype']!r}")
        part = data[slice(*entry["data_offsets"])]
        arrays[name] = np.frombuffer(part, _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name.

    Raises:
        ConfigError: The format has no such dtype.
        OSError: The file cannot be written.
    """
    import safetensors.numpy  # noqa: PLC0415 -- only where such a file is written

    known = set(map(np.dtype, _DTYPES.values()))
    native: dict[str, Array] = {}
    for name, array in arrays.items():
        dtype = array.dtype.newbyteorder("=")
        if dtype not in known:
            raise ConfigError(f"cannot write {name!r}: safetensors has no {array.dtype}")
        native[name] = np.array(array, dtype, order="C")
    path.write_bytes(safetensors.numpy.save(native))
