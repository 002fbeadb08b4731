"""Checkpoint files as one side of a pairing: names, shapes and values, no module classes.

Reading one executes nothing and needs no framework: elements are mapped, and the pickles inside
torch's and Paddle's files may only build containers and arrays.

An index is JSON: ``{"weight_map": {"name": "model-00001-of-00003.safetensors"}}``, with file names
beside it. Only names of files in the same folder are followed.
"""

from __future__ import annotations

import importlib
import io
import mmap
import pickle
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from padiff.dumper.recording.named import infer_modules
from padiff.dumper.runs.target import near_names
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
from padiff.dumpfile.packed import PACKED_SUFFIX, unpacked
from padiff.dumpfile.strictjson import from_json
from padiff.dumpfile.wholefile import whole_file

from .mindspore_file import is_mindspore_file, read_mindspore_file
from .plain_pickle import read_array_pickle
from .safetensors_file import read_safetensors, write_safetensors
from .torch_file import read_torch_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from padiff.dumpfile import JSON
    from padiff.pairing.side import Side


INDEX_SUFFIX = ".index.json"
_USUAL = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
    "model_state.pdparams",
)
"""What the libraries call a checkpoint in its folder, the preferred first."""
_MAX_BYTES = 100 * 2**20
"""What is longer is cut off, and so no JSON."""


def find_checkpoint(folder: Path) -> Path | None:
    """Find the checkpoint of a folder that holds one under a usual name."""
    return next((path for name in _USUAL if (path := folder / name).is_file()), None)


def read_index(path: Path) -> Mapping[Path, tuple[str, ...]]:
    """Read which names each file of a checkpoint holds.

    Raises:
        ConfigError: It is no index, or a file that it names is missing or lies elsewhere.
    """
    try:
        with path.open("rb") as stream:
            names = _names(from_json(stream.read(_MAX_BYTES)))
    except ValueError as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: no valid index of a checkpoint: {error}"
        ) from error
    problems = [
        f"{file!r}: {'no such file' if _is_plain(file) else 'not a file of this folder'}"
        for file in names
        if not _is_plain(file) or not (path.parent / file).is_file()
    ]
    if problems:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected all files that it names",
            details=tuple(problems),
        )
    return {path.parent / file: tuple(held) for file, held in names.items()}


def _names(document: JSON) -> dict[str, list[str]]:
    """Return the names by the file that holds them."""
    table = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise ValueError("expected an object with a weight_map")  # noqa: TRY004 - of the file's
    names: dict[str, list[str]] = {}
    for name, file in table.items():
        if not isinstance(file, str):
            raise ValueError("expected names of files")  # noqa: TRY004 - of the file's
        names.setdefault(file, []).append(name)
    return names


def _is_plain(file: str) -> bool:
    is_index = file.lower().endswith(INDEX_SUFFIX)  # one index that names another never ends
    return file not in {"", ".", ".."} and not set(file) & set("/\\:\0") and not is_index


Array = npt.NDArray[Any]

_STATISTICS = (
    *("running_mean", "running_var", "num_batches_tracked", "_mean", "_variance"),
    *("moving_mean", "moving_variance"),
)
_TORCH_SUFFIXES = (".pth", ".pt", ".bin", ".ckpt")
_SUFFIXES = (".safetensors", ".pdparams", INDEX_SUFFIX, *_TORCH_SUFFIXES)
_WRAPPERS = ("state_dict", "model_state_dict", "model_state", "model", "module", "net", "params")
"""Under which of its names a checkpoint keeps the state dict, the outermost first."""
_MOST_RATIO = 100
"""A file may hold arrays of so many times its size, as where names share one; or of the next number
of bytes."""
_SMALL_BYTES = 1 << 30


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
        """Return an array as it is in the file."""
        return self._arrays[record.id]


@contextmanager
def open_source(path: Path | str) -> Iterator[Side]:
    """Open a dump or a checkpoint file as a side.

    Args:
        path: A dump's directory, a packed dump, or a checkpoint file.

    Raises:
        ConfigError: The file is of no known kind, damaged, or no state dict.
        DumpError: The dump cannot be read.
    """
    place = _place(Path(path))
    if _is_checkpoint(place):
        arrays, found = read_arrays(place)
        yield FileSide(arrays, found or _framework_of_names(arrays))
    else:
        with unpacked(place) as folder, open_dump(folder).open() as side:
            yield side


def check_source(path: Path) -> None:
    """Check that a dump, not packed, or a file of weights is there and of a known kind.

    Raises:
        ConfigError: There is no such file, or its name is of no known kind.
        DumpError: There is no dump.
    """
    place = _place(path)
    if not _is_checkpoint(place):
        open_dump(place)
    elif not place.is_file():
        siblings = [str(near) for near in place.parent.glob("*.*")]
        raise ConfigError(
            f"cannot read weights {str(path)!r}: no such file",
            hint=near_names(str(path), siblings),
        )
    elif not place.name.lower().endswith(_SUFFIXES):
        raise _unknown_kind(place)


def _place(path: Path) -> Path:
    """Find the checkpoint in a folder that holds one and is no dump."""
    if path.is_dir() and not (path / MANIFEST_NAME).exists():
        return find_checkpoint(path) or path
    return path


def _is_checkpoint(path: Path) -> bool:
    """Return files of weights from dumps: any file that is no packed dump, or the name of one."""
    if path.exists():
        return path.is_file() and not path.name.endswith(PACKED_SUFFIX)
    return path.name.lower().endswith(_SUFFIXES)


def read_arrays(path: Path) -> tuple[dict[str, Array], str]:
    """Read a checkpoint: arrays by name, and the framework whose format it is, if any.

    Raises:
        ConfigError: The file is missing, of no known kind, damaged, or no state dict.
    """
    check_source(path)
    try:
        return _read(path)
    except OSError as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: {error.strerror or error}"
        ) from error


def _read(path: Path) -> tuple[dict[str, Array], str]:
    suffix = path.suffix.lower()
    if path.name.lower().endswith(INDEX_SUFFIX):
        return _read_shards(path)
    if suffix == ".safetensors":
        return read_safetensors(path), ""
    if suffix == ".ckpt" and is_mindspore_file(path):
        return read_mindspore_file(path), "mindspore"
    if suffix in _TORCH_SUFFIXES:
        return _state(path, _read_pickle(path, read_torch_file)), "torch"
    if suffix == ".pdparams":
        return _state(path, _read_pickle(path, _read_paddle_file)), "paddle"
    raise _unknown_kind(path)


def _unknown_kind(path: Path) -> ConfigError:
    return ConfigError(
        f"cannot read weights {str(path)!r}: expected a dump, .safetensors, .pth, .pt, .bin or "
        f".pdparams, found {path.suffix.lower()!r}"
    )


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a checkpoint of the kind that the file's name says; it appears whole or not at all.

    Raises:
        ConfigError: No such kind, its framework is missing, or it cannot be written.
    """
    suffix = path.suffix.lower()
    write: Callable[[Path, Mapping[str, Array]], None]
    if suffix == ".safetensors":
        write = write_safetensors
    elif suffix == ".pdparams":
        write = _write_paddle_file
    elif suffix in _TORCH_SUFFIXES:
        write = _files("torch", path).write_state
    else:
        raise ConfigError(
            f"cannot write weights {str(path)!r}: expected .safetensors, .pth or .pdparams, "
            f"found {suffix!r}"
        )
    try:
        with whole_file(path) as partial:
            write(partial, arrays)
    except OSError as error:
        raise ConfigError(
            f"cannot write weights {str(path)!r}: {error.strerror or error}",
            hint="name a file in an existing, writable folder with room for it",
        ) from error


def _write_paddle_file(path: Path, arrays: Mapping[str, Array]) -> None:
    plain = {name: _as_paddle_keeps(array) for name, array in arrays.items()}
    table = {name: name for name in plain}
    with path.open("wb") as stream:
        pickle.dump({**plain, "StructuredToParameterName@@": table}, stream, protocol=4)


def _value(number: int, array: Array) -> ValueInfo:
    return ValueInfo(
        id=number,
        digest=digest_of(array),
        dtype=dtype_name(array.dtype),
        size=array.size,
        statistics=statistics_of(array),
    )


def _framework_of_names(arrays: Mapping[str, Array]) -> str:
    leaves = {name.rpartition(".")[2] for name in arrays}
    return "paddle" if leaves & {"_mean", "_variance"} else "torch"


def _as_paddle_keeps(array: Array) -> Array:
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
            hint=f"pip install 'padiff-align[{framework}]', or convert it to .safetensors",
        ) from error


def _state(path: Path, found: object) -> dict[str, Array]:
    """Accept a dict of arrays, or one inside a checkpoint's usual wrapper."""
    for wrapper in _WRAPPERS:
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if isinstance(found, dict):
        found = {key: item for key, item in found.items() if key != "StructuredToParameterName@@"}
        if found and all(isinstance(item, np.ndarray) for item in found.values()):
            _check_size(path, sum(item.nbytes for item in found.values()))
            return {str(key): item for key, item in found.items()}
    others = "" if not isinstance(found, dict) else _other_keys(found)
    raise ConfigError(
        f"cannot read weights {str(path)!r}: expected a state dict, found "
        f"{type(found).__name__} of something else{others}",
        hint="save model.state_dict(), not the model",
    )


def _check_size(path: Path, needed_bytes: int) -> None:
    """Refuse arrays that say the same data again and again."""
    if needed_bytes > max(_SMALL_BYTES, _MOST_RATIO * path.stat().st_size):
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected arrays of at most {_MOST_RATIO} times "
            f"the file, found {needed_bytes} bytes"
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


def _read_pickle(path: Path, read: Callable[[Path], object]) -> object:
    try:
        return read(path)
    except pickle.UnpicklingError as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected a state dict of arrays, found something "
            f"else: {error}",
            hint="nothing in the file was executed; save model.state_dict()",
        ) from error


def _read_paddle_file(path: Path) -> object:
    with path.open("rb") as file:
        if not file.seek(0, io.SEEK_END):
            raise pickle.UnpicklingError("the file is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return read_array_pickle(data)
