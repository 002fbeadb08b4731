"""What needs no framework is checked before the user's model, and so a framework, is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
from pathlib import Path
Path("imported").touch()
raise ImportError("this is as far as it gets")
"""
GOOD = ("--inputs", "x.npy")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "bad.toml").write_text("[[pair]\n")
    (tmp_path / "damaged.npy").write_text("no array")
    (tmp_path / "text.txt").write_text("no weights")
    np.save(tmp_path / "x.npy", np.ones((2, 4)))
    np.save(tmp_path / "y0.npy", np.ones((2, 4)))
    DumpBuilder().module("", "Net").enter("").leave().write(tmp_path / "padiff_dump" / "taken")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--inputs", "no.npy"], "cannot read the arrays of 'no.npy': no such file"),
        (["--inputs", "x=no.npy"], "cannot read the arrays of 'no.npy': no such file"),
        (["--inputs", "damaged.npy"], "cannot read the arrays of 'damaged.npy'"),
        (["--inputs", "text.txt"], "expected .npy, .npz or .safetensors, found '.txt'"),
        (["--inputs", "y{step}.npy", "--steps", "2"], "'y1.npy': no such file"),
        (["--inputs-from", "padiff_dump/no"], "dumps there: taken"),
        (["--feed", "padiff_dump/no"], "dumps there: taken"),
        ([*GOOD, "--label", "no.npy", "--loss", "model.py:loss"], "'no.npy': no such file"),
        ([*GOOD, "--loss", "no.py:loss"], "cannot load loss 'no.py:loss': no such file"),
        ([*GOOD, "--optimizer", "no.py:sgd"], "cannot load optimizer 'no.py:sgd': no such file"),
        (
            [*GOOD, "--optimizer", "model.py:sgd", "--lr-scheduler", "no.py:cosine"],
            "cannot load schedule 'no.py:cosine': no such file",
        ),
        ([*GOOD, "--name", "taken"], "there is a dump already"),
        ([*GOOD, "--out", "x.npy"], "x.npy"),
        ([*GOOD, "--weights-from", "no.pth"], "cannot read weights 'no.pth': no such file"),
        ([*GOOD, "--weights-from", "text.txt"], "found '.txt'"),
        ([*GOOD, "--weights-from", "padiff_dump/no"], "dumps there: taken"),
        (["--no-run", "--weights-from", "no.safetensors"], "no such file"),
        ([*GOOD, "--weights-from", "padiff_dump/taken", "--map", "no.toml"], "no.toml"),
        ([*GOOD, "--weights-from", "padiff_dump/taken", "--map", "bad.toml"], "bad.toml"),
    ],
)
def test_what_needs_no_framework_is_told_before_the_model_is_imported(
    words: list[str], expected: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))

    code = main(["dump", "--model", "model.py:build", *words])

    error = capsys.readouterr().err
    assert code == 2
    assert expected in error.replace("No such file", "no such file")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "words",
    [
        list(GOOD),
        [*GOOD, "--name", "taken", "--overwrite"],
        ["--inputs", "y{step}.npy", "--steps", "1"],
        ["--inputs-from", "padiff_dump/taken", "--weights-from", "padiff_dump/taken"],
    ],
)
def test_the_model_is_imported_if_all_is_well(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["dump", "--model", "model.py:build", *words])

    assert code == 2
    assert "this is as far as it gets" in capsys.readouterr().err
    assert (folder / "imported").exists()


@pytest.mark.parametrize("place", ["classes.py", "classes"])
def test_the_name_that_a_class_gives_its_dump_is_checked_before_the_import(
    place: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "classes.py").write_text(MODEL + "class taken:\n    pass\nclass free:\n    pass\n")

    assert main(["dump", "--model", f"{place}:taken", *GOOD]) == 2
    assert "there is a dump already" in capsys.readouterr().err
    assert not (folder / "imported").exists()

    assert main(["dump", "--model", f"{place}:free", *GOOD]) == 2
    assert "this is as far as it gets" in capsys.readouterr().err


def test_a_script_is_not_run_for_a_name_that_is_taken(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["dump", "--script", "model.py", "--name", "taken"])

    assert code == 2
    assert "there is a dump already" in capsys.readouterr().err
    assert not (folder / "imported").exists()
