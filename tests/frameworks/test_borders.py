"""The same network with its borders elsewhere: padding, batches, steps, an activation behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Kind, Verdict, compare

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, STEPS = 6, 5
X = torch.tensor(np.random.default_rng(2).standard_normal((2, WIDTH, 9)), dtype=torch.float32)


class _Causal(nn.Module):
    """Pad on both sides and cut what is too long, or pad in front."""

    def __init__(self, *, is_other: bool, fault: str = "") -> None:
        super().__init__()
        self.first = nn.Conv1d(WIDTH, WIDTH, 1)
        self.conv = nn.Conv1d(WIDTH, WIDTH, 4, padding=0 if is_other else 3, groups=WIDTH)
        self.last = nn.Conv1d(WIDTH, WIDTH, 1)
        self.is_other, self.fault = is_other, fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if self.fault == "first":
            x = x * 1.1
        if self.is_other:
            sides = (2, 1) if self.fault == "sides" else (3, 0)
            made = self.conv(functional.pad(x, sides))
        else:
            made = self.conv(x)[..., : x.shape[-1]]
        found: torch.Tensor = self.last(torch.tanh(made))
        return found


class _Twins(nn.Module):
    """Two inputs as one batch, or one after the other."""

    def __init__(self, *, is_other: bool, fault: str = "") -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Conv1d(WIDTH, 4, 3), nn.GELU(), nn.Conv1d(4, 4, 3))
        self.head = nn.Linear(5, 2)
        self.is_other, self.fault = is_other, fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two = 2 * x, x.flip(-1)
        if self.is_other:
            right, left = self.tower(two), self.tower(one)  # in another order than the batch has
            if self.fault == "second":
                right = right.detach()
        else:
            left, right = self.tower(torch.cat([one, two])).chunk(2)
        found: torch.Tensor = self.head((left - right).abs())
        return found


class _Loop(nn.Module):
    """All frames go through the prenet at once, one more than is used, or one in each step."""

    def __init__(self, *, is_other: bool, fault: str = "") -> None:
        super().__init__()
        self.prenet, self.cell = nn.Linear(WIDTH, 4), nn.GRUCell(4, 4)
        self.is_other, self.fault = is_other, fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames = x.permute(2, 0, 1)[: STEPS + 1]
        ready = None if self.is_other else torch.relu(self.prenet(frames))
        state, given = x.new_zeros(x.shape[0], 4), x.new_zeros(x.shape[0], 4)
        for step in range(STEPS):
            given = torch.relu(self.prenet(frames[step])) if ready is None else ready[step]
            state = self.cell(given[:, [1, 0, 2, 3]] if self.fault == "turned" else given, state)
        return state


class _Block(nn.Module):
    def __init__(self, *, is_inside: bool) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm1d(WIDTH)
        self.is_inside = is_inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.norm(self.conv(x))
        found: torch.Tensor = torch.relu(made) if self.is_inside else made
        return found


class _Behind(nn.Module):
    """The activation is in the block, or behind it, and then the axes are exchanged."""

    def __init__(self, *, is_other: bool, fault: str = "") -> None:
        super().__init__()
        self.block, self.rnn = _Block(is_inside=is_other), nn.GRU(WIDTH, 4, batch_first=True)
        self.is_other, self.fault = is_other, fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.block(x)
        if not self.is_other and self.fault != "lost":
            made = torch.relu(made)
        found: torch.Tensor = self.rnn(made.transpose(1, 2))[0]
        return found


NETS = (_Causal, _Twins, _Loop, _Behind)


def compared(
    tmp_path: Path, net: type[nn.Module], *, turned: bool = False, fault: str = ""
) -> Comparison:
    torch.manual_seed(1)
    one, two = (net(is_other=is_other).eval() for is_other in (False, True))
    if fault:
        is_first = fault == "lost"
        wrong = net(is_other=not is_first, fault=fault).eval()
        one, two = (wrong, two) if is_first else (one, wrong)
    two.load_state_dict(one.state_dict())
    models = (two, one) if turned else (one, two)
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with record(model, name=name, out=tmp_path):
            (model(X.clone().requires_grad_()) ** 2).sum().backward()
    return compare(tmp_path / "reference", tmp_path / "candidate", CompareSettings(atol=1e-5))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("net", NETS)
def test_other_borders_are_no_divergence(
    tmp_path: Path, net: type[nn.Module], *, turned: bool
) -> None:
    result = compared(tmp_path, net, turned=turned)

    assert result.verdict is Verdict.MATCH, result.reasons
    step = result.steps[0]
    assert min(step.coverage_reference.fraction, step.coverage_candidate.fraction) > 0.9


@pytest.mark.parametrize(
    ("net", "fault", "place"),
    [
        (_Causal, "first", ""),
        (_Causal, "sides", "conv"),
        (_Loop, "turned", ""),
        (_Behind, "lost", "block"),
    ],
)
def test_a_fault_there_is_named_and_nothing_else(
    tmp_path: Path, net: type[nn.Module], fault: str, place: str
) -> None:
    result = compared(tmp_path, net, fault=fault)

    named = [
        one.pair.reference.address.module
        for one in result.origins
        if one.kind is Kind.ORIGIN and one.pair.reference
    ]
    assert named == [place]


def test_a_lost_gradient_of_one_of_two_inputs_is_found(tmp_path: Path) -> None:
    assert compared(tmp_path, _Twins, fault="second").verdict is Verdict.DIVERGED
