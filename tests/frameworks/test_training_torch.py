"""Recording training scripts: what only torch has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import padiff
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness, audit_dump
from padiff.dumpfile import Phase, Role, open_dump
from tests.support.recording import Recorded
from tests.support.torch_lab import TorchLab

if TYPE_CHECKING:
    from pathlib import Path


def scaled_step(
    tmp_path: Path, scale: float, *, overflow: bool = False, fused: bool = False
) -> Path:
    lab = TorchLab()
    torch.manual_seed(0)
    model = lab.module(lambda self, x: self.f(x), f=torch.nn.Linear(3, 2))
    optimizer: torch.optim.Optimizer = lab.optimizer(model, rate=0.1)
    if fused:
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    with padiff.record(model, name=f"scale_{scale}", out=tmp_path, optimizer=optimizer) as recorder:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.ones(4, 3)).float().mean()
        scaler.scale(loss).backward()
        if overflow:
            model.f.weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        recorder.step(loss=loss)
    return recorder.path


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_are_recorded_unscaled(tmp_path: Path, fused: bool) -> None:
    one, two = (Recorded.read(scaled_step(tmp_path, scale, fused=fused)) for scale in (1.0, 1024.0))

    for slot in (".weight", ".bias"):
        gradients = [got.array(Role.WEIGHT_GRAD, "f", slot) for got in (one, two)]
        assert np.array_equal(gradients[0], gradients[1])


def test_an_update_takes_gradients_as_the_scaler_leaves_them(tmp_path: Path) -> None:
    """Torch does not count that it writes into them."""
    one, two = (scaled_step(tmp_path, scale) for scale in (1.0, 1024.0))

    (audited,) = audit_dump(two).values()
    assert audited.soundness is Soundness.SOUND
    assert padiff.compare(one, two).verdict is Verdict.MATCH


def test_step_that_the_scaler_skips_has_no_update(tmp_path: Path) -> None:
    path = scaled_step(tmp_path, 2.0, overflow=True)

    manifest = open_dump(path).manifest
    assert manifest.phase is Phase.BACKWARD
    assert any("the optimizer changed nothing" in note for note in manifest.notes)
