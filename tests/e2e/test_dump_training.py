"""Training from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import Phase, Role, open_dump
from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
import torch

def build():
    return torch.nn.Linear(3, 2)

def adam(model, lr=0.1):
    return torch.optim.Adam(model.parameters(), lr)

def by_hand(parameters):
    def update():
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.5 * parameter.grad
    return update

def nothing(parameters):
    return 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    random = np.random.default_rng(0)
    for step in range(3):
        np.save(tmp_path / f"x{step}.npy", random.standard_normal((4, 3)).astype(np.float32))
        np.save(tmp_path / f"y{step}.npy", random.integers(0, 2, 4))
    return tmp_path


def dump(folder: Path, *words: str) -> tuple[int, str]:
    done = run_padiff(
        "dump", "--model", "net.py:build", "--inputs", "x{step}.npy", "--name", "m", *words,
        cwd=folder,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_steps_take_their_own_batches_and_update_the_weights(folder: Path) -> None:
    code, told = dump(
        folder, "--steps", "3", "--record-steps", "0,2", "--label", "y{step}.npy",
        "--loss", "torch.nn:CrossEntropyLoss", "--optimizer", "net.py:adam",
        "--optimizer-arg", "lr=0.01",
        "--lr-scheduler", "torch.optim.lr_scheduler:StepLR", "--lr-scheduler-arg", "step_size=1",
        "--clip-grad-norm", "0.1",
    )  # fmt: skip

    assert code == 0, told
    opened = open_dump(folder / "padiff_dump" / "m")
    assert [info.step for info in opened.files] == [0, 2]
    assert opened.manifest.phase is Phase.UPDATE
    with opened.open(2, 0) as step:
        records = {f"{item.phase} {item.role}{item.slot}": item for item in step.index.records}
        x = step.array(records["forward input[0]"])
        label = step.array(records["forward named['label[0]']"])
        rate = float(step.array(records["update lr"]))
        clipped = [step.array(records[f"update weight_grad.{name}"]) for name in ("weight", "bias")]
    assert np.array_equal(x, np.load(folder / "x2.npy"))
    assert np.array_equal(label, np.load(folder / "y2.npy"))
    assert rate == pytest.approx(0.01 * 0.1**2)
    assert np.sqrt(sum((part**2).sum() for part in clipped)) == pytest.approx(0.1, rel=1e-4)


def test_function_may_change_the_weights_itself(folder: Path) -> None:
    code, told = dump(folder, "--steps", "2", "--optimizer", "net.py:by_hand")

    assert code == 0, told
    with open_dump(folder / "padiff_dump" / "m").open(0, 0) as step:
        weights = {
            item.phase: step.array(item).copy()
            for item in step.index.records
            if item.role is Role.WEIGHT and item.slot == ".weight"
        }
        gradient = next(
            step.array(item).copy()
            for item in step.index.records
            if item.role is Role.WEIGHT_GRAD and item.slot == ".weight"
        )
    expected = weights[Phase.FORWARD] - np.float32(0.5) * gradient
    assert np.allclose(weights[Phase.UPDATE], expected, atol=1e-7)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--label", "y0.npy"], "cannot use --label without --loss"),
        (["--lr-scheduler", "net.py:adam"], "cannot use --lr-scheduler without --optimizer"),
        (["--optimizer", "net.py:nothing"], "it returned builtins.int"),
        (["--optimizer", "net.py:adan"], "did you mean 'adam'"),
        (["--loss-arg", "a=1"], "cannot pass arguments to the loss"),
        (["--record-steps", "0,x"], "cannot read the steps"),
        (["--steps", "2", "--record-steps", "5"], "cannot record step 5"),
        (["--optimizer", "net.py:adam", "--phase", "forward"], "with --phase forward"),
    ],
)
def test_options_that_make_no_sense_are_trouble(folder: Path, words: list[str], told: str) -> None:
    code, said = dump(folder, *words)

    assert code == 2
    assert told in said
    assert not (folder / "padiff_dump" / "m").exists()
