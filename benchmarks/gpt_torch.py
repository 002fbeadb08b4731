"""A GPT-like decoder in torch, as large as one likes."""

from __future__ import annotations

import torch
from torch import nn


class Attention(nn.Module):
    """Causal self-attention with one fused projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map (batch, seq, width) to the same shape."""
        batch, length, width = hidden.shape
        split = self.qkv(hidden).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5
        mixed = torch.softmax(scores + mask, dim=-1) @ value
        joined: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return joined


def fused_attention(self: Attention, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Compute what ``Attention`` computes by torch's own attention, queries scaled by one."""
    batch, length, width = hidden.shape
    split = self.qkv(hidden).reshape(batch, length, 3, self.heads, width // self.heads)
    query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
    mixed = nn.functional.scaled_dot_product_attention(query * 1.0, key, value, attn_mask=mask)
    joined: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
    return joined


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map (batch, seq, width) to the same shape."""
        hidden = hidden + self.attention(self.norm1(hidden), mask)
        added: torch.Tensor = hidden + self.down(self.gelu(self.up(self.norm2(hidden))))
        return added


class SplitAttention(nn.Module):
    """The same with a projection each, and a module around what is between them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map (batch, seq, width) to the same shape."""
        batch, length, width = hidden.shape
        query, key, value = (
            made(hidden).reshape(batch, length, self.heads, -1).transpose(1, 2)
            for made in (self.q, self.k, self.v)
        )
        scores = query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5
        mixed = torch.softmax(scores + mask, dim=-1) @ value
        joined: torch.Tensor = self.o(mixed.transpose(1, 2).reshape(batch, length, width))
        return joined


class FeedForward(nn.Module):
    """Two projections around a function."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map (batch, seq, width) to the same shape."""
        made: torch.Tensor = self.fc2(nn.functional.gelu(self.fc1(hidden)))
        return made


class OtherBlock(nn.Module):
    """A block as another author writes it: other modules, other names, other weights."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), SplitAttention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width), FeedForward(width)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Map (batch, seq, width) to the same shape."""
        hidden = hidden + self.attn(self.ln_1(hidden), mask)
        added: torch.Tensor = hidden + self.mlp(self.ln_2(hidden))
        return added


class GPT(nn.Module):
    """Embeddings, blocks, a norm, a head."""

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        vocabulary: int,
        block: type[nn.Module] = Block,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map ids (batch, seq) to logits (batch, seq, vocabulary)."""
        length = ids.shape[1]
        mask = torch.full((length, length), -1e9).triu(1)
        hidden = self.tokens(ids) + self.positions(torch.arange(length))
        for block in self.blocks:
            hidden = block(hidden, mask)
        scores: torch.Tensor = self.head(self.norm(hidden))
        return scores
