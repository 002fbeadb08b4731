"""Record one run of a model with a loss that no element of the result can hide from."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import torch

import padiff

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["dump", "loss_of", "tensors_of"]


def tensors_of(result: Any, prefix: str = "") -> dict[str, torch.Tensor]:  # noqa: ANN401
    """List the floating-point tensors of a nested result by name."""
    if isinstance(result, torch.Tensor):
        return {prefix: result} if result.is_floating_point() else {}
    if isinstance(result, (tuple, list)):
        items = list(enumerate(result))
    elif hasattr(result, "items"):
        items = list(result.items())
    else:
        return {}
    found = [tensors_of(value, f"{prefix}.{key}") for key, value in items]
    return {name: tensor for part in found for name, tensor in part.items()}


def loss_of(result: Any) -> torch.Tensor:  # noqa: ANN401
    """Return the sum of all elements of a result, each with a seeded random factor."""
    terms = []
    for name, tensor in tensors_of(result).items():
        if tensor.requires_grad:
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            factors = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
            terms.append((tensor * factors.to(tensor.dtype)).sum() / tensor.numel() ** 0.5)
    total: torch.Tensor = torch.stack([term.double() for term in terms]).sum()
    return total


def dump(
    model: Any,  # noqa: ANN401 - any module
    inputs: Mapping[str, torch.Tensor],
    out: Path,
    name: str,
    *,
    is_forward: bool = False,
) -> Path:
    """Record a forward pass and the backward pass of a seeded loss.

    Args:
        model: In the mode in which it is to run.
        inputs: By argument name.
        out: Folder of dumps.
        name: Of the dump.
        is_forward: Leave the backward pass out.
    """
    torch.manual_seed(7)
    model.zero_grad()
    phase = "forward" if is_forward else "backward"
    with padiff.record(model, name=name, out=out, phase=phase, overwrite=True) as recorder:
        result = model(**inputs)
        if not is_forward:
            loss_of(result).backward()  # type: ignore[no-untyped-call]
    assert recorder.path is not None
    return recorder.path
