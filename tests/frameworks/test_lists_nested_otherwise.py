"""Blocks in one nested list against a list for each kind, and splines beside what they scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.support.carrying import carried

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIDTH, STAGES, INNER = 8, 2, 2
X = torch.tensor(np.random.default_rng(5).standard_normal((3, WIDTH)), dtype=torch.float32)


class _Before(nn.Module):
    """A norm, and what comes behind it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.fn, self.norm = inner, nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.fn(self.norm(x)) + x
        return found


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))


class _Nested(nn.Module):
    """As Perceiver's authors do: each stage lists a mixer, a network, and a list of such pairs."""

    def __init__(self) -> None:
        super().__init__()

        def pair(mix: Callable[[], nn.Module]) -> list[nn.Module]:
            return [_Before(mix()), _Before(_network())]

        self.layers = nn.ModuleList(
            nn.ModuleList([
                *pair(lambda: nn.Linear(WIDTH, WIDTH, bias=False)),
                nn.ModuleList(
                    nn.ModuleList(pair(lambda: nn.Linear(WIDTH, WIDTH))) for _ in range(INNER)
                ),
            ])
            for _ in range(STAGES)
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.layers.children():
            first, second, inner = stage.children()
            x = second(first(x))
            for pair in inner.children():
                mix, network = pair.children()
                x = network(mix(x))
        return x


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.w1, self.w2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = x + self.w2(functional.gelu(self.w1(self.norm(x))))
        return found


class _Block(nn.Module):
    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(WIDTH), _Network()
        self.mix = nn.Linear(WIDTH, WIDTH, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.mlp(x + self.mix(self.norm(x)))
        return found


class _ByKind(nn.Module):
    """The same with a list of first blocks and one of lists of later ones."""

    def __init__(self) -> None:
        super().__init__()
        self.cross = nn.ModuleList(_Block(bias=False) for _ in range(STAGES))
        self.selfs = nn.ModuleList(
            nn.ModuleList(_Block(bias=True) for _ in range(INNER)) for _ in range(STAGES)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, inner in zip(self.cross, self.selfs, strict=True):
            x = first(x)
            for block in inner.children():
                x = block(x)
        return x


class _Spline(nn.Module):
    """As authors of KANs do: a matrix, a stack, and what scales it, all in one class."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.base_weight = nn.Parameter(torch.empty(out, into))
        self.spline_weight = nn.Parameter(torch.empty(out, into, 3))
        self.spline_scaler = nn.Parameter(torch.empty(out, into))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        powers = torch.stack([x, x.square(), x.sin()], -1)
        scaled = self.spline_weight * self.spline_scaler[..., None]
        bent = torch.einsum("big,oig->bo", powers, scaled)
        return functional.linear(functional.silu(x), self.base_weight) + bent


class _Curve(nn.Module):
    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.coef = nn.Parameter(torch.empty(out, into, 3))
        self.scale = nn.Parameter(torch.empty(out, into))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        powers = torch.stack([x, x.square(), x.sin()], -1)
        return torch.einsum("big,oig->bo", powers, self.coef * self.scale[..., None])


class _Apart(nn.Module):
    """The matrix is a layer, the stack and its scale are another."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.base, self.spline = nn.Linear(into, out, bias=False), _Curve(into, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.base(functional.silu(x)) + self.spline(x)
        return found


def test_like_networks_of_two_lists_find_their_blocks(tmp_path: Path) -> None:
    _, error = carried(tmp_path, _Nested(), _ByKind(), X, mean=0.0, seed=1)

    assert error < 1e-5


def test_and_the_other_way_round(tmp_path: Path) -> None:
    _, error = carried(tmp_path, _ByKind(), _Nested(), X, mean=0.0, seed=1)

    assert error < 1e-5


def test_splines_and_the_matrix_beside_them_are_told_by_words_and_runs(tmp_path: Path) -> None:
    sizes = (WIDTH, 5), (5, 5), (5, 2)
    one = nn.Sequential(*(_Spline(*size) for size in sizes))
    two = nn.Sequential(*(_Apart(*size) for size in sizes))

    _, error = carried(tmp_path, one, two, X, mean=0.0, seed=1)

    assert error < 1e-5
