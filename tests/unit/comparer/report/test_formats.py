"""Every format can be parsed back, says the same, and lets no name out of its place."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from padiff.comparer.proving import Parting, Place
from padiff.comparer.report.csv_report import to_csv
from padiff.comparer.report.github import to_github
from padiff.comparer.report.html import to_html
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.junit import to_junit
from padiff.comparer.report.markdown import LIMIT, to_markdown
from padiff.comparer.report.overview_page import to_overview
from padiff.comparer.report.sarif import to_sarif
from padiff.comparer.result import Comparison, Kind, Verdict
from padiff.dumpfile import ConfigError
from padiff.program import Site
from tests.support.comparisons import (
    comparison,
    divergence,
    endpoint,
    metrics,
    pair,
    resnet_like,
    tree,
)
from tests.support.hostile_names import NASTY, named, read

if TYPE_CHECKING:
    from collections.abc import Callable


def changed(
    *, whole: dict[str, Any] | None = None, step_of: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make a report in which some entries are others."""
    data: Any = to_json(resnet_like())
    data["steps"][0] |= step_of or {}
    return {**data, **(whole or {})}


NO_SIDE = {"reference": None, "candidate": None, "verdict": "match"}
NO_ROOT = [{**changed()["steps"][0]["tree"][0], "parent": 0}]
DEEP = json.loads("[" * 100 + "]" * 100)
LOOSE = {
    "records": [
        {"step": 0, "pair": 99, "stride": 1, "spread": {
            "histogram": None, "heat": [], "heat_shape": [0, 0], "profiles": [], "mismatches": []}}
    ],
    "attributes": [],
    "left_out": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "found list"),
        ({"schema": "padiff-report/1"}, "expected schema 'padiff-report/2', found"),
        ({"schema": "padiff-report/2"}, "cannot read report: expected '.*', found no such entry"),
        (changed(step_of={"pairs": [7]}), r"report.steps\[0\].pairs\[0\]: expected an object"),
        (changed(whole={"inherited": 1}), "found an unknown entry 'inherited'"),
        (changed(step_of={"tree": NO_ROOT}), r"steps\[0\].tree\[0\]: expected id 0"),
        (changed(step_of={"pairs": [NO_SIDE]}), "found one that is on neither"),
        (changed(whole={"settings": {"mode": DEEP}}), "not nested too deeply"),
        (changed(whole={"details": LOOSE}), "details.records: expected a record of the report"),
    ],
)
def test_what_is_no_report_is_refused(data: Any, message: str) -> None:  # noqa: ANN401 -- any JSON
    with pytest.raises(ConfigError, match=message):
        read_report(data)


def test_junit_has_a_suite_per_phase_and_a_case_per_call() -> None:
    root = ET.fromstring(to_junit(read(resnet_like())))

    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["comparison", "forward", "backward"]
    forward = {case.get("name"): case for case in suites["forward"]}
    assert forward["conv1"].find("failure") is None
    failure = forward["layer2.0.bn1"].find("failure")
    assert failure is not None
    assert failure.get("type") == "origin"
    assert "max abs 0.01235" in (failure.text or "")
    assert forward["relu"].find("skipped") is None  # covered: judged elsewhere
    inherited = suites["backward"].find("testcase/skipped")
    assert inherited is not None
    assert "inherited from layer2.0.bn1" in inherited.get("message", "")
    assert len(list(root.iter("failure"))) == 1  # one for each origin


def test_junit_counts_are_those_of_its_cases() -> None:
    root = ET.fromstring(to_junit(read(resnet_like())))

    for suite in root:
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))
    assert int(root.get("tests", "")) == len(root.findall("testsuite/testcase"))


def test_junit_fails_for_reasons_that_belong_to_no_module() -> None:
    result = comparison([], tree([""], {}), reasons=("only 1 of 2 values were judged",))

    root = ET.fromstring(to_junit(read(result)))

    assert root.get("failures") == "1"


SARIF: Any = json.loads(
    (Path(__file__).parents[3] / "schemas" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
)
"""The schema of the standard, see ``tests/schemas/README.md``."""


@pytest.mark.parametrize("result", [resnet_like(), *map(named, NASTY)], ids=lambda _: "report")
def test_sarif_follows_the_schema_of_the_standard(result: Comparison) -> None:
    log: Any = json.loads(json.dumps(to_sarif(read(result)), allow_nan=False))

    jsonschema.Draft4Validator(SARIF).validate(log)

    run = log["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert run["results"]
    assert all(rules[found["ruleIndex"]] == found["ruleId"] for found in run["results"])


def test_sarif_points_at_the_candidates_source() -> None:
    log: Any = to_sarif(read(resnet_like()))

    found = log["runs"][0]["results"]
    assert len(found) == 1
    physical = found[0]["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "models/resnet.py"
    assert physical["region"]["startLine"] == 93
    assert "attribute eps" in found[0]["message"]["text"]


def test_sarif_of_a_divergence_without_origin_is_not_empty() -> None:
    log: Any = to_sarif(read(comparison([], tree([""], {}), reasons=("step 1 is missing",))))

    assert [found["message"]["text"] for found in log["runs"][0]["results"]] == [
        "step 1 is missing"
    ]


def test_what_has_no_source_stands_at_the_candidates_name() -> None:
    bare = replace(endpoint("fc"), call_site=None, module_source=None)
    lone = pair(bare, bare, Verdict.DIVERGED, kind=Kind.ORIGIN)
    whole = comparison([], tree([""], {}), reasons=("step 1 is missing",))

    for result in (comparison([lone], (), [divergence(lone)]), whole):
        log: Any = to_sarif(read(result))
        (found,) = log["runs"][0]["results"]
        physical = found["locations"][0]["physicalLocation"]
        assert physical["artifactLocation"]["uri"] == result.candidate.name
        assert f"file={result.candidate.name},line=1," in to_github(read(result))


def test_a_proved_origin_stands_at_the_line_that_was_proved_wrong() -> None:
    site = Site(file="models/block.py", line=19, function="forward")
    place = Place(operator="mul", module="fc", class_name="Block", site=site, operators=1)
    lone = pair(endpoint("fc"), endpoint("fc"), Verdict.DIVERGED, kind=Kind.ORIGIN)
    parted = replace(divergence(lone), faults=(Parting(reference=place, candidate=place),))

    assert to_github(read(comparison([lone], (), [parted]))).startswith(
        "::error file=models/block.py,line=19,"
    )


def test_markdown_leads_with_verdict_and_origin() -> None:
    lines = to_markdown(read(resnet_like())).splitlines()

    assert lines[0] == "## padiff: DIVERGED"
    text = "\n".join(lines)
    assert "### Origin 1: `layer2.0.bn1` (forward)" in lines
    assert "1 judged elsewhere" in text


def test_markdown_stays_below_its_limit_and_says_what_it_left_out() -> None:
    bad = pair(endpoint("m" * 150), endpoint("m" * 150), Verdict.DIVERGED, measured=metrics())
    result = comparison(
        [bad] * 5000, tree([""], {}), reasons=("r" * 1000,), notes=("n" * 500,) * 500
    )

    text = to_markdown(read(result))

    assert len(text.encode()) < LIMIT
    assert re.search(r"\d+ more records diverged", text)


def test_csv_has_a_row_for_each_record() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(read(resnet_like())))))

    assert [row["verdict"] for row in rows] == [
        "match", "covered", "diverged", "diverged", "diverged",
    ]  # fmt: skip
    assert rows[2]["reference_module"] == "layer2.0.bn1"
    assert float(rows[2]["max_abs"]) == 0.0123456


def test_annotation_of_a_match_is_a_notice() -> None:
    fine = comparison([pair(endpoint("fc"), endpoint("fc"))], tree([""], {}))

    assert to_github(read(fine)).startswith("::notice title=padiff::padiff%3A".replace("%3A", ":"))


class _Page(HTMLParser):
    """Collects what is in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("draw", [to_html, to_overview])
@pytest.mark.parametrize("name", NASTY)
def test_no_name_becomes_markup_in_a_page(name: str, draw: Callable[[Comparison], str]) -> None:
    text = draw(named(name))

    page = _Page()
    page.feed(text)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2
    assert not [tag for tag, _ in page.tags if tag in ("x", "img", "iframe", "a") and tag != "a"]
    assert "\x1b" not in text
    assert "\u202e" not in text
    text.encode("utf-8")


@pytest.mark.parametrize("draw", [to_html, to_overview])
def test_page_loads_nothing_and_runs_only_its_own_script(
    draw: Callable[[Comparison], str],
) -> None:
    page = _Page()
    page.feed(draw(resnet_like()))

    loads = [(tag, found) for tag, found in page.tags if {"src", "href", "srcset"} & set(found)]
    assert [found.get("href") for _, found in loads] in (["#tree"], ["#map"])
    assert not [found for _, found in page.tags if any(name.startswith("on") for name in found)]
    policy = next(found["content"] for tag, found in page.tags if found.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_page_needs_nothing_but_the_json() -> None:
    result = resnet_like()

    assert to_html(read(result)) == to_html(result)
    assert to_overview(read(result)) == to_overview(result)


def test_markdown_says_what_verdicts_rest_on_where_elements_are_missing() -> None:
    sampled = pair(endpoint("fc"), endpoint("fc"), measured=metrics(1e-9))
    result = comparison([replace(sampled, sampled_of=90_000)], tree([""], {}))
    whole = comparison([sampled], tree([""], {}))

    assert "- rests on: 1 on a sample of the elements" in to_markdown(read(result))
    assert "rests on" not in to_markdown(read(whole))


def of_two_steps(count: int) -> Comparison:
    """Give a comparison in which so many records of step 0 and one of step 3 diverged."""
    known = [endpoint(f"fc{number}") for number in range(count)]
    found = [pair(end, end, Verdict.DIVERGED, kind=Kind.ORIGIN) for end in known]
    whole = comparison(found, (), [divergence(found[0])])
    end = replace(known[0], address=replace(known[0].address, step=3, rank=1))
    last = replace(whole.steps[0], step=3, rank=1, pairs=(replace(found[0], reference=end),))
    return replace(whole, steps=(*whole.steps, last))


def test_several_steps_are_told_apart() -> None:
    result = of_two_steps(2)
    text, page = to_markdown(read(result)), to_html(result)

    assert "(forward, step 0)" in text
    assert "| step | module | record |" in text
    assert "| 0 | `fc1` |" in text
    assert "| 3 rank 1 | `fc0` |" in text
    assert "forward, step 0" in page
    assert "step 3 rank 1" in page
    assert "step" not in to_markdown(read(replace(result, steps=result.steps[:1], reasons=())))


def test_a_long_list_of_records_opens_at_a_click() -> None:
    long, short = (to_markdown(read(of_two_steps(count))) for count in (30, 5))

    assert "<details><summary>31 records</summary>\n\n| step |" in long
    assert long.rstrip().endswith("</details>")
    assert "<details>" not in short
