"""What docs/ci.md tells people to put into their CI works as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree as ET

import pytest

from tests.support.tiny_net import tiny_pair

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"
SHIM = """#!/bin/sh
if [ "$1" = dump ]; then
  mkdir -p padiff_dump && cp -r recorded padiff_dump/resnet
else
  exec "{python}" -m padiff.cli "$@"
fi
"""
"""Stands for padiff: recording needs a framework, and gives what was prepared instead."""


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def workflow_runs() -> list[str]:
    """Give the scripts of the workflow's steps."""
    (text,) = blocks("yaml")
    found = re.findall(
        r"^ {8}run: (\|\n(?: {10}.*\n)+|.*\n)|^ {6}- run: (.*\n)", text, flags=re.MULTILINE
    )
    return [dedent((one or two).removeprefix("|\n")) for one, two in found]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    shim = programs / "padiff"
    shim.write_text(SHIM.format(python=sys.executable), encoding="utf-8")
    shim.chmod(0o755)
    (programs / "pip").write_text("#!/bin/sh\n", encoding="utf-8")
    (programs / "pip").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    return subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def prepare(folder: Path, eps: float) -> None:
    """Put an archived baseline, and what the recording will give, where the page expects them."""
    reference, candidate = tiny_pair(folder, eps=eps)
    (folder / "baseline").mkdir()
    shutil.move(reference, folder / "baseline" / "resnet")
    shutil.move(candidate, folder / "recorded")


@pytest.mark.parametrize(("eps", "code"), [(1e-5, 0), (0.5, 1)])
def test_shell_script_fails_exactly_on_divergence(eps: float, code: int, tmp_path: Path) -> None:
    prepare(tmp_path, eps)
    (script,) = blocks("sh")

    done = run(script, tmp_path)

    assert (done.returncode, done.stderr) == (code, "")
    failures = ET.parse(tmp_path / "reports" / "padiff.xml").getroot().get("failures")
    assert (failures == "0") is (code == 0)
    assert (tmp_path / "reports" / "padiff.html").stat().st_size > 10_000


def test_shell_script_is_trouble_if_nothing_could_be_recorded(tmp_path: Path) -> None:
    (script,) = blocks("sh")

    assert run(script, tmp_path).returncode == 2


@pytest.mark.parametrize(("eps", "code"), [(1e-5, 0), (0.5, 1)])
def test_steps_of_the_workflow_do_what_the_page_says(eps: float, code: int, tmp_path: Path) -> None:
    prepare(tmp_path, eps)
    runs = workflow_runs()
    assert len(runs) == 4

    codes = [run(script, tmp_path).returncode for script in runs]

    assert codes == [0, 0, code, 0]
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("## padiff: ")
    names = {path.suffix for path in (tmp_path / "reports").iterdir()}
    assert names == {".json", ".xml", ".html", ".sarif", ".md"}
