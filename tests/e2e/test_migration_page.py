"""Every recipe of docs/migration.md runs, in the order of the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.pages import BLOCK, blocks, run_page

PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
STAGES = (
    "Data",
    "Forward",
    "Metric",
    "Loss",
    "Gradients",
    "Learning rate",
    "Losses and updates",
    "Initialisation",
    "Final accuracy",
)


def sections() -> dict[str, str]:
    parts = SECTION.split(PAGE.read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_every_stage_has_a_recipe_that_compares() -> None:
    found = sections()

    for stage in STAGES:
        (*_, last) = [text for kind, _, text in BLOCK.findall(found[stage]) if kind == "console"]
        assert "padiff compare" in last or "padiff weights stats" in last, stage


@pytest.mark.filterwarnings("ignore:When training, we now always track:UserWarning")  # Paddle
def test_the_whole_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_page(PAGE, folder, capsys)

    scripts = {name for kind, name, _ in blocks(PAGE) if kind == "python"}
    assert scripts - {words.removeprefix("python ") for words in ran} == {
        "torch_side.py",
        "paddle_side.py",
    }
