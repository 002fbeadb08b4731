"""Completion in a shell: what fits, and not a word besides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = """
eval "$(_PADIFF_COMPLETE=bash_source padiff)"
COMP_WORDS=({words}) COMP_CWORD={place}
_padiff_completion padiff
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def environment() -> dict[str, str]:
    """Return an environment in which ``padiff`` is the one under test."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def asked(kind: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Ask as the scripts of click do."""
    asking = {"_PADIFF_COMPLETE": kind, "COMP_WORDS": " ".join(words)}
    return subprocess.run(
        [sys.executable, "-m", "padiff"],
        env=environment() | asking | {"COMP_CWORD": str(len(words) - 1)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["padiff", "comp"], ["compare", "compare-logs"]),
        (["padiff", "weights", "c"], ["compare", "convert"]),
        (["padiff", "compare", "--at"], ["--atol"]),
        (["padiff", "compare", "--mode", "x", "--phase", "b"], ["backward"]),
    ],
)
def test_bash_completes_without_noise(words: list[str], expected: list[str]) -> None:
    script = BASH.format(words=" ".join(words), place=len(words) - 1)

    done = subprocess.run(
        ["bash", "-c", script], env=environment(), capture_output=True, text=True, check=False
    )

    assert (sorted(done.stdout.split()), done.stderr) == (expected, "")


def test_zsh_is_given_names_and_what_they_do() -> None:
    done = asked("zsh_complete", "padiff", "jud")

    summary = "Decide a report again at other tolerances."
    assert (done.stdout.split("\n"), done.stderr) == (["plain", "judge", summary, ""], "")


@pytest.mark.parametrize("kind", ["bash_source", "zsh_source", "fish_source"])
def test_scripts_are_printed_alone(kind: str) -> None:
    done = asked(kind, "padiff")

    assert (done.returncode, done.stderr) == (0, "")
    assert "_PADIFF_COMPLETE" in done.stdout
