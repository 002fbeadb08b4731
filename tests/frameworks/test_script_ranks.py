"""``padiff dump --script`` under launchers: two gloo processes, one dump."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import Phase, Role, open_dump
from tests.support.command import environment_for
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

assert sys.argv[1:] == ["--steps", "2"]
dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for step in range(2):
    x = torch.full((2, 3), float(dist.get_rank() + step + 1))
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == FAILS and step == 1:
        raise ValueError("on one rank")
dist.destroy_process_group()
"""
PADDLE = """
import sys
import paddle
import paddle.distributed as dist

assert sys.argv[1:] == ["--steps", "2"]
dist.init_parallel_env()
paddle.seed(0)
net = paddle.nn.Sequential(paddle.nn.Linear(3, 4), paddle.nn.ReLU(), paddle.nn.Linear(4, 2))
model = paddle.DataParallel(net)
optimizer = paddle.optimizer.Momentum(0.1, parameters=model.parameters())
for step in range(2):
    x = paddle.full([2, 3], float(dist.get_rank() + step + 1))
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    assert not (dist.get_rank() == FAILS and step == 1)
"""
START = "import sys\n\nfrom padiff.cli.main import main\n\nsys.exit(main())\n"
LAUNCH = {
    "torch": (TORCH, ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]),
    "paddle": (
        PADDLE,
        ["paddle.distributed.launch", "--nproc_per_node", "2", "--backend", "gloo"],
    ),
}


def launch(folder: Path, framework: str, *, fails: int = -1) -> tuple[int, str]:
    """Run the script on two ranks; gives the status and what all ranks said."""
    script, words = LAUNCH[framework]
    (folder / "train.py").write_text(script.replace("FAILS", str(fails)))
    (folder / "start.py").write_text(START)
    command = [sys.executable, "-m", *words, "start.py", "dump", "--script", "train.py"]
    command += ["--name", "ddp", "--rank-wait", "20", "--", "--steps", "2"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment_for(folder),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    logs = "".join(path.read_text() for path in folder.glob("log/workerlog.*"))
    # Paddle's launcher repeats what rank 0 says.
    return done.returncode, logs or done.stdout + done.stderr


@pytest.mark.parametrize("framework", LAUNCH)
def test_script_on_two_ranks_makes_one_dump_and_one_line(tmp_path: Path, framework: str) -> None:
    status, said = launch(tmp_path, framework)

    assert status == 0, said
    path = tmp_path / "padiff_dump" / "ddp"
    dump = open_dump(path)
    assert [(info.step, info.rank) for info in dump.files] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert not dump.problems()
    assert dump.manifest.phase is Phase.UPDATE
    assert dump.manifest.model_class.endswith("Sequential")
    assert said.count("dump at ") == 1
    assert Recorded.read(path).calls()[:2] == ["#0", "0#0"]
    grads = []
    for rank in (0, 1):
        with dump.open(0, rank) as file:
            found = [one for one in file.index.records if one.role is Role.WEIGHT_GRAD]
            grads.append([file.array(one).copy() for one in found])
    for one, two in zip(*grads, strict=True):  # reduced
        np.testing.assert_array_equal(one, two)


def test_rank_that_fails_makes_all_say_so(tmp_path: Path) -> None:
    status, said = launch(tmp_path, "torch", fails=1)

    assert status != 0
    assert "ValueError: on one rank" in said
    assert not (tmp_path / "padiff_dump" / "ddp").exists()
    assert "dump at " not in said
