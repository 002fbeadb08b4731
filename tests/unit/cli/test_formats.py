"""Which reports are written, and what is made for them."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

from padiff.cli.formats import Wanted
from padiff.comparer import CompareSettings, compare
from padiff.comparer.report.json_report import report_parts, to_json
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.report.json_report import ReportParts
    from padiff.dumpfile import JSON


def _refuse() -> NoReturn:
    raise AssertionError("nobody asked for JSON")


def test_no_json_is_made_where_only_the_text_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    Wanted().write(_refuse, lambda: "they match\n")

    assert capsys.readouterr().out == "they match\n"


class Entry(dict[str, "JSON"]):
    """An object that can be seen to go."""


def _parts(path: Path) -> ReportParts:
    """Give a report whose long lists must not be looked at."""
    return _refusing(report_parts(compare(*tiny_pair(path, eps=0.5), CompareSettings())))


def _refusing(parts: ReportParts) -> ReportParts:
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


@pytest.mark.parametrize("name", ["junit", "markdown", "csv", "html"])
def test_what_looks_at_records_keeps_no_json_and_only_the_page_has_the_tree(
    name: str, tmp_path: Path
) -> None:
    result = compare(*tiny_pair(tmp_path, eps=0.5), CompareSettings())
    made: list[weakref.ref[Entry]] = []
    alive: list[int] = []

    def pairs(entries: Iterator[JSON]) -> Iterator[JSON]:
        for entry in entries:
            assert isinstance(entry, dict)
            alive.append(sum(one() is not None for one in made))
            held = Entry(entry)
            made.append(weakref.ref(held))
            yield held
            del held

    def make() -> ReportParts:
        parts = report_parts(result)
        whole = parts["pairs"]
        assert isinstance(whole, Iterator)
        return {**(parts if name == "html" else _refusing(parts)), "pairs": pairs(whole)}

    Wanted(files={name: tmp_path / "found"}).write(make, None)

    assert len(made) > 10
    assert max(alive) <= 2


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
