"""Write torch's checkpoint files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .torch import TorchAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.dumper.adapter import Array


def write_state(path: Path, arrays: Mapping[str, Array]) -> None:
    """Save arrays as a state dict of CPU tensors."""
    adapter = TorchAdapter()
    torch.save(
        {name: adapter.tensor(array, device="cpu", dtype=None) for name, array in arrays.items()},
        path,
    )
