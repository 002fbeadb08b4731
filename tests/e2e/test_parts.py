"""`padiff compare --parts`: what workers found lies in a folder until reports are written."""

from __future__ import annotations

import json
import os
import pickle
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from distributed import LocalCluster

import padiff
from padiff.cli.main import main
from padiff.comparer import CompareSettings, compare, parts
from padiff.comparer.report.json_report import to_json
from padiff.comparer.stored import Stored
from padiff.dumpfile import Content, Keep
from tests.support import many_ranks
from tests.support.command import run_padiff
from tests.support.many_ranks import write_ranks
from tests.support.pools import fork_pools
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable

REPORTS = ("json", "html", "overview", "junit", "sarif", "markdown", "csv")


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.chdir(tmp_path)
    fork_pools(monkeypatch)
    known, found = tmp_path / "known", tmp_path / "found"
    return write_ranks(known), write_ranks(found, "paddle", faulty=(1,))


def left_in(folder: Path) -> list[Path]:
    """Return the parts that lie below a folder."""
    return [path for path in folder.glob(".padiff-scratch-*/*") if len(path.name) == 16]


def written(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[object]:
    """Compare, and return the text and all report files."""
    names = [folder / f"report.{name}" for name in REPORTS]
    files = [
        word for name, path in zip(REPORTS, names, strict=True) for word in (f"--{name}", str(path))
    ]
    assert main(["compare", "known", "found", *options, *files]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    return [said.out, *(path.read_bytes() for path in names)]


@pytest.mark.parametrize("kind", ["processes", "cluster", "verbose"])
def test_reports_are_equal_byte_for_byte_with_and_without_parts(
    dumps: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    stored: list[int] = []
    step = parts.Parts.step

    def counted(*given: Any) -> Any:  # noqa: ANN401
        stored.append(1)
        return step(*given)

    monkeypatch.setattr(parts.Parts, "step", counted)
    options = ["--verbose"] if kind == "verbose" else []
    start: Any = LocalCluster

    one = written(tmp_path, capsys, "--jobs", "1", *options)
    assert stored == []
    if kind == "cluster":
        with start(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as made:
            address = made.scheduler_address
            assert written(tmp_path, capsys, "--scheduler", address) == one
    else:
        assert written(tmp_path, capsys, "--jobs", "2", *options) == one
    assert len(stored) == 9


def test_elements_of_samples_are_counted_wherever_they_were_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(*words: Any, **more: Any) -> Any:  # noqa: ANN401
        one = tiny_net(*words, **more)
        one.records[:] = [
            (record, array if array is None else array * np.float32(1 + 3e-7))
            for record, array in one.records
        ]
        return one

    fork_pools(monkeypatch)
    sample = Keep(content=Content.SAMPLE, sample=2)
    known = write_ranks(tmp_path / "known", content=sample)
    monkeypatch.setattr(many_ranks, "tiny_net", noisy)
    found = write_ranks(tmp_path / "found", content=sample)
    said = []

    for options in (["--jobs", "1"], ["--jobs", "2"]):
        main(["compare", str(known), str(found), *options])
        said.append(capsys.readouterr().out)
    text = padiff.compare(known, found, jobs=2).report()

    assert "by a sample: " in said[0]
    assert said[0] == said[1]
    assert text.splitlines()[-1] in said[0]
    assert next(line for line in text.splitlines() if "by a sample: " in line) in said[0]


def test_nothing_is_left_of_parts(dumps: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir()
    words = ("compare", "known", "found", "--jobs", "2", "--parts", "keep", "--json", "r.json")

    assert run_padiff(*words, cwd=tmp_path).returncode == 1

    assert [*(tmp_path / "keep").iterdir()] == []


@pytest.mark.parametrize("place", ["/dev/stdout", "new/folder/report.json"])
def test_parts_need_no_folder_of_a_report(
    dumps: tuple[Path, Path], tmp_path: Path, place: str
) -> None:
    words = ("compare", "known", "found", "--jobs", "2", "--quiet", "--json", place)

    done = run_padiff(*words, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (1, "")


def test_what_parts_hold_is_not_kept(dumps: tuple[Path, Path], tmp_path: Path) -> None:
    settings = CompareSettings(jobs=2, parts=tmp_path)
    found = compare(*dumps, settings)
    opened: set[str] = set()

    assert len(left_in(tmp_path)) == 9
    assert stat.S_IMODE(left_in(tmp_path)[0].parent.stat().st_mode) == 0o700
    for step in found.steps:
        assert isinstance(step.pairs, Stored)
        assert len(step.pairs) == len(list(step.pairs)) > 0
        opened.add(repr(step))
    assert to_json(found) == to_json(compare(*dumps))
    assert len(opened) == 9
    del found, step
    assert not left_in(tmp_path)


@pytest.mark.parametrize("why", ["another folder", "no room"])
def test_where_the_folder_is_not_shared_all_travels(
    dumps: tuple[Path, Path], tmp_path: Path, why: str
) -> None:
    class Changing:
        """Changes the folder before the first task."""

        def begin(self, steps: int) -> None:
            (folder,) = tmp_path.glob(".padiff-scratch-*")
            if why == "another folder":
                (folder / "token").write_text("another")
            else:
                (folder / "token").rename(folder.with_name("token"))
                folder.rename(tmp_path / "gone")
                folder.write_text("no folder")

        def advance(self, steps: int) -> None:
            pass

        def note(self, text: str) -> None:
            raise AssertionError(text)

    found = compare(*dumps, CompareSettings(jobs=2, parts=tmp_path), watch=Changing())

    assert not any(isinstance(step.pairs, Stored) for step in found.steps)
    assert to_json(found) == to_json(compare(*dumps))


SPOILT: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "changed": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"?"),
}


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("report", ["json", "csv", "stdout"])
def test_a_part_that_is_spoilt_ends_with_code_2_and_nothing_half_written(
    dumps: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    report: str,
) -> None:
    step = parts.Parts.step
    spoilt: list[Path] = []

    def spoiling_last(*given: Any) -> Any:  # noqa: ANN401
        found = step(*given)
        if not spoilt:
            spoilt.append(given[0].folder.path / given[2].place.name)
            SPOILT[how](spoilt[0])
        return found

    monkeypatch.setattr(parts.Parts, "step", spoiling_last)
    place = "-" if report == "stdout" else str(tmp_path / "report")
    option = "--csv" if report == "csv" else "--json"

    code = main(["compare", "known", "found", "--jobs", "2", option, place])

    said = capsys.readouterr()
    assert code == 2
    assert "cannot read a part of the result" in said.err
    assert spoilt[0].name in said.err
    assert "hint:" in said.err
    assert said.out == ""
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_used_is_named(
    dumps: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = "nowhere"

    assert main(["compare", "known", "found", "--jobs", "2", "--parts", place]) == 2

    said = capsys.readouterr()
    assert place in said.err
    assert said.out == ""


def test_a_result_travels_without_its_folder(dumps: tuple[Path, Path], tmp_path: Path) -> None:
    found = compare(*dumps, CompareSettings(jobs=2, parts=tmp_path))
    expected = json.dumps(to_json(found))

    travelled = pickle.loads(pickle.dumps(found))
    del found

    assert not left_in(tmp_path)
    assert json.dumps(to_json(travelled)) == expected
