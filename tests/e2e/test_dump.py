"""``padiff dump`` as users run it, each framework without the other."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import open_dump
from tests.support.command import command, environment_for, run_padiff

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
import time
import torch
from torch import nn
Base = nn.Module
is_deterministic = torch.are_deterministic_algorithms_enabled
"""
PADDLE = """
import time
import paddle
from paddle import nn
Base = nn.Layer
is_deterministic = None  # only builds with CUDA have such flags
"""
MODELS = """
class Net(Base):
    def __init__(self, width=3):
        super().__init__()
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 2)

    def forward(self, x):
        return self.second(self.first(x))

class Deterministic(Net):
    def forward(self, x):
        print("deterministic:", is_deterministic(), flush=True)
        return super().forward(x)

class Slow(Net):
    def forward(self, x):
        print("ready", flush=True)
        time.sleep(60)

def raises():
    raise KeyError("weights.bin")
"""
OTHER = {"torch": "paddle", "paddle": "torch"}


@pytest.fixture(params=["torch", "paddle"])
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def folder(tmp_path: Path, framework: str) -> Path:
    """Make a folder with a model file of each framework in turn, and inputs."""
    return fill(tmp_path, framework)


@pytest.fixture
def any_folder(tmp_path: Path) -> Path:
    """Make the same for what does not depend on the framework, of the one that imports faster."""
    return fill(tmp_path, "paddle")


def fill(tmp_path: Path, framework: str) -> Path:
    (tmp_path / "net.py").write_text({"torch": TORCH, "paddle": PADDLE}[framework] + MODELS)
    np.save(tmp_path / "x.npy", np.ones((2, 4)))
    return tmp_path


def test_dump_needs_only_its_own_framework_and_says_where_it_is(
    folder: Path, framework: str
) -> None:
    done = run_padiff(
        "dump", "--model", "net.py:Net", "--inputs", "x.npy", cwd=folder, blocked=[OTHER[framework]]
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("dump at padiff_dump/Net: 3 calls, ")
    assert "records" in last
    assert "\r" not in done.stderr
    assert run_padiff("check", "--deep", "padiff_dump/Net", cwd=folder).returncode == 0


def test_a_packed_dump_gives_inputs_weights_and_outputs_to_hand_on(folder: Path) -> None:
    again = ["dump", "--model", "net.py:Net", "--out", "dumps"]
    first = run_padiff(*again, "--inputs", "x.npy", "--name", "first", "--seed", "1", cwd=folder)
    packed = run_padiff("pack", "dumps/first", "-o", "first.padiff.zip", cwd=folder)
    shutil.rmtree(folder / "dumps" / "first")
    sources = ["--inputs-from", "first.padiff.zip", "--weights-from", "first.padiff.zip"]
    loaded = run_padiff(*again, *sources, "--name", "loaded", "--seed", "2", cwd=folder)
    fed = run_padiff(
        *again, "--feed", "first.padiff.zip", "--name", "fed", "--seed", "2", cwd=folder
    )

    assert [one.returncode for one in (first, packed, loaded, fed)] == [0] * 4, fed.stderr
    matched = run_padiff("compare", "first.padiff.zip", "dumps/loaded", cwd=folder)
    assert matched.returncode == 0, matched.stdout
    known, found = (open_dump(folder / "dumps" / name).manifest for name in ("loaded", "fed"))
    assert [one.digest for one in known.inputs] == [one.digest for one in found.inputs]
    feed = found.settings["feed"]
    assert isinstance(feed, dict)
    assert (feed["reference"], feed["outputs"]) == ("first", 3)


def test_missing_framework_names_the_extra(folder: Path, framework: str) -> None:
    done = run_padiff(
        "dump", "--model", "net.py:Net", "--inputs", "x.npy", cwd=folder, blocked=[framework]
    )

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"hint: pip install 'padiff-align[{framework}]'"


def test_users_traceback_starts_in_the_users_code(any_folder: Path) -> None:
    done = run_padiff("dump", "--model", "net.py:raises", cwd=any_folder)

    lines = done.stderr[done.stderr.index("Traceback") :].splitlines()
    assert "net.py" in lines[1]
    assert "dumper" not in done.stderr


def test_progress_is_drawn_on_a_terminal_alone(any_folder: Path) -> None:
    (any_folder / "net.py").write_text(
        (any_folder / "net.py").read_text().replace("time.sleep(60)", "time.sleep(1); return x")
    )
    main, terminal = pty.openpty()
    words = command("dump", "--model", "net.py:Slow", "--inputs", "x.npy", "--phase", "forward")
    with subprocess.Popen(
        words,
        cwd=any_folder,
        env=environment_for(any_folder, added={"TERM": "xterm"}),
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        seen = b""
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            try:
                seen += os.read(main, 4096)
            except OSError:  # the other end is closed
                break
    os.close(main)

    assert process.returncode == 0, seen
    assert b"forward: 1 calls" in seen
    assert b"dump at padiff_dump/Slow" in seen


@pytest.mark.parametrize(("words", "expected"), [((), False), (("--seed", "3"), True)])
def test_a_seed_that_is_given_asks_for_deterministic_kernels(
    tmp_path: Path, words: tuple[str, ...], expected: bool
) -> None:
    folder = fill(tmp_path, "torch")
    model = "--model", "net.py:Deterministic", "--framework", "torch"

    done = run_padiff("dump", *model, "--inputs", "x.npy", *words, cwd=folder)

    assert f"deterministic: {expected}" in done.stdout + done.stderr
