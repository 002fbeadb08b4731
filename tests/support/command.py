"""Run the command line as users do: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from . import warm

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
    is_fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``padiff`` with captured streams.

    Args:
        words: The command line.
        cwd: Working directory.
        blocked: Top-level modules that must look as if they were not installed.
        environment: Variables to add.
        is_fresh: Whether to start an interpreter, instead of forking one that has imported padiff.
    """
    return run_python(
        *command(*words)[1:], cwd=cwd, blocked=blocked, environment=environment, is_fresh=is_fresh
    )


def run_python(
    *words: str | Path,
    cwd: Path,
    blocked: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    is_fresh: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` likewise."""
    texts = list(map(str, words))
    variables = environment_for(cwd, blocked, environment)
    if not is_fresh:
        parent = warm.warm_for(texts, cwd)
        if parent.can_start(variables, blocked):
            return warm.run_warm(texts, cwd, variables, parent)
    return subprocess.run(
        [sys.executable, *texts],
        cwd=cwd,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=warm.WITHIN_S,
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


def run_ranks(
    *words: str | Path, cwd: Path, count: int, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` on some ranks of torch; what they print is in ``stdout``."""
    texts = list(map(str, words))
    return warm.run_ranks(texts, cwd, environment_for(cwd, added=environment), count)
