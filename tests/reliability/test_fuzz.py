"""Damaged files of every kind: exit 0, 1 or 2, no traceback, no hang, nothing else touched."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.confined import listing
from tests.support.fuzzing import KINDS, fuzz, prepare, run_case

if TYPE_CHECKING:
    from pathlib import Path

FEW = 700
MANY = 15_000
MOST_S = 900
FIRST_OF_MANY = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder of good files, in another one where nothing may change."""
    made = tmp_path / "outer" / "scratch"
    made.mkdir(parents=True)
    prepare(made)
    return made


def assert_unharmed(folder: Path, first: int, count: int, *, most_s: float) -> None:
    good = ("good", "plain", "deflated", "sampled", "loose", "floored", "programmed", "executed")
    before = {name: listing(folder / name) for name in good}
    around = set(folder.parent.iterdir())
    stop_s = time.monotonic() + most_s

    bad = fuzz(folder, range(first, first + count), stop_s=stop_s)

    assert bad == []
    assert time.monotonic() < stop_s, "the cases did not end in time"
    assert {name: listing(folder / name) for name in good} == before
    assert set(folder.parent.iterdir()) == around


def test_some_damaged_files(folder: Path) -> None:
    assert_unharmed(folder, 0, FEW, most_s=MOST_S)


@pytest.mark.slow
def test_many_damaged_files(folder: Path) -> None:
    assert_unharmed(folder, FIRST_OF_MANY, MANY, most_s=MOST_S)


def test_the_fuzzer_sees_what_it_looks_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three cases one crashes, one says too much, and one is well."""
    number = len(KINDS) * 10

    def break_some(words: list[str]) -> int:
        if words[0] == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if words[0] == "tell":
            print("Traceback (most recent call last):")
        return 0

    kinds = tuple(
        lambda _folder, _chance, word=word: [[word]] for word in ("crash", "tell", "well")
    )
    monkeypatch.setattr("tests.support.fuzzing.KINDS", kinds)
    monkeypatch.setattr("tests.support.fuzzing.main", break_some)

    found = fuzz(folder, [number * 3, number * 3 + 1, number * 3 + 2])

    assert [(bad.case % 3, bad.what.split(":")[0]) for bad in found] == [
        (0, "SIGKILL"),
        (1, "tell"),
    ]


def test_a_case_is_the_same_each_time(folder: Path) -> None:
    assert run_case(folder, 5) == run_case(folder, 5) == []
    first = (folder / "bad" / "manifest.json").read_bytes()
    run_case(folder, 5)
    assert (folder / "bad" / "manifest.json").read_bytes() == first
