"""A process that is forked while a model is recorded neither ends nor harms the recording."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from padiff.dumpfile import open_dump, validate

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import os
import sys
from pathlib import Path

import torch

import padiff

model = torch.nn.Linear(40, 300)
with padiff.record(model, name="net", out="dumps") as recorder:
    model(torch.ones(2, 40)).sum().backward()
    recorder.step()
    model(torch.full((2, 40), 2.0)).sum().backward()
    before = sorted(map(str, Path("dumps").rglob("*")))
    child = os.fork()
    if child == 0:
        {leave}
    else:
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print("kept", sorted(map(str, Path("dumps").rglob("*"))) == before)
        recorder.step()
        model(torch.full((2, 40), 3.0)).sum().backward()
        recorder.step()
if child == 0:
    sys.exit(5)
"""


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        ("sys.exit(3)", 3),
        ("raise KeyError('x')", 1),
        ("pass", 5),
        ("model(torch.zeros(2, 40)); sys.exit(4)", 4),
    ],
)
def test_forked_process_leaves_the_recording_alone(leave: str, code: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT).format(leave=leave)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # torch's other threads do not survive a fork
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"child {code}", "kept True"]
    assert [path.name for path in (tmp_path / "dumps").iterdir()] == ["net"]
    assert validate(tmp_path / "dumps" / "net", deep=True) == []
    assert [info.step for info in open_dump(tmp_path / "dumps" / "net").files] == [0, 1, 2]
