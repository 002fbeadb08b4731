"""A model that takes the process down, or is stopped, loses no step that was whole."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from padiff.cli.main import main
from padiff.dumpfile import Dump, open_dump
from tests.support.command import command, environment_for, run_padiff
from tests.support.dying_models import write_dying_model

if TYPE_CHECKING:
    from pathlib import Path


def kept(folder: Path) -> Dump:
    """Give what was kept, after a look at what else there is."""
    assert [entry.name for entry in (folder / "padiff_dump").iterdir()] == ["net.incomplete"]
    dump = open_dump(folder / "padiff_dump" / "net.incomplete")
    assert [info.step for info in dump.files] == [0, 1]
    return dump


@pytest.mark.parametrize(
    ("framework", "end", "says"),
    [
        ("torch", "segfault", "inside last#0: the process was killed by SIGSEGV"),
        ("torch", "leave", "ended the process with status 0"),
        ("torch", "error", "ValueError: no more"),
        ("paddle", "rnn", "the process was killed by SIG"),  # it writes anywhere: which is chance
        ("paddle", "abort", "inside last#0: the process was killed by SIGABRT"),
    ],
)
def test_whole_steps_are_kept_and_the_end_is_told(
    framework: str, end: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = write_dying_model(tmp_path, framework)

    done = run_padiff(*words, "--model-arg", f'end="{end}"', cwd=tmp_path)

    assert done.returncode == 2
    assert says in done.stderr
    assert "padiff: kept: the 2 whole steps" in done.stderr
    assert kept(tmp_path).manifest.incomplete
    assert main(["check", "--deep", str(tmp_path / "padiff_dump/net.incomplete")]) == 2
    assert "whole are the steps 0, 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("framework", "number", "code", "says"),
    [
        ("torch", signal.SIGINT, 130, "interrupted"),
        ("paddle", signal.SIGTERM, 143, "SIGTERM"),
        ("torch", signal.SIGHUP, 129, "SIGHUP"),
    ],
)
def test_a_signal_keeps_whole_steps(
    framework: str, number: signal.Signals, code: int, says: str, tmp_path: Path
) -> None:
    words = write_dying_model(tmp_path, framework)
    process = subprocess.Popen(
        ["env", "--default-signal=HUP", *command(*words, "--model-arg", 'end="wait"')],
        cwd=tmp_path,
        env=environment_for(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 120
    while not (tmp_path / "waiting").exists() and time.monotonic() < deadline_s:
        time.sleep(0.02)

    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == code, stderr
    assert says in stderr
    assert "Traceback" not in stderr
    assert "kept: the 2 whole steps" in stderr
    assert says in kept(tmp_path).manifest.incomplete
