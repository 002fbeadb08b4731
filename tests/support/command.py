"""Run the command line as users do: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_BLOCKER = """
import os
import sys

BLOCKED = set(os.environ.get("PADIFF_TEST_BLOCKED", "").split())


class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocker())
"""


def run_padiff(
    *words: str | Path,
    cwd: Path,
    blocked: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run ``padiff`` with captured streams.

    Args:
        words: The command line.
        cwd: Working directory.
        blocked: Top-level modules that must look as if they were not installed.
        environment: Variables to add.
    """
    return subprocess.run(
        command(*words),
        cwd=cwd,
        env=environment_for(cwd, blocked, environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def command(*words: str | Path) -> list[str]:
    """Give the full command line."""
    return [sys.executable, "-m", "padiff.cli", *map(str, words)]


def environment_for(
    folder: Path, blocked: Sequence[str] = (), added: dict[str, str] | None = None
) -> dict[str, str]:
    """Give the environment, in which ``folder`` may get a file that blocks imports."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("COLUMNS", "NO_COLOR", "PADIFF_DEBUG", "FORCE_COLOR")
    }
    environment |= {"OMP_NUM_THREADS": "1", **(added or {})}
    if blocked:
        hooks = folder / ".blocker"
        hooks.mkdir(exist_ok=True)
        (hooks / "sitecustomize.py").write_text(_BLOCKER, encoding="utf-8")
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(hooks), *([known] if known else [])])
        environment["PADIFF_TEST_BLOCKED"] = " ".join(blocked)
    return environment
