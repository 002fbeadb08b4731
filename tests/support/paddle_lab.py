"""The laboratory of Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute as checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.support.recording import Array, Thing


class PaddleLab:
    name = "paddle"
    nn: Thing = nn
    swap: tuple[object, ...] = ([1, 0],)

    def module(
        self, forward: Callable[..., Any], *, class_name: str = "Model", **children: object
    ) -> Thing:
        kind = type(class_name, (nn.Layer,), {"forward": forward, "__module__": __name__})
        made = kind()
        for name, child in children.items():
            setattr(made, name, child)
        return made

    def convolution(self, channels_in: int, channels_out: int) -> Thing:
        return nn.Conv2D(channels_in, channels_out, 3, padding=1)

    def batch_norm(self, channels: int) -> Thing:
        return nn.BatchNorm2D(channels)

    def parameter(self, array: Array) -> Thing:
        initial = nn.initializer.Assign(array)
        dtype: Thing = str(array.dtype)
        return paddle.create_parameter(list(array.shape), dtype, default_initializer=initial)

    def tensor(self, array: Array, *, requires_grad: bool = False) -> Thing:
        return paddle.to_tensor(array, stop_gradient=not requires_grad)

    def array(self, tensor: Thing) -> Array:
        found: Array = tensor.numpy().copy()
        return found

    def gradient(self, tensor: Thing) -> Array | None:
        return None if tensor.grad is None else self.array(tensor.grad)

    def cast(self, tensor: Thing, dtype: str) -> Thing:
        return tensor.astype(dtype)

    def modules(self, model: Thing) -> list[tuple[str, Any]]:
        return list(model.named_sublayers(include_self=True))

    def clear_gradients(self, model: Thing) -> None:
        for parameter in model.parameters():
            parameter.clear_gradient(False)  # noqa: FBT003

    def optimizer(self, model: Thing, *, rate: float) -> Thing:
        return paddle.optimizer.Momentum(rate, 0.9, parameters=model.parameters())

    def gradients(
        self, made: paddle.Tensor, of: list[paddle.Tensor], *, create_graph: bool = False
    ) -> Sequence[paddle.Tensor]:
        found: list[paddle.Tensor] = paddle.grad(made, of, create_graph=create_graph)
        return found

    def mean(self, tensor: Thing) -> Thing:
        return tensor.mean()

    def has_hooks(self, model: Thing) -> bool:
        layers = model.sublayers(include_self=True)
        return any(part._forward_pre_hooks or part._forward_post_hooks for part in layers)

    def relu_(self, tensor: Thing) -> Thing:
        return nn.functional.relu_(tensor)

    def no_grad(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = paddle.no_grad()
        return context

    def freeze(self, parameter: Thing) -> None:
        parameter.stop_gradient = True

    def seed(self, seed: int) -> None:
        paddle.seed(seed)

    def checkpoint(self, function: Callable[..., Any], x: paddle.Tensor, *, reentrant: bool) -> Any:  # noqa: ANN401
        return checkpoint(function, x, use_reentrant=reentrant)
