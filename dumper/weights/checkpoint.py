"""Checkpoint files as one side of a pairing: names, shapes and values, no module classes.

Reading one executes nothing: safetensors are mapped, torch files are loaded by torch with
``weights_only``, and the pickle inside a ``.pdparams`` may only build dicts and numpy arrays.
"""

from __future__ import annotations

import importlib
import json
import pickle
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from padiff.dumper.recording.named_tree import infer_modules
from padiff.dumpfile import (
    ConfigError,
    Index,
    Phase,
    RecordInfo,
    Role,
    ValueInfo,
    digest_of,
    dtype_name,
    open_dump,
    statistics_of,
)
from padiff.dumpfile.manifestcodec import MANIFEST_NAME

from .array_pickle import read_array_pickle
from .shards import INDEX_SUFFIX, find_checkpoint, read_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.pairing.side import Side

__all__ = ["FileSide", "open_source", "read_arrays", "write_arrays"]

Array = npt.NDArray[Any]

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked", "_mean", "_variance")
_TORCH_SUFFIXES = (".pth", ".pt", ".bin", ".ckpt")
_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64, "F16": np.float16,
    "F32": np.float32, "F64": np.float64, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "module", "net", "params")
"""Under which of its names a checkpoint keeps the state dict, the outermost first."""
_LENGTH_BYTES = 8
_MAX_HEADER = 100 * 2**20
"""The limit of the format's own reader."""


class FileSide:
    """The arrays of a checkpoint, with a module tree made of their names."""

    def __init__(self, arrays: Mapping[str, Array], framework: str) -> None:
        """Describe the arrays; values are digested when ``index`` is first asked with them."""
        self._framework = framework
        self._arrays = list(arrays.values())
        modules, owners = infer_modules(
            {name: array.shape for name, array in arrays.items()}, framework
        )
        values = tuple(_value(number, array) for number, array in enumerate(self._arrays))
        records = tuple(
            RecordInfo(
                id=number,
                module=owners[name][0],
                call=None,
                phase=Phase.FORWARD,
                role=Role.BUFFER if owners[name][1] in _STATISTICS else Role.WEIGHT,
                slot=f".{owners[name][1]}",
                order=0,
                shape=tuple(array.shape),
                value=number,
                requires_grad=owners[name][1] not in _STATISTICS,
            )
            for number, (name, array) in enumerate(arrays.items())
        )
        self._index = Index(
            step=0, rank=0, modules=modules, calls=(), records=records, values=values
        )

    @property
    def framework(self) -> str:
        """Name of the framework whose conventions the names and shapes follow."""
        return self._framework

    @property
    def index(self) -> Index:
        """Modules made of the names, and the arrays as records."""
        return self._index

    def array(self, record: RecordInfo) -> Array:
        """Give an array as it is in the file."""
        return self._arrays[record.id]


@contextmanager
def open_source(path: Path | str, *, framework: str = "") -> Iterator[Side]:
    """Open a dump or a checkpoint file as a side.

    Args:
        path: A dump's directory, or a file.
        framework: Whose conventions a safetensors file follows; told by the names if empty.

    Raises:
        ConfigError: The file is of no known kind, damaged, or no state dict.
        DumpError: The dump cannot be read.
    """
    place = Path(path)
    if place.is_dir() and not (place / MANIFEST_NAME).exists():
        place = find_checkpoint(place) or place
    if place.is_file():
        arrays, found = read_arrays(place)
        yield FileSide(arrays, framework or found or _told_by(arrays))
    else:
        with open_dump(place).open() as side:
            yield side


def read_arrays(path: Path) -> tuple[dict[str, Array], str]:
    """Read a checkpoint: arrays by name, and the framework whose format it is, if any.

    Raises:
        ConfigError: The file is of no known kind, damaged, or no state dict.
    """
    suffix = path.suffix.lower()
    if path.name.lower().endswith(INDEX_SUFFIX):
        return _read_shards(path)
    if suffix == ".safetensors":
        return _read_safetensors(path), ""
    if suffix in _TORCH_SUFFIXES:
        return _state(path, _files("torch", path).read_state(path)), "torch"
    if suffix == ".pdparams":
        return _state(path, _read_pickle(path)), "paddle"
    raise ConfigError(
        f"cannot read weights {str(path)!r}: expected a dump, .safetensors, .pth, .pt, .bin or "
        f".pdparams, found {suffix!r}"
    )


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a checkpoint of the kind that the file's name says.

    Raises:
        ConfigError: No such kind, or its framework is missing.
    """
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        _write_safetensors(path, arrays)
    elif suffix in _TORCH_SUFFIXES:
        _files("torch", path).write_state(path, arrays)
    elif suffix == ".pdparams":
        plain = {name: _plain(array) for name, array in arrays.items()}
        table = {name: name for name in plain}
        with path.open("wb") as stream:
            pickle.dump({**plain, "StructuredToParameterName@@": table}, stream, protocol=4)
    else:
        raise ConfigError(
            f"cannot write weights {str(path)!r}: expected .safetensors, .pth or .pdparams, "
            f"found {suffix!r}"
        )


def _value(number: int, array: Array) -> ValueInfo:
    return ValueInfo(
        id=number,
        digest=digest_of(array),
        dtype=dtype_name(array.dtype),
        size=array.size,
        statistics=statistics_of(array),
    )


def _told_by(arrays: Mapping[str, Array]) -> str:
    leaves = {name.rpartition(".")[2] for name in arrays}
    return "paddle" if leaves & {"_mean", "_variance"} else "torch"


def _plain(array: Array) -> Array:
    """Paddle keeps bfloat16 as uint16 in its files."""
    return (
        array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else np.array(array, order="C")
    )


def _files(framework: str, path: Path) -> Any:  # noqa: ANN401 - a module that is loaded by name
    try:
        return importlib.import_module(f"padiff.dumper.adapters.{framework}_files")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"cannot use {str(path)!r}: {framework} is not installed",
            hint=f"pip install 'padiff[{framework}]', or convert it to .safetensors",
        ) from error


def _state(path: Path, found: object) -> dict[str, Array]:
    """Accept a dict of arrays, or one inside a checkpoint's usual wrapper."""
    for wrapper in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if isinstance(found, dict):
        found = {key: item for key, item in found.items() if key != "StructuredToParameterName@@"}
        if found and all(isinstance(item, np.ndarray) for item in found.values()):
            return {str(key): item for key, item in found.items()}
    others = "" if not isinstance(found, dict) else _other_keys(found)
    raise ConfigError(
        f"cannot read weights {str(path)!r}: expected a state dict, found "
        f"{type(found).__name__} of something else{others}",
        hint="save model.state_dict(), not the model",
    )


def _other_keys(found: Mapping[object, object]) -> str:
    """Name some entries that are no arrays."""
    keys = [str(key)[:40] for key, item in found.items() if not isinstance(item, np.ndarray)]
    return f": {', '.join(map(repr, keys[:3]))}" if keys else ""


def _read_shards(path: Path) -> tuple[dict[str, Array], str]:
    """Read the files of an index; each must hold the names that the index promises."""
    arrays: dict[str, Array] = {}
    framework = ""
    missing: list[str] = []
    for place, names in read_index(path).items():
        found, framework = read_arrays(place)
        arrays |= {name: found[name] for name in names if name in found}
        missing += [f"{place.name!r}: no {name!r}" for name in names if name not in found]
    if missing:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected all names of the index",
            details=tuple(missing),
        )
    return arrays, framework


def _read_pickle(path: Path) -> object:
    try:
        return read_array_pickle(path.read_bytes())
    except pickle.UnpicklingError as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected a pickled dict of arrays, found "
            f"something else: {error}",
            hint="nothing in the file was executed",
        ) from error


def _read_safetensors(path: Path) -> dict[str, Array]:
    """Map a safetensors file. Format: https://github.com/huggingface/safetensors#format."""
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
    try:
        length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
        body = data[_LENGTH_BYTES + length :]
        header = json.loads(
            data[_LENGTH_BYTES : _LENGTH_BYTES + min(length, _MAX_HEADER)].tobytes()
        )
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        return {name: _entry(body, entry) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: no valid safetensors file: {error}"
        ) from error


def _entry(body: Array, entry: Mapping[str, Any]) -> Array:
    start, stop = entry["data_offsets"]
    shape = tuple(int(length) for length in entry["shape"])
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize if shape else dtype.itemsize
    if not 0 <= start <= stop <= body.size or stop - start != size:
        raise ValueError("the data are cut off, or their size is not that of the shape")
    return np.frombuffer(body[start:stop].data, dtype).reshape(shape)


def _write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
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
