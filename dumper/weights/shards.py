"""Checkpoints in several files, and folders with one: as transformers and paddleformers save them.

An index is JSON: ``{"weight_map": {"name": "model-00001-of-00003.safetensors"}}``, with file names
beside it. Only names of files in the same folder are followed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["INDEX_SUFFIX", "find_checkpoint", "read_index"]

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
            table = json.loads(stream.read(_MAX_BYTES))["weight_map"]
        names: dict[str, list[str]] = {}
        for name, file in table.items():
            names.setdefault(str(file), []).append(name)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
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


def _is_plain(file: str) -> bool:
    return file not in {"", ".", ".."} and not set(file) & set("/\\:\0")
