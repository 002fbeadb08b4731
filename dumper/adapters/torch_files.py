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
    except (RuntimeError, EOFError, OSError) as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: the file is damaged or cut off: {_reason(error)}"
        ) from error
    except (pickle.UnpicklingError, ValueError) as error:
        raise ConfigError(
            f"cannot read weights {str(path)!r}: expected a state dict, found something else: "
            f"{_reason(error)}",
            hint="nothing in the file was executed; save model.state_dict()",
        ) from error
    return _arrays(found, TorchAdapter())


def _reason(error: Exception) -> str:
    """Give the reason alone: torch adds advice, such as to load the file without safety."""
    text = str(error).partition("WeightsUnpickler error:")
    lines = (text[2] or text[0]).strip().splitlines()
    return lines[0].partition(". ")[0].rstrip(".") if lines else type(error).__name__


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
