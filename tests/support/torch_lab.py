"""The laboratory of torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.support.recording import Array, Thing


class TorchLab:
    name = "torch"
    nn: Any = nn
    swap: tuple[object, ...] = (0, 1)

    def module(
        self, forward: Callable[..., Any], *, class_name: str = "Model", **children: object
    ) -> nn.Module:
        kind = type(class_name, (nn.Module,), {"forward": forward, "__module__": __name__})
        made: nn.Module = kind()
        for name, child in children.items():
            setattr(made, name, child)
        return made

    def convolution(self, channels_in: int, channels_out: int) -> nn.Module:
        return nn.Conv2d(channels_in, channels_out, 3, padding=1)

    def batch_norm(self, channels: int) -> nn.Module:
        return nn.BatchNorm2d(channels)

    def parameter(self, array: Array) -> nn.Parameter:
        return nn.Parameter(torch.from_numpy(array))

    def tensor(self, array: Array, *, requires_grad: bool = False) -> torch.Tensor:
        return torch.from_numpy(array.copy()).requires_grad_(requires_grad)

    def array(self, tensor: torch.Tensor) -> Array:
        found: Array = tensor.detach().numpy().copy()
        return found

    def gradient(self, tensor: torch.Tensor) -> Array | None:
        return None if tensor.grad is None else self.array(tensor.grad)

    def cast(self, tensor: torch.Tensor, dtype: str) -> torch.Tensor:
        return tensor.to(getattr(torch, dtype))

    def modules(self, model: nn.Module) -> list[tuple[str, Any]]:
        return list(model.named_modules())

    def clear_gradients(self, model: nn.Module) -> None:
        model.zero_grad(set_to_none=True)

    def optimizer(self, model: nn.Module, *, rate: float) -> Thing:
        return torch.optim.SGD(model.parameters(), rate, momentum=0.9)

    def gradients(
        self, made: torch.Tensor, of: list[torch.Tensor], *, create_graph: bool = False
    ) -> Sequence[torch.Tensor]:
        return torch.autograd.grad(made, of, create_graph=create_graph)

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.mean()

    def has_hooks(self, model: nn.Module) -> bool:
        return any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())

    def relu_(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.relu_(tensor)

    def no_grad(self) -> AbstractContextManager[Any]:
        return torch.no_grad()

    def freeze(self, parameter: torch.Tensor) -> None:
        parameter.requires_grad = False

    def seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def checkpoint(self, function: Callable[..., Any], x: torch.Tensor, *, reentrant: bool) -> Any:  # noqa: ANN401
        return checkpoint(function, x, use_reentrant=reentrant)
