"""Accepting a baseline replaces it as a whole, and never without a line that says why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.baseline import accept, log_of
from padiff.dumpfile import (
    ConfigError,
    DumpFormatError,
    DumpWriteError,
    Floor,
    RecordFloor,
    open_dump,
    read_floor,
    validate,
    write_floor,
)
from padiff.dumpfile.packed import pack, unpacked
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path


def test_baseline_becomes_the_candidate_and_the_log_says_why(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)

    found = accept(reference, candidate, reason="eps was wrong", command=["padiff", "accept"])

    assert found.verdict == "diverged"
    assert compare(reference, candidate, CompareSettings()).verdict is Verdict.MATCH
    assert validate(reference, deep=True) == []
    assert candidate.is_dir()
    (line,) = log_of(reference).read_text(encoding="ascii").splitlines()
    logged = json.loads(line)
    assert logged["reason"] == "eps was wrong"
    assert logged["command"] == ["padiff", "accept"]
    assert any(change.startswith("origin: ") and "norm" in change for change in logged["changes"])
    assert any("framework: torch -> paddle" in change for change in logged["changes"])


def test_log_grows_by_a_line_each_time(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    for number in range(2):
        accept(reference, candidate, reason=f"reason {number}")

    lines = log_of(reference).read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["reason 0", "reason 1"]


def test_first_baseline_is_new(tmp_path: Path) -> None:
    _, candidate = tiny_pair(tmp_path)
    place = tmp_path / "baseline" / "net"
    place.parent.mkdir()

    assert accept(place, candidate, reason="first").verdict == "new"
    assert validate(place, deep=True) == []


def test_packed_baseline_stays_packed_and_keeps_the_floor(tmp_path: Path) -> None:
    _, candidate = tiny_pair(tmp_path, eps=0.5)
    records = len(open_dump(candidate).open().index.records)
    floor = Floor(
        repeats=1,
        perturb="none",
        records={(0, 0): tuple(RecordFloor(max_abs=0.5, rms=0.25) for _ in range(records))},
    )
    write_floor(candidate, floor)
    place = tmp_path / "net.padiff.zip"

    first = accept(place, candidate, reason="first")
    again = accept(place, candidate, reason="nothing new")

    assert (first.verdict, again.verdict) == ("new", "match")
    assert again.changes == ("all records are bit-equal",)
    with unpacked(place) as packed:
        assert validate(packed, deep=True) == []
        assert read_floor(packed) == floor
    lines = log_of(place).read_text(encoding="ascii").splitlines()
    assert [json.loads(line)["reason"] for line in lines] == ["first", "nothing new"]


def test_packed_candidate_replaces_a_folder(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)
    packed = tmp_path / "new.padiff.zip"
    pack(candidate, packed)

    found = accept(reference, packed, reason="eps")

    assert any("records are not bit-equal; most moved " in change for change in found.changes)
    assert compare(reference, candidate, CompareSettings()).verdict is Verdict.MATCH
    assert "user" in json.loads(log_of(reference).read_text(encoding="ascii"))


def test_packed_baseline_stays_whole_where_the_new_one_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)
    place = tmp_path / "net.padiff.zip"
    pack(reference, place)
    before = place.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("padiff.dumpfile.packed.shutil.copyfileobj", full)
    with pytest.raises(DumpWriteError, match="No space"):
        accept(place, candidate, reason="eps")

    assert place.read_bytes() == before
    assert not log_of(place).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "candidate", "net.padiff.zip", "reference",
    ]  # fmt: skip


def test_other_file_of_that_name_is_never_replaced(tmp_path: Path) -> None:
    _, candidate = tiny_pair(tmp_path)
    place = tmp_path / "thesis.padiff.zip"
    place.write_text("mine", encoding="utf-8")

    with pytest.raises(DumpWriteError, match="no packed dump"):
        accept(place, candidate, reason="oops")

    assert place.read_text(encoding="utf-8") == "mine"


def test_damaged_candidate_is_refused_and_the_baseline_stays(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)
    before = {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()}
    file = next(candidate.rglob("*.h5"))
    file.write_bytes(file.read_bytes()[:-2000])

    with pytest.raises(DumpFormatError, match="cannot accept"):
        accept(reference, candidate, reason="try")

    assert {path: path.read_bytes() for path in reference.rglob("*") if path.is_file()} == before
    assert not log_of(reference).exists()


@pytest.mark.parametrize("reason", ["", "  "])
def test_reason_is_needed(reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reason"):
        accept(*tiny_pair(tmp_path), reason=reason)


def test_dump_cannot_replace_itself(tmp_path: Path) -> None:
    reference, _ = tiny_pair(tmp_path)

    with pytest.raises(ConfigError, match="same dump"):
        accept(reference, reference, reason="no")


def test_what_is_no_dump_is_never_replaced(tmp_path: Path) -> None:
    _, candidate = tiny_pair(tmp_path)
    place = tmp_path / "precious"
    place.mkdir()
    (place / "thesis.txt").write_text("mine", encoding="utf-8")

    with pytest.raises(Exception, match="precious"):
        accept(place, candidate, reason="oops")

    assert (place / "thesis.txt").read_text(encoding="utf-8") == "mine"
