"""Archived dumps of the present format version are read as they were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from padiff.comparer import CompareSettings, compare
from padiff.comparer.result import Verdict
from padiff.dumpfile import FORMAT_VERSION, open_dump, read_floor, validate
from tests.golden.make_dumps import describe
from tests.support.dumps import write_dump
from tests.support.tiny_net import tiny_net

FOLDER = Path(__file__).parent / "dumps"
DUMPS = sorted(path.parent for path in FOLDER.glob("version_*/*/manifest.json"))


def test_there_are_dumps_of_the_present_version() -> None:
    versions = {open_dump(dump).manifest.format_version for dump in DUMPS}

    assert versions == {FORMAT_VERSION}


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: f"{dump.parent.name}-{dump.name}")
def test_an_archived_dump_is_whole_and_says_what_it_said(dump: Path) -> None:
    expected = json.loads(dump.with_suffix(".json").read_text(encoding="ascii"))

    assert validate(dump, deep=True) == []
    assert [describe(dump, step) for step in range(len(expected))] == expected
    assert len(expected[0]) > 10
    assert (read_floor(dump) is not None) is (dump.name == "full")


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: f"{dump.parent.name}-{dump.name}")
def test_an_archived_dump_compares_with_one_of_today(dump: Path, tmp_path: Path) -> None:
    fresh = write_dump(tmp_path / "net", *(tiny_net(step=step) for step in range(2)))

    assert compare(dump, fresh, CompareSettings()).verdict is Verdict.MATCH
    assert compare(fresh, dump, CompareSettings()).verdict is Verdict.MATCH
