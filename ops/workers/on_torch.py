"""Torch, as a worker needs it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch


class Framework:
    """Makes tensors, calls functions, takes gradients."""

    version = torch.__version__

    def __init__(self, device: str) -> None:
        """Choose the device, such as ``cpu`` or ``gpu``."""
        self.device = "cuda" if device == "gpu" else device
        torch.set_num_threads(1)

    def tensor(self, array: Any, dtype: str, layout: str, takes_gradient: bool) -> torch.Tensor:  # noqa: ANN401
        """Return a tensor of elements, laid out as asked."""
        kind = self.dtype(dtype)
        if layout == "transposed" and array.ndim > 1:
            found = torch.tensor(array.T.copy(), dtype=kind, device=self.device)
            found = found.permute(*reversed(range(found.ndim)))
        elif layout == "strided" and array.ndim:
            wide = torch.tensor(np.repeat(array, 2, axis=-1), dtype=kind, device=self.device)
            found = wide[..., ::2]
        else:
            found = torch.tensor(array.copy(), dtype=kind, device=self.device)
        return found.requires_grad_() if takes_gradient else found

    def assign(self, own: torch.Tensor, other: torch.Tensor) -> None:
        """Put elements into a parameter or buffer."""
        with torch.no_grad():
            own.copy_(other)

    def dtype(self, name: str) -> Any:  # noqa: ANN401
        """Return a dtype by its name."""
        return getattr(torch, name)

    def function(self, name: str) -> Any:  # noqa: ANN401
        """Return a function by its dotted name."""
        return functools.reduce(getattr, name.split(".")[1:], torch)

    def flat(self, out: Any) -> Iterator[torch.Tensor]:  # noqa: ANN401
        """Yield the tensors of a result."""
        if isinstance(out, torch.Tensor):
            yield out
        elif isinstance(out, list | tuple):
            for each in out:
                yield from self.flat(each)

    def has_graph(self, tensor: torch.Tensor) -> bool:
        """Return whether a gradient can come from a tensor."""
        return tensor.requires_grad

    def gradients(
        self, ends: Sequence[tuple[torch.Tensor, Any]], taking: Sequence[torch.Tensor]
    ) -> Sequence[torch.Tensor | None]:
        """Return gradients, all of them at once."""
        outputs = [one for one, _ in ends]
        arriving = [
            torch.tensor(array, dtype=one.dtype, device=one.device).reshape(one.shape)
            for one, array in ends
        ]
        return torch.autograd.grad(outputs, taking, arriving, allow_unused=True)

    def elements(self, tensor: torch.Tensor) -> tuple[str, Any]:
        """Return the name of a tensor's dtype, and its elements in one that numpy knows."""
        name = str(tensor.dtype).removeprefix("torch.")
        found = tensor.detach().resolve_conj().resolve_neg().cpu()
        return name, (found.float() if name == "bfloat16" else found).numpy()

    def wait(self, outputs: Sequence[torch.Tensor]) -> None:
        """Wait until results are there."""
        if outputs and outputs[0].is_cuda:
            torch.cuda.synchronize()
