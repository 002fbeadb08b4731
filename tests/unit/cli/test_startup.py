"""What starting a command costs, counted in imported modules: times depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from padiff.cli.main import _COMMANDS
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path

MOST = 26
"""Modules of padiff that a command may import before it knows its options; there are 370."""
MOST_OF_ALL = 180
"""Modules of anybody, Python's own included; 157 to 173 of Python 3.11, cloup's 22 and the 40 that
it imports for its version among them."""
HEAVY = {
    "h5py",
    "jinja2",
    "ml_dtypes",
    "numpy",
    "paddle",
    "padiff.comparer.comparison",
    "padiff.dumper.recording.recorder",
    "padiff.pairing",
    "rich",
    "torch",
}
COUNT = """
import json, sys
before = set(sys.modules)
from padiff.cli.main import main
main([{command!r}, "--help"])
print(json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)
"""


def imported(command: str) -> set[str]:
    code = COUNT.format(command=command)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_command_starts_without_what_only_its_work_needs(command: str) -> None:
    modules = imported(command)

    assert not modules & HEAVY
    assert f"padiff.cli.{command.replace('-', '_')}" in modules
    assert len([name for name in modules if name.startswith("padiff")]) <= MOST
    assert len(modules) <= MOST_OF_ALL


def modules_of_numpy() -> set[str]:
    """Return what numpy imports by itself: before version 2 it took more."""
    code = "import json, sys, numpy; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return set(json.loads(done.stdout))


def test_comparing_equal_trees_loads_neither_the_recorder_nor_the_details_of_a_report(
    tmp_path: Path,
) -> None:
    dump = tiny_net().write(tmp_path / "net")
    code = COUNT.format(command="compare").replace('"--help"', f"{str(dump)!r}, {str(dump)!r}")

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )

    modules = set(json.loads(done.stderr.splitlines()[-1]))
    assert done.stdout.startswith("MATCH")
    assert "padiff.pairing.stages" in modules
    assert not modules & {"padiff.dumper", "padiff.comparer.detail"}
    assert "numpy.ma" not in modules - modules_of_numpy()
