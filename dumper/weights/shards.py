"""Checkpoints in several files, and folders with one: as transformers and paddleformers save them.

An index is JSON: ``{"weight_map": {"name": "model-00001-of-00003.safetensors"}}``, with file names
beside it. Only names of files in the same folder are followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.dumpfile.strictjson import from_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.dumpfile import JSON

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
