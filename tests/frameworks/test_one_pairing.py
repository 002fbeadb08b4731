"""One pairing serves a whole run: what an update leaves alike is told apart by an earlier step."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.comparer import CompareSettings, Comparison, Verdict, compare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pytest

    Times = Callable[[int], int]
    """How often the blocks run in a step."""

Thing = Any
"""An object of the framework."""
WIDTH, BLOCKS, STEPS = 8, 3, 3
RATE = 0.001
ULP = float(np.spacing(np.float32(RATE)))
REFERENCE_LOWS = (0, 1, 2, 3)
CANDIDATE_LOWS = (1, 5, 6, 7)
"""In ulps, of each norm in the order in which they run: the candidate's first is as the
reference's second."""


class Block(nn.Module):
    """A norm that feeds two projections."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.gate = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Thing:
        y = self.norm(x)
        return x + self.up(y) * self.gate(y).sigmoid()


class Reference(nn.Module):
    """Blocks with a norm at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, times: int = 1) -> Thing:
        for _ in range(times):
            for layer in self.layers:
                x = layer(x)
        return self.norm(x)

    def norms(self) -> list[Any]:
        """Give the norms in the order in which they run."""
        return [*(layer.norm for layer in self.layers), self.norm]


class Candidate(nn.Module):
    """The same in another tree, with both projections in one."""

    def __init__(self, reference: Reference) -> None:
        super().__init__()
        self.before: Any = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(BLOCKS))
        self.both: Any = nn.ModuleList(nn.Linear(WIDTH, 2 * WIDTH) for _ in range(BLOCKS))
        self.last = nn.LayerNorm(WIDTH)
        for both, layer in zip(self.both, reference.layers, strict=True):
            parts = layer.up.state_dict(), layer.gate.state_dict()
            both.load_state_dict({name: torch.cat([p[name] for p in parts]) for name in parts[0]})

    def forward(self, x: torch.Tensor, times: int = 1) -> Thing:
        for _ in range(times):
            for norm, both in zip(self.before, self.both, strict=True):
                up, gate = both(norm(x)).chunk(2, -1)
                x = x + up * gate.sigmoid()
        return self.last(x)

    def norms(self) -> list[Any]:
        """Give the norms in the order in which they run."""
        return [*self.before, self.last]


def like_adam(norm: Thing, ulps: int) -> None:
    """Move a norm from ones and zeros by one rate up or down, as Adam's first step does."""
    moved = np.full(WIDTH, RATE, np.float32)
    moved[::3] = -RATE - ulps * ULP
    with torch.no_grad():
        norm.weight.copy_(torch.from_numpy(1 + moved))
        norm.bias.copy_(torch.from_numpy(moved))


def train(model: Reference | Candidate, path: Path, lows: Sequence[int], times: Times) -> Path:
    """Record three steps; the first update moves all norms alike, but for some ulps."""
    x = torch.from_numpy(np.random.default_rng(3).standard_normal((5, WIDTH), np.float32))
    with padiff.record(model, name=type(model).__name__.lower(), out=path) as recorder:
        for step in range(STEPS):
            loss = model(x, times(step)).square().mean()
            loss.backward()
            recorder.update_begins()
            for norm, ulps in zip(model.norms(), lows, strict=True):
                like_adam(norm, ulps)
            recorder.step(loss=loss)
            model.zero_grad()
    return recorder.path


def trained(tmp_path: Path, times: Times = lambda _: 1) -> tuple[Path, Path]:
    """Train both sides, with weights that say after the update that others belong together."""
    torch.manual_seed(0)
    reference = Reference()
    candidate = Candidate(reference)
    return (
        train(reference, tmp_path, REFERENCE_LOWS, times),
        train(candidate, tmp_path, CANDIDATE_LOWS, times),
    )


def norm_pairs(comparison: Comparison, step: int) -> dict[str, str]:
    """Give the partners of the norms in a step."""
    found = next(one for one in comparison.steps if one.step == step)
    pairs = {pair.reference: pair.candidate for pair in found.pairing}
    return {path: pairs[path] for path in RIGHT}


RIGHT = {f"layers.{place}.norm": f"before.{place}" for place in range(BLOCKS)} | {"norm": "last"}


def test_norms_that_an_update_made_alike_keep_the_partners_of_the_first_step(
    tmp_path: Path,
) -> None:
    comparison = compare(*trained(tmp_path), CompareSettings(execute=False))

    assert [norm_pairs(comparison, step) for step in range(STEPS)] == [RIGHT] * STEPS
    assert comparison.verdict is Verdict.MATCH, comparison.reasons


def test_step_that_would_pair_otherwise_is_told(tmp_path: Path) -> None:
    comparison = compare(*trained(tmp_path), CompareSettings(execute=False))

    doubts = [[note for note in step.notes if "otherwise" in note] for step in comparison.steps]
    assert [len(step) for step in doubts] == [0, 1, 1]
    assert "'layers.1.norm' with 'before.0'" in doubts[1][0]


def test_step_that_is_compared_alone_has_the_partners_of_the_run(tmp_path: Path) -> None:
    comparison = compare(*trained(tmp_path), CompareSettings(steps=(1,), execute=False))

    assert norm_pairs(comparison, 1) == RIGHT
    assert comparison.verdict is Verdict.MATCH, comparison.reasons


def test_step_with_other_calls_is_paired_under_what_is_known(tmp_path: Path) -> None:
    paths = trained(tmp_path, times=lambda step: 2 if step == 1 else 1)

    comparison = compare(*paths, CompareSettings(execute=False))

    assert norm_pairs(comparison, 1) == RIGHT
    assert comparison.verdict is Verdict.MATCH, comparison.reasons


def test_map_of_a_later_step_has_the_partners_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, candidate = trained(tmp_path)

    assert main(["map", str(reference), str(candidate), "--step", "1"]) == 0

    entries = tomllib.loads(capsys.readouterr().out)["pair"]
    assert {"layers.{i}.norm": "before.{i}"}.items() <= {
        one["reference"]: one["candidate"] for one in entries
    }.items()
