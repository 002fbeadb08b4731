"""Several processes of one run, each of which records its rank into one dump."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumper.ranks import Ranks, ranks_of
from padiff.dumpfile import DumpNotFoundError, open_dump

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
import os, sys, torch, padiff
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with padiff.record(model, name="m", out=sys.argv[1], optimizer=optimizer) as recorder:
    for step in range(2):
        x = torch.full((2, 3), float(rank + step + 1))
        if sys.argv[2] == str(rank):
            x += 1
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        recorder.step()
        if sys.argv[3] == str(rank):
            os._exit(9)
print(recorder.path)
dist.destroy_process_group()
"""
PADDLE = """
import os, sys, paddle, padiff
rank = int(os.environ["PADDLE_TRAINER_ID"])
paddle.seed(0)
model = paddle.nn.Linear(3, 2)
with padiff.record(model, name="m", out=sys.argv[1]) as recorder:
    model(paddle.full([2, 3], float(rank + 1))).mean().backward()
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def launch(
    folder: Path, script: str, out: str, *, other: int = -1, killed: int = -1, wait_s: float = 60.0
) -> list[int]:
    """Run two ranks and give their exit codes."""
    (folder / "script.py").write_text(script)
    port = str(free_port())
    processes = []
    for rank in range(2):
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "PADIFF_RANK_WAIT_S": str(wait_s),
        }
        names = ("RANK", "WORLD_SIZE")
        if script is PADDLE:
            names = ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM")
        environment |= dict(zip(names, (str(rank), "2"), strict=True))
        words = [sys.executable, "script.py", out, str(other), str(killed)]
        processes.append(
            subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        )
    for process in processes:
        _, told = process.communicate(timeout=200)
        print(told)  # seen only if the test fails
    return [process.returncode for process in processes]


@pytest.mark.parametrize("script", [TORCH, PADDLE], ids=["torch", "paddle"])
def test_all_ranks_are_in_one_dump(tmp_path: Path, script: str) -> None:
    assert launch(tmp_path, script, "dumps") == [0, 0]

    dump = open_dump(tmp_path / "dumps" / "m")
    assert {info.rank for info in dump.files} == {0, 1}
    assert not list(dump.problems())
    assert [path.name for path in (tmp_path / "dumps").iterdir() if path.is_dir()] == ["m"]


def test_first_diverging_step_and_rank_come_first(tmp_path: Path) -> None:
    assert launch(tmp_path, TORCH, "a") == [0, 0]
    assert launch(tmp_path, TORCH, "b", other=1) == [0, 0]

    comparison = compare(tmp_path / "a" / "m", tmp_path / "b" / "m", CompareSettings())

    first = comparison.first_divergence
    assert comparison.verdict is Verdict.DIVERGED
    assert first is not None
    assert first.pair.reference is not None
    places = [(step.step, step.rank) for step in comparison.steps]
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_lost_rank_leaves_no_dump(tmp_path: Path) -> None:
    script = PADDLE.replace("with padiff", "if rank == 1: os._exit(9)\nwith padiff")

    codes = launch_lost(tmp_path, script)

    assert codes == [1, 9]
    with pytest.raises(DumpNotFoundError):
        open_dump(tmp_path / "lost" / "m")


def launch_lost(folder: Path, script: str) -> list[int]:
    """Run two ranks by Paddle's variables, with a short wait."""
    (folder / "lost.py").write_text(script)
    codes = []
    for rank in (1, 0):
        environment = os.environ | {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": "2",
            "PADIFF_RANK_WAIT_S": "0.5",
        }
        done = subprocess.run(
            [sys.executable, "lost.py", "lost"],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
        )
        codes.append(done.returncode)
    return codes[::-1]


def test_rank_is_read_from_what_launchers_set() -> None:
    assert ranks_of({}) == Ranks()
    assert ranks_of({"RANK": "0", "WORLD_SIZE": "1"}).count == 1
    found = ranks_of({"PADDLE_TRAINER_ID": "3", "PADDLE_TRAINERS_NUM": "8"})
    assert (found.rank, found.count) == (3, 8)
