"""Read and write torch's checkpoint files."""

from __future__ import annotations

import pickle
import warnings
from typing import TYPE_CHECKING, Any

import torch

from padiff.dumpfile import ConfigError

from .torch import TorchAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.dumper.adapter import Array

__all__ = ["read_state", "write_state"]


def read_state(path: Path) -> object:
    """Load a file with ``weights_only``, tensors as arrays at every depth of dicts.

    Raises:
        ConfigError: The file is damaged, or holds more than tensors and plain containers.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols, of files that fail anyway
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected a state dict, found something else: "
            f"{reason}",
            hint="nothing in the file was executed; save model.state_dict()",
        ) from error
    return _arrays(found, TorchAdapter())


def write_state(path: Path, arrays: Mapping[str, Array]) -> None:
    """Save arrays as a state dict of CPU tensors."""
    adapter = TorchAdapter()
    torch.save(
        {name: adapter.tensor(array, device="cpu", dtype=None) for name, array in arrays.items()},
        path,
    )


def _arrays(found: Any, adapter: TorchAdapter) -> object:  # noqa: ANN401 - whatever a file holds
    if isinstance(found, dict):
        return {key: _arrays(item, adapter) for key, item in found.items()}
    return adapter.snapshot(found) if isinstance(found, torch.Tensor) else found
