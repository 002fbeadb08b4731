"""Names out of a dump are no commands to the service that runs a CI job, whatever is printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.dumpfile import SourceLine
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

NAMES = (
    "::error file=net.py::owned",
    "  ::add-mask::x",
    "##[set-output name=x]y",
    "##vso[task.setvariable variable=PATH]x",
    "##teamcity[x]",
    "x " * 120 + "::stop-commands::y",  # the console breaks the line before it
)
COMMAND = re.compile(r"^\s*::|##(?:vso|teamcity)?\[", re.MULTILINE)


def named(name: str, change: float) -> DumpBuilder:
    """Make a network in which everything is called by one name."""
    random = np.random.default_rng(0)
    x, weight = (random.standard_normal((3, 3)).astype(np.float32) for _ in range(2))
    site, path = SourceLine(file=name, line=3), name.replace(".", "_")
    built = DumpBuilder().module("", name, class_path=name)
    built.module(path, name, class_path=name, attributes={name: name}, source=site, bases=(name,))
    built.tensor(path, name, weight + np.float32(change)).enter("", inputs=[x])
    built.enter(path, inputs={f"[{name!r}]": x}, site=site, literals={name: name})
    result = x @ weight + np.float32(change)
    return built.leave(outputs=[result]).leave(outputs=[result])


@pytest.mark.parametrize("name", NAMES)
def test_no_command_prints_a_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place, change in (("a", 0.0), ("b", 0.5)):
        named(name, change).write(tmp_path / place, model=name, model_class=name)
    path = name.replace(".", "_")

    codes = [
        main(words)
        for words in (
            ["compare", "a", "b", "--explain-pairing", "--verbose", "--json", "r.json"],
            ["compare", "a", "b", "--format", "json"],
            ["compare", "a", "b", "--format", "markdown"],
            ["report", "r.json", "--verbose"],
            ["judge", "r.json"],
            ["show", "a", "--records"],
            ["show", "a", "--json"],
            ["map", "a", "b"],
            ["weights", "stats", "a"],
            ["weights", "stats", "a", "b"],
            ["weights", "plan", "a", "b"],
            ["weights", "compare", "a", "b"],
            ["extract", "a", "b", "--module", path, "-o", "layer"],
            ["accept", "base", "a", "--reason", name],
            ["accept", "base", "b", "--reason", name],
            ["check", name],
            ["compare", "a", "b", "--map", name],
            ["extract", "a", "b", "--module", name + "?", "-o", "layer"],
        )
    ]

    out, err = capsys.readouterr()
    assert codes == [1, 1, 1, 1, 1, *[0] * 6, 1, 0, 0, 0, 2, 2, 2]
    assert COMMAND.search(out + "\n" + err) is None
    assert "internal error" not in err


def test_what_is_searched_for_is_in_the_names() -> None:
    wrapped = NAMES[-1].replace("x ::", "x\n::")

    assert all(COMMAND.search(name) for name in (*NAMES[:-1], wrapped))
