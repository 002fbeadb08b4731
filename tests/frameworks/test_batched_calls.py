"""A tower that runs once over a whole batch against one that runs for each part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FRAMES = torch.tensor(np.random.default_rng(3).standard_normal((2, 3, 3, 8, 8)))
WIDTH = 6


class _Tower(nn.Module):
    def __init__(self, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, WIDTH, 3), nn.GroupNorm(2, WIDTH, eps=eps)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.act(self.norm(self.conv(x))).mean((2, 3))
        return made


class _Net(nn.Module):
    """Look at the frames of a clip, and then at what comes of them one after the other."""

    def __init__(
        self, look: Callable[[_Tower, torch.Tensor], torch.Tensor], *, eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.look, self.tower = look, _Tower(eps=eps)
        self.rnn, self.head = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.rnn(self.look(self.tower, x))[0])
        return made


def in_turns(tower: _Tower, x: torch.Tensor) -> torch.Tensor:
    """Run once: the frames of the first clip, those of the second."""
    made: torch.Tensor = tower(x.flatten(0, 1))
    return made.reshape(*x.shape[:2], WIDTH)


def in_blocks(tower: _Tower, x: torch.Tensor) -> torch.Tensor:
    """Run once: the last frames of all clips first."""
    frames = x.flip(1).transpose(0, 1).flatten(0, 1)
    made: torch.Tensor = tower(frames)
    return made.reshape(x.shape[1], -1, WIDTH).transpose(0, 1).flip(1)


def each(tower: _Tower, x: torch.Tensor) -> torch.Tensor:
    """Run for each frame."""
    return torch.stack([tower(frame) for frame in x.unbind(1)], 1)


def each_turned(tower: _Tower, x: torch.Tensor) -> torch.Tensor:
    """Run for each frame, and hand on what comes of them the last first."""
    return torch.stack([tower(frame) for frame in x.unbind(1)][::-1], 1)


def compared(tmp_path: Path, known: _Net, found: _Net) -> Comparison:
    torch.manual_seed(1)
    for parameter in known.parameters():
        nn.init.normal_(parameter, std=0.4)
    found.load_state_dict(known.state_dict())
    for name, model in (("known", known), ("found", found)):
        model.double()
        with record(model, name=name, out=tmp_path):
            (model(FRAMES.clone().requires_grad_()) ** 2).sum().backward()
    return compare(tmp_path / "known", tmp_path / "found", CompareSettings(atol=1e-6))


def named(result: Comparison) -> list[str]:
    return [one.pair.reference.address.module for one in result.origins if one.pair.reference]


@pytest.mark.parametrize("whole", [in_turns, in_blocks])
@pytest.mark.parametrize("turned", [False, True])
def test_one_call_agrees_with_those_for_its_parts(
    tmp_path: Path, whole: Callable[[_Tower, torch.Tensor], torch.Tensor], *, turned: bool
) -> None:
    models = _Net(whole), _Net(each)

    result = compared(tmp_path, *(models[::-1] if turned else models))

    assert result.verdict is Verdict.MATCH, result.reasons
    (step,) = result.steps
    assert min(step.coverage_reference.fraction, step.coverage_candidate.fraction) == 1
    rules = {pair.layout for pair in step.pairs if "take 2" in pair.layout}
    assert bool(rules) is not turned


@pytest.mark.parametrize("turned", [False, True])
def test_a_layer_that_is_wrong_in_the_parts_is_named(tmp_path: Path, *, turned: bool) -> None:
    models = _Net(in_turns), _Net(each, eps=0.1)

    result = compared(tmp_path, *(models[::-1] if turned else models))

    assert named(result) == ["tower.norm"]


def test_parts_that_are_handed_on_in_another_order_are_named_at_the_code_that_joins_them(
    tmp_path: Path,
) -> None:
    result = compared(tmp_path, _Net(in_turns), _Net(each_turned))

    assert named(result) == [""]
    assert any("rnn input[0]" in line for line in result.origins[0].evidence)


class _Residual(nn.Module):
    """Add what is made of all rows, or of the first ones alone, to all; the same layer acts."""

    def __init__(self, *, is_part: bool) -> None:
        super().__init__()
        self.is_part = is_part
        self.body, self.act = nn.Linear(WIDTH, WIDTH), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.body(x)
        added: torch.Tensor = self.act(x + self.act(made[0] if self.is_part else made))
        return added


def test_a_layer_that_acts_on_a_part_and_then_on_all_is_compared(tmp_path: Path) -> None:
    x = torch.randn(2, 3, WIDTH, generator=torch.Generator().manual_seed(1))
    paths: list[Path] = []
    for name in ("reference", "candidate"):
        torch.manual_seed(0)
        model = _Residual(is_part=name == "candidate")
        with record(model, name=name, out=tmp_path) as recorder:
            model(x).square().sum().backward()
        assert recorder.path is not None
        paths.append(recorder.path)

    assert compare(paths[0], paths[1]).verdict is Verdict.DIVERGED
