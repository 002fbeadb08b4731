"""What is left on model and framework in steps that are not recorded: next to nothing."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.dumpfile import open_dump
from tests.support.paddle_lab import PaddleLab
from tests.support.scripts import FRAMEWORKS, recorded, script
from tests.support.torch_lab import TorchLab

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recording import Lab

ONES = np.ones((4, 3), np.float32)
LABS: dict[str, Lab] = {"torch": TorchLab(), "paddle": PaddleLab()}


def functions() -> list[object]:
    """Give everything of the frameworks that a recording may replace."""
    return [
        torch.nn.Module.__call__,
        torch.autograd.backward,
        torch.amp.GradScaler.step,
        torch.amp.GradScaler.scale,
        paddle.nn.Layer.__call__,
        paddle.Tensor.backward,
        paddle.autograd.backward,
        paddle.base.core.eager.run_backward,
        paddle.optimizer.Optimizer.__init__,
        paddle.optimizer.Momentum.step,
        paddle.amp.GradScaler.step,
        paddle.jit.dy2static.program_translator.ProgramTranslator().enable_to_static,
    ]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_recorder_leaves_no_hook_and_no_patch(tmp_path: Path, framework: str) -> None:
    lab = LABS[framework]
    model = lab.module(lambda self, x: self.a(x), a=lab.nn.Linear(3, 2))
    optimizer = lab.optimizer(model, rate=0.1)
    hooked, before = [], functions()

    with padiff.record(
        model, name="m", out=tmp_path, optimizer=optimizer, steps=[0, 3]
    ) as recorder:
        for step in range(5):
            if step not in (0, 3):
                assert functions() == before
                assert vars(optimizer).keys() & {"step", "minimize"} == set()
            hooked.append(lab.has_hooks(model))
            lab.mean(model(lab.tensor(ONES))).backward()
            optimizer.step()
            recorder.step()

    assert hooked == [True, False, False, True, False]
    assert functions() == before


CALL = {"torch": "torch.nn.Module.__call__", "paddle": "paddle.nn.Layer.__call__"}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_script_has_a_patch_on_its_models_class_alone(tmp_path: Path, framework: str) -> None:
    seen = tmp_path / "seen"
    body = f"""
model = Net()
optimizer = sgd(model)
for step in range(4):
    model(ones(4, 3)).mean().backward()
    optimizer.step()
    clear(optimizer)
    note({str(seen)!r}, f"{{hasattr({CALL[framework]}, '__wrapped__')}} ")
patched = [name for name in ("__call__", "forward") if hasattr(getattr(Net, name), "__wrapped__")]
note({str(seen)!r}, str(patched))
"""

    path = recorded(script(tmp_path, framework, body), steps=(0,))

    assert [info.step for info in open_dump(path).files] == [0]
    assert seen.read_text() == "False False False False ['__call__']"


def test_collector_is_slowed_only_while_a_step_is_recorded(tmp_path: Path) -> None:
    lab = LABS["torch"]
    model = lab.module(lambda self, x: self.a(x), a=lab.nn.Linear(3, 2))
    usual = gc.get_threshold()
    thresholds: list[tuple[int, int, int]] = []

    with padiff.record(model, name="one", out=tmp_path, steps=[0, 2]) as recorder:
        for _ in range(4):
            lab.mean(model(lab.tensor(ONES))).backward()
            thresholds.append(gc.get_threshold())
            recorder.step()

    slowed = (10 * usual[0], *usual[1:])
    assert thresholds == [slowed, usual, slowed, usual]
    assert gc.get_threshold() == usual


def test_thresholds_that_the_program_sets_meanwhile_stay(tmp_path: Path) -> None:
    lab = LABS["torch"]
    model = lab.module(lambda self, x: self.a(x), a=lab.nn.Linear(3, 2))
    usual = gc.get_threshold()

    try:
        with padiff.record(model, name="one", out=tmp_path):
            lab.mean(model(lab.tensor(ONES))).backward()
            gc.set_threshold(1234, 5, 6)
        found = gc.get_threshold()
    finally:
        gc.set_threshold(*usual)

    assert found == (1234, 5, 6)
