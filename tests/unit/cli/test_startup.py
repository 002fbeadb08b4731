"""What starting a command costs, counted in imported modules: times depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from padiff.cli.main import _COMMANDS

MOST = 70
"""Modules of padiff that a command may import before it knows its options; there are 300."""
HEAVY = {
    "jinja2",
    "paddle",
    "padiff.comparer.comparison",
    "padiff.dumper.recording.recorder",
    "padiff.pairing",
    "rich",
    "torch",
}
COUNT = """
import json, sys
from padiff.cli.main import main
main([{command!r}, "--help"])
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
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
    assert f"padiff.cli.{_COMMANDS[command].module}" in modules
    assert len([name for name in modules if name.startswith("padiff")]) <= MOST
