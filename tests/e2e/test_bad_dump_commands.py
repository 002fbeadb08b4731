"""``padiff dump`` with wrong words, files and models: exit 2, one line, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from tests.support.command import command, environment_for, run_padiff

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
import os
import time
from pathlib import Path

import torch


def build(width=3):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(width, 4), torch.nn.ReLU())


def broken():
    raise RuntimeError("no such checkpoint")


def three():
    return 3


def leaving():
    raise SystemExit(0)


class Broken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)

    def forward(self, x):
        raise ValueError("forward gave up")


class Slow(Broken):
    def forward(self, x):
        self.fc(x)
        Path("running").write_text("")
        time.sleep(60)


class Large(torch.nn.Module):
    def forward(self, x):
        return torch.zeros(1 << 22) + x.sum()


number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    np.save(tmp_path / "wide.npy", np.ones((2, 7), np.float32))
    np.save(tmp_path / "object.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("hello", encoding="utf-8")
    (tmp_path / "text.padiff.zip").write_text("no archive", encoding="utf-8")
    return tmp_path


def assert_refused(done: subprocess.CompletedProcess[str], says: str) -> None:
    """Check code, streams and the last lines of stderr."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("padiff: error: ")]
    assert len(errors) == 1, done.stderr
    assert says in done.stderr
    assert "internal error" not in done.stderr


def left_behind(folder: Path) -> list[str]:
    """List what a run left in the folder of the dumps."""
    out = folder / "padiff_dump"
    found = [path.name for path in out.rglob("*")] if out.exists() else []
    return [name for name in found if not name.endswith(".lock")]


X = ("--inputs", "x.npy")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "net.py", *X], "net.py"),
        (["--model", "absent.py:build", *X], "no such file"),
        (["--model", "absent_module:build", *X], "no module named"),
        (["--model", "net.py:buidl", *X], "did you mean 'build'"),
        (["--model", "net.py:number", *X], "number"),
        (["--model", "net.py:three", *X], "returned builtins.int"),
        (["--model", "net.py:build", "--model-arg", "width", *X], "width"),
        (["--model", "net.py:build", "--model-arg", "depth=1", *X], "depth"),
        (["--model", "net.py:build", "--model-arg", "widht=1", *X], "did you mean 'width'"),
        (["--model", "net.py:broken", *X], "it raised RuntimeError: no such checkpoint"),
        (["--model", "net.py:leaving", *X], "sys.exit"),
        (["--model", "net.py:Broken", *X], "forward gave up"),
        (["--model", "net.py:build"], "input"),
        (["--model", "net.py:build", "--inputs", "absent.npy"], "no such file"),
        (["--model", "net.py:build", "--inputs", "text.npy"], "text.npy"),
        (["--model", "net.py:build", "--inputs", "object.npy"], "object.npy"),
        (["--model", "net.py:build", "--inputs", "net.py"], "net.py"),
        (["--model", "net.py:build", "--inputs", "mask=x.npy"], "no parameter 'mask'"),
        (["--model", "net.py:build", "--inputs", "wide.npy"], "module '0' (Linear) raised"),
        (["--model", "net.py:build", "--inputs-from", "absent"], "absent"),
        (["--model", "net.py:build", "--weights-from", "absent", *X], "absent"),
        (["--model", "net.py:build", "--weights-from", "text.padiff.zip", *X], "is not a zip file"),
        (["--model", "net.py:build", "--feed", "no.padiff.zip"], "there is no such file"),
        (["--model", "net.py:build", "--device", "abacus", *X], "abacus"),
        (["--model", "net.py:build", "--dtype", "float7", *X], "float7"),
        (["--model", "net.py:build", "--framework", "abacus", *X], "abacus"),
        (["--model", "net.py:build", "--framework", "torch,paddle", *X], "at once"),
        (["--model", "net.py:build", "--nmae", "x", *X], "--nmae"),
        (["--model", "net.py:build", "--out", "x.npy", *X], "x.npy"),
        (["--model", "net.py:build", "--name", "../escape", *X], "../escape"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    words: list[str],
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)  # in this process, as loading a framework takes seconds each time

    code = main(["dump", *words])

    out, err = capsys.readouterr()
    assert_refused(subprocess.CompletedProcess(words, code, out, err), says)
    assert left_behind(folder) == []
    assert (folder / "x.npy").stat().st_size > 0


def test_existing_dump_is_kept_unless_told_and_survives_a_failure(folder: Path) -> None:
    words = ("dump", "--name", "net", *X)
    assert run_padiff(*words, "--model", "net.py:build", cwd=folder).returncode == 0
    manifest = folder / "padiff_dump" / "net" / "manifest.json"
    before = manifest.read_bytes()

    again = run_padiff(*words, "--model", "net.py:build", cwd=folder)
    failed = run_padiff(*words, "--model", "net.py:Broken", "--overwrite", cwd=folder)

    assert_refused(again, "--overwrite")
    assert_refused(failed, "forward gave up")
    assert manifest.read_bytes() == before
    assert run_padiff("check", "--deep", "padiff_dump/net", cwd=folder).returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_unwritable_output_folder_is_named(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o500)

    done = run_padiff("dump", "--model", "net.py:build", "--out", "closed", *X, cwd=folder)

    assert_refused(done, "closed")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_full_disk_is_one_line_and_leaves_nothing(folder: Path) -> None:
    words = command("dump", "--model", "net.py:Large", *X)

    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 2000; exec "$@"', "bash", *words],
        cwd=folder,
        env=environment_for(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert_refused(done, "write")
    assert left_behind(folder) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_no_dump(number: signal.Signals, code: int, folder: Path) -> None:
    process = subprocess.Popen(
        command("dump", "--model", "net.py:Slow", *X),
        cwd=folder,
        env=environment_for(folder),
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 120
    while not (folder / "running").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)

    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == code, stderr
    assert "Traceback" not in stderr
    assert left_behind(folder) == []
