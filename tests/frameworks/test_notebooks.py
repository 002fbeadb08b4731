"""The notebooks of the examples hold their stories' cells, and run from the first to the last."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from examples.notebooks import STORIES, notebook

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_there_is_a_story_for_a_cnn_a_language_model_and_a_training() -> None:
    assert [story.parent.name for story in STORIES] == ["llm", "resnet", "training"]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.parent.name)
def test_a_notebook_holds_the_cells_of_its_story(story: Path) -> None:
    stored = story.with_suffix(".ipynb").read_text(encoding="utf-8")

    assert stored == notebook(story.read_text(encoding="utf-8"))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.parent.name)
def test_a_notebook_runs_to_its_end(
    story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    folder = tmp_path / "examples" / story.parent.name
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    cells = nbformat.read(folder / "story.ipynb", as_version=4)  # type: ignore[no-untyped-call]

    NotebookClient(cells, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()

    (*_, last) = [cell for cell in cells.cells if cell.cell_type == "code"]
    assert "text/html" in last.outputs[-1].data
