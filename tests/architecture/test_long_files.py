"""The files that workers begin with are files of tests."""

from __future__ import annotations

from pathlib import Path

from tests.support.long_files import LONG

TESTS = Path(__file__).parents[1]


def test_each_long_file_is_there_and_named_once() -> None:
    assert [name for name in LONG if not (TESTS / f"{name}.py").is_file()] == []
    assert len(LONG) == len(set(LONG))
