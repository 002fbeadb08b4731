"""Paddle, as a worker needs it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import paddle


class Framework:
    """Makes tensors, calls functions, takes gradients."""

    version: str = paddle.version.full_version

    def __init__(self, device: str) -> None:
        """Choose the device, such as ``cpu`` or ``gpu``."""
        self.device = device
        # Its handlers allocate memory: where the heap is broken they never end.
        paddle.disable_signal_handler()

    def tensor(self, array: Any, dtype: str, layout: str, takes_gradient: bool) -> paddle.Tensor:  # noqa: ANN401
        """Return a tensor of elements, laid out as asked."""
        if layout == "transposed" and array.ndim > 1:
            found = self._plain(array.T.copy(), dtype).transpose([*reversed(range(array.ndim))])
        elif layout == "strided" and array.ndim:
            found = self._plain(np.repeat(array, 2, axis=-1), dtype)[..., ::2]
        else:
            found = self._plain(array.copy(), dtype)
        found.stop_gradient = not takes_gradient
        return found

    def _plain(self, array: Any, dtype: str) -> paddle.Tensor:  # noqa: ANN401
        found = paddle.to_tensor(array, place=self.device)
        return found if array.dtype.name == dtype else found.astype(self.dtype(dtype))

    def assign(self, own: paddle.Tensor, other: paddle.Tensor) -> None:
        """Put elements into a parameter or buffer."""
        own.set_value(other)

    def dtype(self, name: str) -> Any:  # noqa: ANN401
        """Return a dtype by its name."""
        return getattr(paddle, name)

    def function(self, name: str) -> Any:  # noqa: ANN401
        """Return a function by its dotted name."""
        return functools.reduce(getattr, name.split(".")[1:], paddle)

    def flat(self, out: Any) -> Iterator[paddle.Tensor]:  # noqa: ANN401
        """Yield the tensors of a result."""
        if isinstance(out, paddle.Tensor):
            yield out
        elif isinstance(out, list | tuple):
            for each in out:
                yield from self.flat(each)

    def has_graph(self, tensor: paddle.Tensor) -> bool:
        """Return whether a gradient can come from a tensor."""
        return not tensor.stop_gradient

    def gradients(
        self, ends: Sequence[tuple[paddle.Tensor, Any]], taking: Sequence[paddle.Tensor]
    ) -> Sequence[paddle.Tensor | None]:
        """Return gradients, all of them at once."""
        outputs = [one for one, _ in ends]
        arriving = [
            paddle.to_tensor(array, place=one.place).reshape(one.shape).astype(one.dtype)
            for one, array in ends
        ]
        return paddle.grad(outputs, list(taking), arriving, allow_unused=True)  # type: ignore[no-any-return]

    def elements(self, tensor: paddle.Tensor) -> tuple[str, Any]:
        """Return the name of a tensor's dtype, and its elements in one that numpy knows."""
        name = str(tensor.dtype).rpartition(".")[2]
        return name, (tensor.astype("float32") if name == "bfloat16" else tensor).detach().numpy()

    def wait(self, outputs: Sequence[paddle.Tensor]) -> None:
        """Wait until results are there."""
        if outputs and outputs[0].place.is_gpu_place():
            paddle.device.synchronize()
