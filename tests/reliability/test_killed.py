"""Kill -9 at random moments: whole steps stay readable, the previous dump intact."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.cli.output import write_json
from padiff.comparer.baseline import accept, log_of
from padiff.dumpfile import DumpFormatError, DumpNotFoundError, DumpWriter, open_dump, validate
from padiff.dumpfile.place import Place
from padiff.dumpfile.unfinished import whole_files
from tests.support.dumps import DumpBuilder, add_step, manifest, write_dump
from tests.support.killing import KILLED, duration_s, run_and_kill
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FEW, MANY = 6, 200
STEPS = 6
HIDDEN = re.compile(r"\.net\.(partial|old)-[0-9a-f]{8}|\.net\.lock|\.net\.rank_.*")


def built(step: int, mark: float) -> DumpBuilder:
    """Make a step whose content tells which recording it is of."""
    large = np.full(40_000, mark, dtype=np.float32)
    large[0] = step
    small = np.array([step, mark], dtype=np.float32)
    return DumpBuilder(step=step).module("", "Net").call("", inputs=[small], outputs=[large])


def record(place: Path, mark: float) -> None:
    with DumpWriter(place, overwrite=True) as writer:
        writer.describe(manifest(name=place.name))
        for step in range(STEPS):
            add_step(writer, built(step, mark))
        writer.commit(manifest(name=place.name))


def mark_of(dump: Path) -> float:
    opened = open_dump(dump)
    marks = set()
    for info in opened.files:
        with opened.open(info.step) as file:
            step, mark = file.array(file.index.records[0])
            large = file.array(file.index.records[1])
        assert step == info.step
        assert large[0] == step
        assert (large[1:] == mark).all()
        marks.add(float(mark))
    (mark,) = marks
    return mark


def moment_s(seed: int, whole_s: float) -> float:
    """Draw when to kill; one in eight comes late, for where the machine has become slower."""
    chance = random.Random(seed)
    return whole_s * (chance.uniform(1, 8) if seed % 8 == 7 else chance.uniform(0, 1.1))


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def trial_of_a_recording(folder: Path, seed: int, whole_s: float) -> int:
    """Kill a recording that replaces dump 1 by dump 2; gives the number of whole steps left."""
    place = folder / f"{seed}" / "net"
    record(place, 1)
    code = run_and_kill(lambda: record(place, 2), after_s=moment_s(seed, whole_s))
    left = [entry for entry in place.parent.iterdir() if entry.name != "net"]
    assert all(HIDDEN.fullmatch(entry.name) for entry in left)
    steps = [whole_files(entry)[0] for entry in left if "partial" in entry.name]
    if not place.exists():  # killed between two renames: the old one is beside
        assert code == KILLED
        with pytest.raises(DumpNotFoundError) as caught:
            open_dump(place)
        assert "padiff check --recover" in str(caught.value.hint)
    else:
        assert mark_of(place) in ({2.0} if code == 0 else {1.0, 2.0})
        assert validate(place, deep=True) == []
    for entry in left:
        if "partial" in entry.name and not (entry / "manifest.json").exists():
            with pytest.raises((DumpFormatError, DumpNotFoundError)):
                open_dump(entry)

    recovered = Place(place, overwrite=False).recover()

    assert mark_of(place) in {1.0, 2.0}
    assert validate(place, deep=True) == []
    assert set(names(place.parent)) <= {"net", "net.incomplete"}
    if any(steps) and recovered is not None and recovered.name == "net.incomplete":
        kept = open_dump(recovered)
        assert mark_of(kept.path) == 2.0
        assert [info.step for info in kept.files] == list(range(len(steps[0])))
        assert main(["check", "--deep", str(kept.path)]) == 2
    return len(steps[0]) if steps else 0


def trials(
    one: Callable[[Path, int, float], int], folder: Path, count: int, whole_s: float
) -> list[int]:
    return [one(folder, seed, whole_s) for seed in range(count)]


@pytest.fixture
def whole_s(tmp_path: Path) -> float:
    return duration_s(lambda: record(tmp_path / "measure" / "net", 1))


def test_a_killed_recording(tmp_path: Path, whole_s: float) -> None:
    trials(trial_of_a_recording, tmp_path, FEW, whole_s)


@pytest.mark.slow
def test_a_killed_recording_in_many_trials(tmp_path: Path, whole_s: float) -> None:
    found = trials(trial_of_a_recording, tmp_path, MANY, whole_s)

    assert len(set(found)) > 3  # the moments differed


def trial_of_an_acceptance(folder: Path, seed: int, whole_s: float) -> int:
    """Kill an acceptance of dump 2 in the place of dump 1."""
    home = folder / f"{seed}"
    candidate = write_dump(home / "candidate", *(built(step, 2) for step in range(3)))
    reference = write_dump(home / "net", *(built(step, 1) for step in range(3)))
    before = mark_of(candidate)
    code = run_and_kill(
        lambda: accept(reference, candidate, reason="new"),
        after_s=moment_s(seed, whole_s),
    )

    Place(reference, overwrite=False).recover()

    assert mark_of(candidate) == before
    now = mark_of(reference)
    assert now == 2 if code == 0 else now in {1, 2}
    assert validate(reference, deep=True) == []
    logged = log_of(reference).read_text().splitlines() if log_of(reference).exists() else []
    assert all(json.loads(line)["reason"] == "new" for line in logged)
    assert logged or now == 1  # no replacement goes without its line
    assert set(names(home)) <= {"candidate", "net", log_of(reference).name}
    return int(now)


def acceptance_s(folder: Path) -> float:
    candidate = write_dump(folder / "candidate", *(built(step, 2) for step in range(3)))
    reference = write_dump(folder / "net", *(built(step, 1) for step in range(3)))
    return duration_s(lambda: accept(reference, candidate, reason="new"))


def test_a_killed_acceptance(tmp_path: Path) -> None:
    trials(trial_of_an_acceptance, tmp_path, FEW, acceptance_s(tmp_path / "measure"))


@pytest.mark.slow
def test_a_killed_acceptance_in_many_trials(tmp_path: Path) -> None:
    found = trials(trial_of_an_acceptance, tmp_path, MANY, acceptance_s(tmp_path / "measure"))

    assert set(found) == {1, 2}


def trial_of_a_report(folder: Path, seed: int, whole_s: float) -> int:
    """Kill the writing of a report over an older one."""
    home = folder / f"{seed}"
    home.mkdir()
    path = home / "report.json"
    write_json(path, [1] * 200_000)
    code = run_and_kill(
        lambda: write_json(path, [2] * 200_000),
        after_s=moment_s(seed, whole_s),
    )

    found = json.loads(path.read_text())

    assert len(found) == 200_000
    assert set(found) in ({1}, {2})
    assert code == KILLED or set(found) == {2}
    write_json(path, [3])
    assert json.loads(path.read_text()) == [3]
    assert names(home) == ["report.json"]  # the second run cleaned up what the first one left
    return int(found[0])


def report_s(folder: Path) -> float:
    return duration_s(lambda: write_json(folder / "measure.json", [2] * 200_000))


def test_a_killed_report(tmp_path: Path) -> None:
    trials(trial_of_a_report, tmp_path, FEW, report_s(tmp_path))


@pytest.mark.slow
def test_a_killed_report_in_many_trials(tmp_path: Path) -> None:
    found = trials(trial_of_a_report, tmp_path, MANY, report_s(tmp_path))

    assert set(found) == {1, 2}


def test_check_recovers_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = tiny_net().write(tmp_path / "net")
    whole.rename(tmp_path / ".net.partial-0123abcd")

    assert main(["check", str(tmp_path / "net")]) == 2
    assert "hint: a recording that did not finish" in capsys.readouterr().err
    assert main(["check", "--recover", str(tmp_path / "net")]) == 0
    assert main(["check", "--recover", str(tmp_path / ".net.partial-0123abcd")]) == 0
    assert main(["check", "--recover", str(tmp_path / "other")]) == 2
    assert "found no whole step" in capsys.readouterr().err
