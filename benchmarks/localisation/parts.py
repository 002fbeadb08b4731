"""Faulty and other correct forms of layers, put in place by changing an object's class."""
# ruff: noqa: D102 -- what forward does is said by the class

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

# -- other correct forms


class SplitLinear(nn.Linear):
    """Two halves of the sum, added afterwards, the second half first."""

    def forward(self, x: Tensor) -> Tensor:
        half = self.in_features // 2
        later = functional.linear(x[..., half:], self.weight[:, half:])
        return functional.linear(x[..., :half], self.weight[:, :half], self.bias) + later


class SplitConv(nn.Conv2d):
    """The input channels in two halves."""

    def forward(self, x: Tensor) -> Tensor:
        half = max(self.in_channels // 2, 1)
        first = functional.conv2d(x[:, half:], self.weight[:, half:], None, padding=self.padding)
        second = functional.conv2d(
            x[:, :half], self.weight[:, :half], self.bias, padding=self.padding
        )
        return first + second


class OnePassNorm(nn.LayerNorm):
    """Variance as the mean of squares minus the square of the mean, in float32."""

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        mean = wide.mean(-1, keepdim=True)
        variance = (wide * wide).mean(-1, keepdim=True) - mean * mean
        given = (wide - mean) * torch.rsqrt(variance + self.eps)
        return (given * self.weight.float() + self.bias.float()).to(x.dtype)


class UnfusedNorm(nn.LayerNorm):
    """Every operation rounds to the dtype."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias


class FoldedBatchNorm(nn.BatchNorm2d):
    """One multiplication and one addition."""

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = self.get_buffer("running_mean"), self.get_buffer("running_var")
        scale = self.weight / torch.sqrt(variance + self.eps)
        shift = self.bias - mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)


STYLES: dict[str, dict[type[nn.Module], type[nn.Module]]] = {
    "split sums": {nn.Linear: SplitLinear, nn.Conv2d: SplitConv},
    "one-pass variance": {nn.LayerNorm: OnePassNorm, nn.BatchNorm2d: FoldedBatchNorm},
    "unfused norms": {nn.LayerNorm: UnfusedNorm, nn.BatchNorm2d: FoldedBatchNorm},
}
STYLES["all"] = STYLES["split sums"] | STYLES["unfused norms"]


def restyle(model: nn.Module, style: str) -> None:
    """Let every layer compute the same in another way."""
    for module in model.modules():
        other = STYLES[style].get(type(module))
        if other is not None:
            _change(module, other)


# -- faults


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401
        return gradient * 1.25


def _with_forward(base: type[nn.Module], forward: Callable[..., Tensor]) -> type[nn.Module]:
    return type(base.__name__, (base,), {"forward": forward})


def _change(module: nn.Module, other: type[nn.Module]) -> None:
    name = type(module).__name__
    module.__class__ = type(name, (other,), {})


def _no_bias(self: nn.Linear, x: Tensor) -> Tensor:
    return functional.linear(x, self.weight)


def _transposed(self: nn.Linear, x: Tensor) -> Tensor:
    return functional.linear(x, self.weight.T, self.bias)


def _replicated(self: nn.Conv2d, x: Tensor) -> Tensor:
    padded = functional.pad(x, (1, 1, 1, 1), mode="replicate")
    return functional.conv2d(padded, self.weight, self.bias)


def _by_batch(self: nn.BatchNorm2d, x: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


def _doubled(base: type[nn.Module]) -> Callable[..., Tensor]:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = base.forward(self, x) * 2
        return result

    return forward


def _wrong_gradient(base: type[nn.Module]) -> Callable[..., Tensor]:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = _Scaled.apply(base.forward(self, x))  # type: ignore[no-untyped-call]
        return result

    return forward


def _set(name: str, value: object) -> Callable[[nn.Module], None]:
    def change(module: nn.Module) -> None:
        setattr(module, name, value)

    return change


def _forward(base: type[nn.Module], forward: Callable[..., Tensor]) -> Callable[[nn.Module], None]:
    def change(module: nn.Module) -> None:
        _change(module, _with_forward(base, forward))

    return change


def _causal(module: nn.Module) -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
        mask = torch.ones_like(scores, dtype=torch.bool).tril()
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ value

    module.attend = attend  # type: ignore[assignment]


def _swapped_gates(module: nn.Module) -> None:
    def gates(given: Tensor, kept: Tensor, state: Tensor) -> Tensor:
        width = state.shape[-1]
        update, reset = torch.sigmoid(given + kept)[:, : 2 * width].chunk(2, dim=-1)
        new = torch.tanh(given[:, 2 * width :] + reset * kept[:, 2 * width :])
        return (1 - update) * new + update * state

    module.gates = gates  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planted fault."""

    where: str
    """Path below the block; empty for the block itself."""
    change: Callable[[nn.Module], None]
    backward: bool = False
    cause: str = ""
    """What the evidence must mention to have named it; empty if nothing could."""


FAULTS: dict[str, dict[str, Fault]] = {
    "cnn": {
        "epsilon 1e-2": Fault(where="bn1", change=_set("eps", 1e-2), cause="eps"),
        "replicated padding": Fault(
            where="conv2", change=_forward(nn.Conv2d, _replicated), cause="border"
        ),
        "doubled output": Fault(
            where="bn2", change=_forward(nn.BatchNorm2d, _doubled(nn.BatchNorm2d)), cause="2 times"
        ),
        "training mode": Fault(
            where="bn1", change=_forward(nn.BatchNorm2d, _by_batch), cause="training mode"
        ),
        "wrong gradient": Fault(
            where="conv2",
            change=_forward(nn.Conv2d, _wrong_gradient(nn.Conv2d)),
            backward=True,
            cause="1.25 times",
        ),
    },
    "transformer": {
        "epsilon 1e-2": Fault(where="norm1", change=_set("eps", 1e-2), cause="eps"),
        "no attention scale": Fault(where="attention", change=_set("scale", 1.0), cause="scale"),
        "causal mask": Fault(where="attention", change=_causal),
        "tanh GELU": Fault(where="act", change=_set("approximate", "tanh"), cause="approximate"),
        "bias left out": Fault(
            where="fc2", change=_forward(nn.Linear, _no_bias), cause="bias, left out"
        ),
        "transposed weight": Fault(
            where="attention.out", change=_forward(nn.Linear, _transposed), cause="transposed"
        ),
        "wrong gradient": Fault(
            where="fc1",
            change=_forward(nn.Linear, _wrong_gradient(nn.Linear)),
            backward=True,
            cause="1.25 times",
        ),
    },
    "rnn": {
        "swapped gates": Fault(where="", change=_swapped_gates),
        "epsilon 1e-2": Fault(where="norm", change=_set("eps", 1e-2), cause="eps"),
        "bias left out": Fault(
            where="inner", change=_forward(nn.Linear, _no_bias), cause="bias, left out"
        ),
        "wrong gradient": Fault(
            where="inner",
            change=_forward(nn.Linear, _wrong_gradient(nn.Linear)),
            backward=True,
            cause="1.25 times",
        ),
    },
}


def plant(block: nn.Module, fault: str) -> None:
    """Put a fault into a block, by its name in ``FAULTS``."""
    found = next(faults[fault] for faults in FAULTS.values() if _has(block, faults, fault))
    found.change(block.get_submodule(found.where) if found.where else block)


def _has(block: nn.Module, faults: dict[str, Fault], fault: str) -> bool:
    if fault not in faults:
        return False
    return {"Block": "cnn", "Layer": "transformer", "Recurrent": "rnn"}[type(block).__name__] in {
        kind for kind, others in FAULTS.items() if others is faults
    }
