"""No name does anything in a report of any format but stand there."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from xml.etree import ElementTree as ET

import pytest

from padiff.comparer.report.csv_report import to_csv
from padiff.comparer.report.github import to_github
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.junit import to_junit
from padiff.comparer.report.markdown import to_markdown
from padiff.comparer.report.sarif import to_sarif
from tests.support.drawing import draw
from tests.support.hostile_names import NASTY, named, read


@pytest.mark.parametrize("name", NASTY)
def test_no_name_becomes_a_link_in_sarif(name: str) -> None:
    log = json.loads(json.dumps(to_sarif(read(named(name)))))

    texts = [found["message"]["text"] for run in log["runs"] for found in run["results"]]
    assert texts
    assert not [text for text in texts if "](" in text]


@pytest.mark.parametrize("name", NASTY)
def test_no_csv_cell_starts_a_formula(name: str) -> None:
    table = to_csv(read(named(name)))
    rows = list(csv.reader(io.StringIO(table)))

    assert len(table.splitlines()) == len(rows) == 3
    for cell in (cell for row in rows for cell in row):
        assert not cell.startswith(("=", "+", "@", "\t", "\r", "|", "%"))
        assert not re.match(r"-(?!\d)", cell)
        assert not cell.startswith("\uff1d")
        assert not re.search(r";[ \"]*[-=+@|%]", cell)  # another cell where ; stands between them
        table.encode("utf-8")


@pytest.mark.parametrize("name", NASTY)
def test_no_name_breaks_out_of_an_annotation(name: str) -> None:
    text = to_github(read(named(name)))

    assert text.isprintable() or text.count("\n") == 1
    assert len(text.splitlines()) == 1
    command = re.fullmatch(r"::error ((?:\w+=[^,:]*,?)+)::(.*)\n", text)
    assert command is not None
    assert set(re.findall(r"(\w+)=", re.sub(r"=[^,]*", "=", command[1]))) == {
        "file", "line", "title",
    }  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_no_name_breaks_junit(name: str) -> None:
    text = to_junit(read(named(name)))

    root = ET.fromstring(text.encode("utf-8"))
    assert {child.tag for child in root.iter()} == {
        "testsuites", "testsuite", "testcase", "failure", "system-out",
    }  # fmt: skip
    assert "\x1b" not in text


@pytest.mark.parametrize("name", NASTY)
def test_no_name_becomes_markdown(name: str) -> None:
    text = to_markdown(read(named(name)))

    text.encode("utf-8")
    assert "\x1b" not in text
    text = re.sub(r"`[^`|\\<>&@\n]+`", "", text)  # within which nothing is markup
    for bad in ("<script", "<x/>", "](javascript", "@everyone", "https://", "`"):
        assert bad not in text
    assert not [line for line in text.splitlines() if line.startswith("::")]
    read_by_people = html.unescape(re.sub(r"<code>.*?</code>", "", text))
    assert not re.search(r"@\w|#\d", read_by_people)  # where GitHub looks for mentions


@pytest.mark.parametrize("name", NASTY)
def test_no_name_reaches_the_terminal_as_it_is(name: str) -> None:
    result = named(name)

    for found in (result, read(result)):
        text = draw(found, verbose=True, explain_pairing=True)
        assert all(char.isprintable() for line in text.splitlines() for char in line)
        assert text.isascii()
        assert not [line for line in text.splitlines() if line.startswith("::")]


@pytest.mark.parametrize("name", NASTY)
def test_no_name_breaks_the_json(name: str) -> None:
    text = json.dumps(to_json(named(name)), allow_nan=False, ensure_ascii=True)

    assert text.isprintable()
    assert read_report(json.loads(text)).steps[0].pairs[0].end.address.module == name
