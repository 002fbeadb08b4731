"""Other correct forms of layers, put in place by changing an object's class."""
# ruff: noqa: D102 -- what forward does is said by the class

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .models import Attention

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


class UnfoldedConv(nn.Conv2d):
    """Patches times weights, as one matrix product."""

    def forward(self, x: Tensor) -> Tensor:
        patches = functional.unfold(x, self.kernel_size, padding=1)
        rows = self.weight.reshape(self.out_channels, -1) @ patches
        assert self.bias is not None
        rows = rows + self.bias.reshape(-1, 1)
        return rows.reshape(x.shape[0], -1, *x.shape[2:])


class WideLinear(nn.Linear):
    """Computed in float32, rounded once; the bias added before that."""

    def forward(self, x: Tensor) -> Tensor:
        wide = functional.linear(x.float(), self.weight.float(), self.bias.float())
        return wide.to(x.dtype)


class LaterBias(nn.Linear):
    """The bias added to the rounded product."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


class FusedAttention(Attention):
    """torch's own attention kernel."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value)


class EarlyScale(Attention):
    """The queries scaled, not the scores."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return torch.softmax((query * self.scale) @ key.transpose(2, 3), dim=-1) @ value


class UnfusedGelu(nn.GELU):
    """The formula, operation by operation."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0.5 * (1.0 + torch.erf(x / 2**0.5))


STYLES: dict[str, dict[type[nn.Module], type[nn.Module]]] = {
    "split sums": {nn.Linear: SplitLinear, nn.Conv2d: SplitConv},
    "one-pass variance": {nn.LayerNorm: OnePassNorm, nn.BatchNorm2d: FoldedBatchNorm},
    "unfused norms": {nn.LayerNorm: UnfusedNorm, nn.BatchNorm2d: FoldedBatchNorm},
}
STYLES |= {
    "other kernels": {nn.Conv2d: UnfoldedConv, Attention: FusedAttention, nn.Linear: WideLinear},
    "unfused": {nn.Linear: LaterBias, nn.GELU: UnfusedGelu, Attention: EarlyScale},
}
STYLES["all"] = STYLES["split sums"] | STYLES["unfused norms"]


def restyle(model: nn.Module, style: str) -> None:
    """Let every layer compute the same in another way."""
    for module in model.modules():
        other = STYLES[style].get(type(module))
        if other is not None:
            change_class(module, other)


def change_class(module: nn.Module, other: type[nn.Module]) -> None:
    """Let an object be of another class that bears the name of its own."""
    name = type(module).__name__
    module.__class__ = type(name, (other,), {})
