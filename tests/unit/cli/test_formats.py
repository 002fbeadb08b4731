"""Which reports are written, and what is made for them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from padiff.cli.formats import Wanted
from padiff.comparer import CompareSettings, Comparison, compare
from padiff.comparer.judgedpairs import Later
from padiff.comparer.report.json_report import to_json
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path


def _refuse() -> NoReturn:
    raise AssertionError("nobody needs this")


def refusing(result: Comparison, *names: str) -> Comparison:
    """Return a result whose long parts of some names must not be looked at."""
    parts: dict[str, Any] = {name: Later(_refuse) for name in names}
    return replace(result, steps=[replace(step, **parts) for step in result.steps])


@pytest.fixture
def result(tmp_path: Path) -> Comparison:
    return compare(*tiny_pair(tmp_path, eps=0.5), CompareSettings())


def test_no_report_is_made_where_only_the_text_is_wanted(
    result: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = refusing(result, "pairs", "tree", "pairing", "calls")

    Wanted().write(bare, lambda: "they match\n")

    assert capsys.readouterr().out == "they match\n"


def test_what_names_origins_alone_makes_no_record(
    result: Comparison, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "origins.sarif"
    bare = refusing(result, "pairs", "tree", "pairing", "calls")

    Wanted(files={"sarif": place}, github=True).write(bare, None)

    assert "norm" in json.loads(place.read_text())["runs"][0]["results"][0]["message"]["text"]
    assert "::error" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["junit", "markdown", "csv"])
def test_what_looks_at_records_needs_neither_tree_nor_pairing(
    result: Comparison, name: str, tmp_path: Path
) -> None:
    Wanted(files={name: tmp_path / "found"}).write(
        refusing(result, "tree", "pairing", "calls"), None
    )

    assert (tmp_path / "found").read_text()


def test_every_document_is_written_as_if_alone(result: Comparison, tmp_path: Path) -> None:
    names = ("json", "junit", "sarif", "markdown", "csv")
    for folder in ("alone", "together"):
        (tmp_path / folder).mkdir()

    for name in names:
        Wanted(files={name: tmp_path / "alone" / name}).write(result, None)
    together = {name: tmp_path / "together" / name for name in names}
    Wanted(files=together).write(result, None)

    for name in names:
        assert (tmp_path / "alone" / name).read_bytes() == together[name].read_bytes()
    assert json.loads(together["json"].read_text()) == to_json(result)
