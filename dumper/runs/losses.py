"""The scalar that the backward pass starts from."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.dumper.recording.nested import flatten

from .outputs import Chosen, LossOutputs, Output
from .usercode import UserCode

if TYPE_CHECKING:
    from padiff.dumper.adapter import Adapter, Tensor


def default_loss(
    adapter: Adapter, output: object, chosen: LossOutputs | None = None
) -> tuple[Tensor | None, str | None]:
    """Compute the mean over the floating outputs, and say why there is no backward pass if so.

    Args:
        adapter: Of the model's framework.
        output: What the model gave.
        chosen: Which outputs count; by default all.

    Raises:
        ConfigError: An output that the user chose is not there.
    """
    found = _floating(adapter, output)
    taken = {slot for slot, _ in found}
    if chosen is not None:
        taken = set(choose_outputs(adapter, output, chosen).taken)
    outputs = {adapter.identity(tensor): tensor for slot, tensor in found if slot in taken}
    if not outputs:
        return None, "the model gave no floating output with elements"
    with UserCode("cannot compute the loss"):
        loss = adapter.mean_loss(list(outputs.values()))
    needs_grad = adapter.requires_grad(loss)
    return loss, None if needs_grad else "no output depends on anything that requires a gradient"


def choose_outputs(adapter: Adapter, output: object, chosen: LossOutputs) -> Chosen:
    """Choose what the default loss takes of what a model gave.

    Raises:
        ConfigError: An output that the user chose is not there.
    """
    return chosen.choose(
        [
            Output(slot=slot, shape=tuple(tensor.shape))
            for slot, tensor in _floating(adapter, output)
        ]
    )


def _floating(adapter: Adapter, output: object) -> list[tuple[str, Tensor]]:
    return [
        (slot, tensor)
        for slot, tensor in flatten(output, adapter.is_tensor).tensors
        if adapter.is_floating(tensor) and math.prod(tensor.shape)
    ]
