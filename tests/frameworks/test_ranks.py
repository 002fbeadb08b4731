"""Several processes of one run, under the launchers of both frameworks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumpfile import Role, open_dump
from tests.support.command import environment_for

ROOT = Path(__file__).parents[2]
TORCH = """
import os, sys, torch, padiff
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()

def train(name, *, shared=True, moved=0.0):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    model = torch.nn.parallel.DistributedDataParallel(model) if shared else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with padiff.record(model, name=name, out="dumps", optimizer=optimizer) as recorder:
        for step in range(3):
            x = torch.full((2, 3), float(rank + step + 1))
            if rank == 1 and step == 1:
                x += moved
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()
    assert padiff.open_dump(recorder.path).files  # whole, on every rank

train("right")
train("wrong", moved=1.0)
train("unshared", shared=False)
dist.destroy_process_group()
"""
PADDLE = """
import paddle, padiff
import paddle.distributed as dist
dist.init_parallel_env()
paddle.seed(0)
model = paddle.DataParallel(paddle.nn.Linear(3, 2))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
with padiff.record(model, name="right", out="dumps", optimizer=optimizer) as recorder:
    for step in range(2):
        x = paddle.full([2, 3], float(dist.get_rank() + step + 1))
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()
        recorder.step()
assert padiff.open_dump(recorder.path).files
"""
LAUNCH = {
    "torch": (TORCH, ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]),
    "paddle": (
        PADDLE,
        ["paddle.distributed.launch", "--nproc_per_node", "2", "--backend", "gloo"],
    ),
}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run two gloo processes under each framework's launcher; gives the folders of their dumps."""
    return {
        framework: launch(framework, tmp_path_factory.mktemp(framework)) for framework in LAUNCH
    }


def launch(framework: str, folder: Path) -> Path:
    script, words = LAUNCH[framework]
    (folder / "train.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", *words, "train.py"],
        cwd=folder,
        env=environment_for(folder),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    logs = "".join(path.read_text() for path in folder.glob("log/workerlog.*"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return folder / "dumps"


def arrays(dump: Path, role: Role, step: int, rank: int) -> list[np.ndarray[Any, Any]]:
    with open_dump(dump).open(step, rank) as file:
        records = [one for one in file.index.records if one.role is role and one.value is not None]
        return [file.array(one).copy() for one in records]


@pytest.mark.parametrize("framework", LAUNCH)
def test_all_ranks_are_in_one_dump(dumps: dict[str, Path], framework: str) -> None:
    dump = open_dump(dumps[framework] / "right")

    steps = sorted({info.step for info in dump.files})
    assert [(info.step, info.rank) for info in dump.files] == [
        (step, rank) for step in steps for rank in (0, 1)
    ]
    assert not dump.problems()
    assert dump.manifest.settings["ranks"] == 2
    assert not list(dumps[framework].glob(".*"))


@pytest.mark.parametrize("framework", LAUNCH)
def test_gradients_differ_by_rank_until_they_are_reduced(
    dumps: dict[str, Path], framework: str
) -> None:
    dump = dumps[framework] / "right"

    before = [arrays(dump, Role.GRAD_OUTPUT, 0, rank) for rank in (0, 1)]
    after = [arrays(dump, Role.WEIGHT_GRAD, 0, rank) for rank in (0, 1)]

    assert len(before[0]) == len(before[1]) == 1
    assert not np.array_equal(before[0][0], before[1][0])
    assert len(after[0]) == len(after[1]) == 2
    for one, two in zip(*after, strict=True):
        np.testing.assert_array_equal(one, two)


def test_gradients_of_an_unshared_model_stay_different(dumps: dict[str, Path]) -> None:
    after = [arrays(dumps["torch"] / "unshared", Role.WEIGHT_GRAD, 0, rank) for rank in (0, 1)]

    assert not np.array_equal(after[0][0], after[1][0])


def test_first_diverging_step_and_rank_come_first(dumps: dict[str, Path]) -> None:
    found = compare(dumps["torch"] / "right", dumps["torch"] / "wrong", CompareSettings())

    first = found.first_divergence
    assert found.verdict is Verdict.DIVERGED
    assert first is not None
    assert first.pair.reference is not None
    assert (first.pair.reference.address.step, first.pair.reference.address.rank) == (1, 1)
    ends = [origin.pair.reference for origin in found.origins]
    assert {end.address.rank for end in ends if end is not None} == {1}
    assert [(step.step, step.rank) for step in found.steps] == [
        (step, rank) for step in range(3) for rank in (0, 1)
    ]


def trials(folder: Path, *options: str) -> dict[str, int]:
    """Run kills in a process of their own; gives how often a reader found which state."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.rank_trials", str(folder), *options],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_killed_run_never_reads_as_complete(tmp_path: Path) -> None:
    states = trials(tmp_path, "--by-moment", "24", "--by-time", "6")

    assert sum(states.values()) == 30
    assert states["none"] + states.get("incomplete", 0) >= 10  # kills do hit recordings


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_hundreds_of_killed_runs_never_read_as_complete(tmp_path: Path, seed: str) -> None:
    states = trials(tmp_path, "--seed", seed, "--by-moment", "150", "--by-time", "100")

    assert sum(states.values()) == 250
    assert states["none"] + states.get("incomplete", 0) >= 80
    assert states["complete"] >= 5  # some kills come too late
