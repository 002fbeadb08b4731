"""What authors of torch models do, in nets of a few layers; ``met_paddle`` ports each anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS, EXPERTS = 8, 2, 4


def wrapped(inner: nn.Module, depth: int) -> nn.Module:
    """Put a module into so many Sequentials, one in the other."""
    for _ in range(depth):
        inner = nn.Sequential(inner)
    return inner


class Deep(nn.Module):
    """Twelve blocks, each layer in a wrapper of its own, dropouts and identities between."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [
            nn.Sequential(
                wrapped(nn.LayerNorm(WIDTH), 2),
                wrapped(nn.Linear(WIDTH, 12), 4),
                nn.Sequential(nn.GELU(), nn.Dropout(0.1), nn.Identity()),
                wrapped(nn.Linear(12, WIDTH), 4),
                nn.Sequential(nn.Identity(), nn.Dropout(0.1)),
            )
            for _ in range(12)
        ]
        self.encoder = nn.ModuleDict({"stages": nn.ModuleList(blocks)})
        self.head = wrapped(nn.Linear(WIDTH, 3), 2)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 3)."""
        for block in self.encoder["stages"]:
            x = x + block(x)
        return self.head(x)


class SharedPool(nn.Module):
    """One pooling and one ReLU instance, each called three times."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(3, 1, 1)
        self.act = nn.ReLU()
        for number in range(3):
            setattr(self, f"conv{number}", nn.Conv2d(3, 3, 3, padding=1))
        self.unused = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 3, height, width) to its own shape."""
        for layer in (self.conv0, self.conv1, self.conv2):
            x = self.pool(self.act(layer(x)))
        return x


class ShortcutFirst(nn.Module):
    """A residual block whose shortcut is defined first and runs last."""

    def __init__(self) -> None:
        super().__init__()
        self.shortcut = nn.Sequential(nn.Conv2d(3, 6, 1, bias=False), nn.BatchNorm2d(6))
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.conv2, self.bn2 = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 3, height, width) to (batch, 6, height, width)."""
        main = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(main + self.shortcut(x))


class Activated(nn.Module):
    """Convolution, norm and ReLU, three times; the ReLU is one instance."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.convs = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1, bias=False) for _ in range(3))
        self.norms = nn.ModuleList(nn.BatchNorm2d(3) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 3, height, width) to its own shape."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = self.relu(norm(conv(x)))
        return x


class Stage(nn.Module):
    """Blocks, and what makes the next stage smaller, first or last."""

    def __init__(self, width: int, wider: int | None, *, is_first: bool) -> None:
        super().__init__()
        self.is_first = is_first
        if is_first:
            self.merging = nn.Linear(width, wider) if wider else None
        body = (wider or width) if is_first else width
        self.blocks = nn.ModuleList(nn.Linear(body, body) for _ in range(2))
        if not is_first:
            self.merging = nn.Linear(width, wider) if wider else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, wider)."""
        if self.is_first and self.merging is not None:
            x = self.merging(x)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return x if self.is_first or self.merging is None else self.merging(x)


class Stages(nn.Module):
    """Three stages; merging is the last child of the stage before."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((8, 12), (12, 16), (16, None))
        self.stages = nn.Sequential(*[Stage(*size, is_first=False) for size in sizes])

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 8) to (batch, 16)."""
        return self.stages(x)


class Rotary(nn.Module):
    """Angles once for all batches, both halves."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Give cosine and sine, (1, seq, head width)."""
        half = WIDTH // HEADS // 2
        rates = 0.5 ** torch.arange(half, dtype=torch.float32)
        angles = torch.arange(x.shape[1], dtype=torch.float32)[None, :, None] * rates
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn (batch, heads, seq, head width)."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine[:, None] + torch.cat((-second, first), -1) * sine[:, None]


class RotaryAttention(nn.Module):
    """Norms of query and key after the heads were moved forward, angles from outside."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias=False))
        self.q_norm, self.k_norm = (nn.LayerNorm(WIDTH // HEADS) for _ in range(2))

    def forward(self, x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Attend over (batch, seq, width)."""
        split = (*x.shape[:2], HEADS, WIDTH // HEADS)
        layers = (self.q_proj, self.k_proj, self.v_proj)
        query, key, value = (layer(x).view(split).transpose(1, 2) for layer in layers)
        query, key = rotated(self.q_norm(query), *angles), rotated(self.k_norm(key), *angles)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.o_proj(mixed.transpose(1, 2).reshape(x.shape))


class RotaryNet(nn.Module):
    """One rotary module for all layers; a dataclass comes out."""

    is_tied = False

    @dataclass
    class Output:
        """What comes out."""

        logits: Tensor
        hidden: Tensor
        cache: None = None

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.rotary = Rotary()
        self.layers = nn.ModuleList(RotaryAttention() for _ in range(2))
        self.lm_head = nn.Linear(WIDTH, 11, bias=False)
        if self.is_tied:
            self.lm_head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Output:
        """Map (batch, seq) to logits (batch, seq, 11)."""
        x = self.embed(ids)
        angles = self.rotary(x)
        for layer in self.layers:
            x = x + layer(x, angles)
        return self.Output(logits=self.lm_head(x), hidden=x)


class TiedNet(RotaryNet):
    """The same with the embedding as head."""

    is_tied = True


class Positions(nn.Module):
    """Position embeddings of one row that the sum broadcasts."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(11, WIDTH), nn.Embedding(9, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        """Map (batch, seq) to (batch, seq, width)."""
        places = torch.arange(ids.shape[1])[None]
        return self.norm(self.words(ids) + self.positions(places))


class StackedExperts(nn.Module):
    """Experts as 3-D parameters, gate and up in one; the last one is never chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(EXPERTS, 2 * 6, WIDTH))
        self.down_proj = nn.Parameter(torch.empty(EXPERTS, WIDTH, 6))
        self.act_fn = nn.SiLU()

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Map tokens (count, width) by one expert each."""
        made = torch.zeros_like(x)
        for number in range(EXPERTS):
            rows = (chosen == number).nonzero()[:, 0]
            if len(rows):
                gate, up = (x[rows] @ self.gate_up_proj[number].T).chunk(2, -1)
                found = (self.act_fn(gate) * up) @ self.down_proj[number].T
                made = made.index_add(0, rows, found * weights[rows, None])
        return made


class MixtureBlock(nn.Module):
    """A router and its experts."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = StackedExperts()

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (count, width), each by one of the experts but the last."""
        share = self.router(tokens)[:, : EXPERTS - 1].softmax(-1)
        weights, chosen = share.max(-1)
        return tokens + self.experts(tokens, chosen, weights)


class Mixture(nn.Module):
    """A mixture of experts between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = MixtureBlock()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, width) to its own shape."""
        made = self.mlp(self.before(x).reshape(-1, WIDTH))
        return self.after(made.reshape(x.shape))


class Plain(nn.Module):
    """A layer, a norm and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 5, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 5)."""
        return self.head(self.norm(self.first(x)))


class Towers(nn.Module):
    """Two towers of one shape, the left first."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, WIDTH)) for _ in range(2)
        )
        self.out = nn.Linear(2 * WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 3)."""
        return self.out(torch.cat([tower(x) for tower in self.towers], -1))


class Digits(nn.Module):
    """Names that start with digits, layers that are never called, one shared activation."""

    def __init__(self) -> None:
        super().__init__()
        self.act = nn.GELU()
        for name in ("3x3", "1x1", "5x5"):
            self.add_module(name, nn.Linear(WIDTH, WIDTH))
        self.spare = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to its own shape."""
        for name in ("3x3", "1x1", "5x5"):
            x = self.act(self.get_submodule(name)(x))
        return x


class Packed(nn.Module):
    """torch's attention with its packed projection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, width) to (batch, seq, 3)."""
        normed = self.norm(x)
        return self.out(x + self.attn(normed, normed, normed, need_weights=False)[0])


class Checkpointed(nn.Module):
    """Blocks under gradient checkpointing: they run twice."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(3)
        )
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 2)."""
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def spread(model: nn.Module) -> None:
    """Give every parameter values of its own."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.4)
        for module in model.modules():
            variance: Any = getattr(module, "running_var", None)
            if variance is not None:
                variance.abs_().add_(0.5)
