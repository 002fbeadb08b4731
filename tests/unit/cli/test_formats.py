"""Which reports are written, and what is made for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from padiff.cli.formats import Wanted
from padiff.comparer import CompareSettings, compare
from padiff.comparer.report.json_report import report_parts, to_json
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from padiff.comparer.report.json_report import ReportParts


def _refuse() -> NoReturn:
    raise AssertionError("nobody asked for JSON")


def test_no_json_is_made_where_only_the_text_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    Wanted().write(_refuse, lambda: "they match\n")

    assert capsys.readouterr().out == "they match\n"


def _parts(path: Path) -> ReportParts:
    """Give a report whose long lists must not be looked at."""
    parts = report_parts(compare(*tiny_pair(path, eps=0.5), CompareSettings()))
    return {
        name: (_refuse() for _ in (0,)) if isinstance(part, Iterator) else part
        for name, part in parts.items()
    }


def test_what_names_origins_alone_makes_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "origins.sarif"
    wanted = Wanted(files={"sarif": place}, github=True)

    wanted.write(lambda: _parts(tmp_path), None)

    assert "norm" in json.loads(place.read_text())["runs"][0]["results"][0]["message"]["text"]
    assert "::error" in capsys.readouterr().out


def test_every_document_is_written_as_if_alone(tmp_path: Path) -> None:
    result = compare(*tiny_pair(tmp_path, eps=0.5), CompareSettings())
    names = ("json", "junit", "sarif", "markdown", "csv")
    for folder in ("alone", "together"):
        (tmp_path / folder).mkdir()

    for name in names:
        Wanted(files={name: tmp_path / "alone" / name}).write(lambda: report_parts(result), None)
    together = {name: tmp_path / "together" / name for name in names}
    Wanted(files=together).write(lambda: report_parts(result), None)

    for name in names:
        assert (tmp_path / "alone" / name).read_bytes() == together[name].read_bytes()
    assert json.loads(together["json"].read_text()) == to_json(result)
