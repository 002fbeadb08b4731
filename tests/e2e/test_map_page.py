"""The worked example in docs/map.md works, and its fragments are valid maps."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from padiff.pairing import MapFile
from tests.support.command import run_padiff

PAGE = Path(__file__).parents[2] / "docs" / "map.md"
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    """Give language, file name and text of each block of the page."""
    found = [(one[1], one[2], one[3]) for one in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    assert len(found) > 8
    return found


@pytest.mark.parametrize("text", [text for kind, _, text in blocks() if kind == "toml"])
def test_the_maps_on_the_page_can_be_read(text: str) -> None:
    made = MapFile.parse(text)

    entries = made.pairs, made.layouts, made.ignores, made.weights, made.rules, made.over_ranks
    assert any(entries)


def test_the_worked_example_works(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    codes = []

    for kind, name, text in blocks():
        if name:
            (tmp_path / name).write_text(text, encoding="utf-8")
        if kind == "console":
            codes += run_console(text, tmp_path)
        if kind == "toml" and not name and len(codes) == 4:  # what `padiff map` has just written
            assert text in (tmp_path / "map.toml").read_text(encoding="utf-8")
            codes.append(-1)

    assert codes == [0, 2, 0, 0, -1, 0, 0]


def run_console(text: str, folder: Path) -> list[int]:
    """Run the commands of a block; what follows one must be a part of what it prints."""
    codes = []
    for part in text.split("$ padiff ")[1:]:
        words, _, expected = part.partition("\n")
        done = run_padiff(*shlex.split(words), cwd=folder)
        assert expected in done.stdout + done.stderr
        codes.append(done.returncode)
    return codes
