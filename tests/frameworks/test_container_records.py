"""What two containers give is compared although they hold other things, and so are settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import CompareSettings, Verdict, compare

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from padiff.comparer import Comparison

SIZE, EXPERTS, CHOSEN = 8, 4, 2
TOKENS = np.random.default_rng(5).standard_normal((2, 5, SIZE)).astype(np.float32)
IMAGE = np.random.default_rng(6).standard_normal((1, 2, 11, 11)).astype(np.float32)


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, SIZE))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares, chosen = (x @ self.weight.T).softmax(-1).topk(CHOSEN, -1)
        return shares / shares.sum(-1, keepdim=True), chosen


class Expert(nn.Module):
    """A gated network with two matrices in front, or both in one."""

    gate: nn.Linear
    up: nn.Linear
    gate_up: nn.Linear
    down: nn.Linear

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        both, last = torch.randn(2 * SIZE, SIZE) / 3, torch.randn(SIZE, SIZE) / 3
        matrices = {"gate_up": both} if fused else {"gate": both[:SIZE], "up": both[SIZE:]}
        for name, matrix in {**matrices, "down": last}.items():
            linear = nn.Linear(SIZE, len(matrix), bias=False)
            linear.weight = nn.Parameter(matrix.clone())
            setattr(self, name, linear)
        self.fused, self.act = fused, nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, -1) if self.fused else (self.gate(x), self.up(x))
        made: torch.Tensor = self.down(self.act(gate) * up)
        return made


class Experts(nn.Module):
    def __init__(self, *, fused: bool, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.list = nn.ModuleList(Expert(fused=fused) for _ in range(EXPERTS))

    def forward(self, x: torch.Tensor, shares: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        made = torch.zeros_like(x)
        shares = torch.ones_like(shares) if self.fault == "shares are lost" else shares
        shares = shares.flip(-1) if self.fault == "shares are exchanged" else shares
        for number, expert in enumerate(self.list):
            rows, places = torch.where(chosen == number)
            if len(rows):
                made = made.index_add(0, rows, expert(x[rows]) * shares[rows, places, None])
        return made * (3 if self.fault == "scaled" else 1)


class Mixture(nn.Module):
    def __init__(self, *, fused: bool, fault: str, outside: bool) -> None:
        super().__init__()
        self.outside = outside
        self.router, self.experts = Router(), Experts(fused=fused, fault=fault)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, SIZE)
        made: torch.Tensor = self.experts(rows, *self.router(rows)).reshape(x.shape)
        return made if self.outside else made * 0.5


class Net(nn.Module):
    """A residual branch, scaled by half inside the block or outside it."""

    def __init__(self, *, fused: bool = False, fault: str = "", outside: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Linear(SIZE, SIZE), nn.LayerNorm(SIZE)
        self.block = Mixture(fused=fused, fault=fault, outside=outside)
        torch.manual_seed(1)
        self.last = nn.Linear(SIZE, SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        branch = self.block(self.norm(x))
        made: torch.Tensor = self.last(x + branch * (0.5 if self.block.outside else 1))
        return made


class Pools(nn.Module):
    """Two poolings, by one module that is called twice or by two."""

    pool0: nn.MaxPool2d

    def __init__(self, *, modules: int = 1, ceil_mode: Sequence[bool] = (False,)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.other = nn.Conv2d(2, 3, 1), nn.Conv2d(3, 3, 1)
        for number in range(modules):
            setattr(self, f"pool{number}", nn.MaxPool2d(2, 2, ceil_mode=ceil_mode[number]))
        self.last = getattr(self, f"pool{modules - 1}")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(self.other(self.pool0(self.conv(x)))).mean((2, 3))
        return made


def compared(folder: Path, *models: nn.Module, inputs: np.ndarray = TOKENS) -> Comparison:
    paths = []
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=folder) as recorder:
            (model(torch.from_numpy(inputs)) ** 2).mean().backward()
        assert recorder.path is not None
        paths.append(recorder.path)
    return compare(paths[0], paths[1], CompareSettings())


def origins(found: Comparison) -> list[str]:
    ends = [one.pair.reference or one.pair.candidate for one in found.origins]
    return [end.address.module for end in ends if end is not None]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("fault", ["scaled", "shares are lost", "shares are exchanged"])
def test_container_is_named_whose_calls_inside_have_no_partners(
    fault: str, tmp_path: Path, *, turned: bool
) -> None:
    found = compared(tmp_path, Net(fused=turned), Net(fused=not turned, fault=fault))

    assert origins(found) == ["block.experts"]


@pytest.mark.parametrize("turned", [False, True])
def test_boundary_drawn_elsewhere_is_no_divergence(tmp_path: Path, *, turned: bool) -> None:
    models = Net(), Net(fused=True, outside=True)

    found = compared(tmp_path, *(models[::-1] if turned else models))

    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())


@pytest.mark.parametrize("wrong", [0, 1])
def test_settings_are_those_of_the_module_that_the_partner_calls(
    wrong: int, tmp_path: Path
) -> None:
    modes = [number == wrong for number in range(2)]

    found = compared(tmp_path, Pools(), Pools(modules=2, ceil_mode=modes), inputs=IMAGE)

    first = found.origins[0]
    assert first.evidence[0] == "attribute ceil_mode: False on the reference, True on the candidate"
