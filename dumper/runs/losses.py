"""The scalar that the backward pass starts from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.dumper.recording.nested import flatten

from .usercode import UserCode

if TYPE_CHECKING:
    from padiff.dumper.adapter import Adapter, Tensor

__all__ = ["default_loss"]


def default_loss(adapter: Adapter, output: object) -> tuple[Tensor | None, str | None]:
    """Give the mean over all floating outputs, and why there is no backward pass if so."""
    outputs = {
        adapter.identity(tensor): tensor
        for _, tensor in flatten(output, adapter.is_tensor).tensors
        if adapter.is_floating(tensor) and math.prod(tensor.shape)
    }
    if not outputs:
        return None, "the model gave no floating output with elements"
    with UserCode("cannot compute the loss"):
        loss = adapter.mean_loss(list(outputs.values()))
    needs_grad = adapter.requires_grad(loss)
    return loss, None if needs_grad else "no output depends on anything that requires a gradient"
