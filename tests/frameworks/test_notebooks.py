"""The notebooks of the examples hold their stories' cells, and run from the first to the last."""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from nbclient import NotebookClient

from examples.notebooks import STORIES, notebook
from tests.support.forked_workers import fork_dumps

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_there_is_a_story_for_a_cnn_a_language_model_and_a_training() -> None:
    assert [story.parent.name for story in STORIES] == ["llm", "resnet", "training"]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.parent.name)
def test_a_notebook_holds_the_cells_of_its_story(story: Path) -> None:
    stored = story.with_suffix(".ipynb").read_text(encoding="utf-8")

    assert stored == notebook(story.read_text(encoding="utf-8"))


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))


def test_a_notebook_runs_to_its_end(
    examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    cells = nbformat.read(examples / "llm" / "story.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(examples / "llm")}}

    NotebookClient(cells, timeout=600, resources=where).execute()

    (*_, last) = [cell for cell in cells.cells if cell.cell_type == "code"]
    assert "text/html" in last.outputs[-1].data


@pytest.fixture
def own_modules() -> Iterator[None]:
    """Forget the modules of examples, which have one name in several folders."""
    names = {one.stem for one in EXAMPLES.glob("*/*.py")}
    before = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    yield
    for name in names & sys.modules.keys():
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.usefixtures("own_modules")
@pytest.mark.filterwarnings("ignore")  # a kernel shows them
@pytest.mark.parametrize("name", ["resnet", "training"])
def test_the_cells_of_a_story_end_with_a_report(
    name: str, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(examples / name)
    monkeypatch.syspath_prepend(examples / name)
    fork_dumps(monkeypatch)
    *statements, last = ast.parse(Path("story.py").read_text(encoding="utf-8")).body
    assert isinstance(last, ast.Expr)
    names: dict[str, Any] = {"__name__": "__main__"}

    exec(compile(ast.Module(statements, []), "story.py", "exec"), names)
    shown = eval(compile(ast.Expression(last.value), "story.py", "eval"), names)

    assert shown._repr_html_().startswith("<")
