"""One small decoder, written in several ways that compute the same."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .architectures import seeded

__all__ = ["FORMS", "build"]

WIDTH, HEADS, LAYERS, TOKENS = 32, 4, 2, 50
HEAD = WIDTH // HEADS
FORMS: dict[str, dict[str, Any]] = {
    "fused projections": {"fused": True},
    "scale on the queries": {"scale": "queries"},
    "scale on the keys": {"scale": "keys"},
    "scale split over both": {"scale": "both"},
    "framework's attention": {"scale": "framework"},
    "activation as a function": {"activation": "function"},
    "activation by its formula": {"activation": "formula"},
    "one activation for all layers": {"activation": "shared"},
    "norm by its formula": {"norm": "formula"},
    "norm by the mean of squares": {"norm": "squares"},
    "matrices by hand": {"linear": "matmul"},
    "layers in wrappers": {"wrapped": True},
    "factors in another order": {"factors": (0.5, 3.0)},
    "head by the table of words": {"head": "function"},
}
"""Options of ``build`` by what they change."""


class _Activation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.erf(x / 2**0.5))


class _Norm(nn.Module):
    """A norm by one of two formulas."""

    def __init__(self, *, is_short: bool) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.is_short = is_short

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        square = (x * x).mean(-1, keepdim=True) - mean * mean
        exact = (x - mean).square().mean(-1, keepdim=True)
        variance = square if self.is_short else exact
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias


class _Product(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(x, self.weight.t()) + self.bias


class _Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


class _Attention(nn.Module):
    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        kind = _Product if options.get("linear") == "matmul" else nn.Linear
        self.is_fused, self.scale = bool(options.get("fused")), options.get("scale", "scores")
        if self.is_fused:
            self.qkv = kind(WIDTH, 3 * WIDTH)
        else:
            self.q, self.k, self.v = kind(WIDTH, WIDTH), kind(WIDTH, WIDTH), kind(WIDTH, WIDTH)
        self.out = kind(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).chunk(3, -1) if self.is_fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in parts)
        joined = self.mix(q, k, v).transpose(1, 2).flatten(2)
        result: Tensor = self.out(joined)
        return result

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        factor = HEAD**-0.5
        if self.scale == "framework":
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.scale == "queries":
            scores = (q * factor) @ k.mT
        elif self.scale == "keys":
            scores = q @ (k * factor).mT
        elif self.scale == "both":
            scores = (q * factor**0.5) @ (k * factor**0.5).mT
        else:
            scores = q @ k.mT * factor
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        mixed: Tensor = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        return mixed


class _Block(nn.Module):
    def __init__(self, options: dict[str, Any], shared: nn.Module) -> None:
        super().__init__()
        kind = _Product if options.get("linear") == "matmul" else nn.Linear
        self.norm1, self.norm2 = _norm(options), _norm(options)
        self.attention = _Attention(options)
        self.up, self.down = kind(WIDTH, 2 * WIDTH), kind(2 * WIDTH, WIDTH)
        self.way = options.get("activation", "module")
        if self.way != "function":
            own = {"module": nn.GELU, "formula": _Activation}
            self.activation = shared if self.way == "shared" else own[self.way]()
        self.factors = options.get("factors", (3.0, 0.5))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        hidden = self.up(self.norm2(x)) * self.factors[0] * self.factors[1]
        active = functional.gelu(hidden) if self.way == "function" else self.activation(hidden)
        result: Tensor = x + self.down(active)
        return result


class _Decoder(nn.Module):
    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        shared = nn.GELU()
        self.words = nn.Embedding(TOKENS, WIDTH)
        blocks: list[nn.Module] = [_Block(options, shared) for _ in range(LAYERS)]
        self.blocks = nn.ModuleList(map(_Wrapped, blocks) if options.get("wrapped") else blocks)
        self.norm = _norm(options)
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        self.is_function = options.get("head") == "function"

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if self.is_function:
            return functional.linear(x, self.head.weight)
        result: Tensor = self.head(x)
        return result


def build(**options: object) -> Any:  # noqa: ANN401 - any module
    """Build the decoder in one form; all forms have the same weights."""
    torch.manual_seed(0)
    plain = seeded(_Decoder({}))
    if not options:
        return plain
    model = _Decoder(dict(options))
    state = plain.state_dict()
    if options.get("fused"):
        state = _fused(state)
    if options.get("wrapped"):
        state = {
            re.sub(r"^blocks\.\d+", r"\g<0>.inner", name): value for name, value in state.items()
        }
    model.load_state_dict(state)
    return model.eval()


def _fused(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Join the three projections of each block."""
    made = {
        name: value for name, value in state.items() if name.split(".")[-2] not in ("q", "k", "v")
    }
    for number in range(LAYERS):
        for kind in ("weight", "bias"):
            place = f"blocks.{number}.attention"
            made[f"{place}.qkv.{kind}"] = torch.cat(
                [state[f"{place}.{one}.{kind}"] for one in "qkv"]
            )
    return made


def _norm(options: dict[str, Any]) -> nn.Module:
    way = options.get("norm", "layer")
    return nn.LayerNorm(WIDTH) if way == "layer" else _Norm(is_short=way == "squares")
