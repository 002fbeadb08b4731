"""A diffusion network with a list for each resolution against one with flat lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.support.carrying import carried

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, TIME = 8, 16
X = torch.tensor(np.random.default_rng(3).standard_normal((1, WIDTH, 4, 4)), dtype=torch.float32)


class _Residual(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(2, inner), nn.Conv2d(inner, WIDTH, 3, padding=1)
        self.time_emb_proj = nn.Linear(TIME, WIDTH)
        self.norm2, self.conv2 = nn.GroupNorm(2, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inner, WIDTH, 1) if inner != WIDTH else None

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        h = h + self.time_emb_proj(functional.silu(t))[:, :, None, None]
        h = self.conv2(functional.silu(self.norm2(h)))
        found: torch.Tensor = h + (x if self.conv_shortcut is None else self.conv_shortcut(x))
        return found


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.group_norm = nn.GroupNorm(2, WIDTH)
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in "qkv")
        self.to_out = nn.ModuleList([nn.Linear(WIDTH, WIDTH)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.group_norm(x).flatten(2).mT
        weights = (self.to_q(h) @ self.to_k(h).mT * WIDTH**-0.5).softmax(-1)
        found: torch.Tensor = x + self.to_out[0](weights @ self.to_v(h)).mT.reshape(x.shape)
        return found


class _Up(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(_Attention() for _ in range(2))
        self.resnets = nn.ModuleList(_Residual(2 * WIDTH) for _ in range(2))
        self.upsamplers = nn.ModuleList([nn.Conv2d(WIDTH, WIDTH, 3, padding=1)])


class _Down(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attentions, self.resnets = _Attention(), _Residual(WIDTH)


class _Levels(nn.Module):
    """Lists of residuals and of attentions for each resolution."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(1, TIME)
        self.down_blocks = nn.ModuleList(_Down() for _ in range(3))
        self.up_blocks = nn.ModuleList(_Up() for _ in range(2))
        self.conv_out = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, skips = self.time(torch.full((1, 1), 0.7)), [x]
        for down in cast("list[_Down]", self.down_blocks):
            x = down.attentions(down.resnets(x, t))
            skips.append(x)
        for up in cast("list[_Up]", self.up_blocks):
            for residual, attention in zip(up.resnets, up.attentions, strict=True):
                x = attention(residual(torch.cat([x, skips.pop()], 1), t))
            x = up.upsamplers[0](functional.interpolate(x, scale_factor=2.0))
            skips = [functional.interpolate(skip, scale_factor=2.0) for skip in skips]
        found: torch.Tensor = self.conv_out(x)
        return found


class _FlatResidual(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.in_layers = nn.Sequential(
            nn.GroupNorm(2, inner), nn.SiLU(), nn.Conv2d(inner, WIDTH, 3, padding=1)
        )
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(TIME, WIDTH))
        self.out_layers = nn.Sequential(
            nn.GroupNorm(2, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        )
        self.skip = nn.Identity() if inner == WIDTH else nn.Conv2d(inner, WIDTH, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.in_layers(x) + self.emb_layers(t)[:, :, None, None]
        found: torch.Tensor = self.skip(x) + self.out_layers(h)
        return found


class _FlatAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, WIDTH)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        q, k, v = (one(h).flatten(2) for one in (self.q, self.k, self.v))
        weights = (q.mT @ k * WIDTH**-0.5).softmax(-1)
        found: torch.Tensor = x + self.proj_out((v @ weights.mT).reshape(x.shape))
        return found


class _Larger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.conv(functional.interpolate(x, scale_factor=2.0))
        return found


class _Flat(nn.Module):
    """One list of steps on each way."""

    def __init__(self) -> None:
        super().__init__()
        self.time_embed = nn.Linear(1, TIME)
        self.input_blocks = nn.ModuleList(
            nn.ModuleList([_FlatResidual(WIDTH), _FlatAttention()]) for _ in range(3)
        )
        self.output_blocks = nn.ModuleList(
            nn.ModuleList(
                [_FlatResidual(2 * WIDTH), _FlatAttention(), *([_Larger()] if n % 2 else [])]
            )
            for n in range(4)
        )
        self.out = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t, skips = self.time_embed(torch.full((1, 1), 0.7)), [x]
        for residual, attention in cast("list[list[nn.Module]]", self.input_blocks):
            x = attention(residual(x, t))
            skips.append(x)
        for block in cast("list[list[nn.Module]]", self.output_blocks):
            x = torch.cat([x, skips.pop()], 1)
            for step in block:
                x = step(x, t) if isinstance(step, _FlatResidual) else step(x)
                if isinstance(step, _Larger):
                    skips = [functional.interpolate(skip, scale_factor=2.0) for skip in skips]
        found: torch.Tensor = self.out(x)
        return found


def test_what_lists_of_other_shapes_hold_is_told_by_runs(tmp_path: Path) -> None:
    reference, candidate = _Levels(), _Flat()

    plan, error = carried(tmp_path, reference, candidate, X, mean=0.2, seed=0)

    assert not plan.ambiguous
    assert error < 1e-5
