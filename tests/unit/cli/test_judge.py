"""``padiff judge``: a report decided again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from padiff.cli.judge import judge
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.judging.rejudge import rejudge
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import ConfigError
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path


def paths(tmp_path: Path) -> tuple[Path, Path]:
    known = tiny_net().write(tmp_path / "known")
    return known, tiny_net(weight_change=1e-3).write(tmp_path / "found")


@pytest.mark.parametrize("atol", [1e-6, 1e-4, 3e-3, 1e-1, 10.0])
@pytest.mark.parametrize("rtol", [0.0, 1e-3, 1.0])
def test_judging_again_is_comparing_again(atol: float, rtol: float, tmp_path: Path) -> None:
    known, found = paths(tmp_path)
    report = compare(known, found, CompareSettings())
    wanted = compare(known, found, CompareSettings(atol=atol, rtol=rtol))

    again = rejudge(report, atol=atol, rtol=rtol)

    measured = [pair for pair in wanted.steps[0].pairs if pair.metrics is not None]
    assert [pair.agrees for pair in again.pairs] == [
        pair.verdict is Verdict.MATCH for pair in measured
    ]


def test_exit_codes_and_the_smallest_tolerance(tmp_path: Path) -> None:
    place = tmp_path / "report.json"
    place.write_text(json.dumps(to_json(compare(*paths(tmp_path), CompareSettings()))))
    run = CliRunner().invoke

    strict = run(judge, [str(place)], standalone_mode=False)
    loose = run(judge, [str(place), "--atol", "100"], standalone_mode=False)

    assert (strict.return_value, loose.return_value) == (1, 0)
    assert "would pass with --atol" in strict.output
    assert loose.output.startswith("MATCH")


def test_what_the_report_does_not_decide_is_listed_with_exit_code_two(tmp_path: Path) -> None:
    place = tmp_path / "report.json"
    found = compare(*paths(tmp_path), CompareSettings(atol=10.0, rtol=0.0, max_mismatched=0.5))
    place.write_text(json.dumps(to_json(found)))

    result = CliRunner().invoke(judge, [str(place), "--atol", "1e-4"], standalone_mode=False)

    assert found.verdict is Verdict.MATCH
    assert result.return_value == 2
    assert result.output.startswith("UNDECIDED")
    assert "too little of its elements" in result.output


@pytest.mark.parametrize("data", [[], {}, {"schema": "other"}, {"schema": "padiff-report/1"}])
def test_what_is_no_report_is_refused(data: object, tmp_path: Path) -> None:
    place = tmp_path / "report.json"
    place.write_text(json.dumps(data))

    result = CliRunner().invoke(judge, [str(place)], standalone_mode=False)

    assert isinstance(result.exception, ConfigError)


def test_numbers_beyond_float64_in_a_report_are_refused(tmp_path: Path) -> None:
    report = compare(*paths(tmp_path), CompareSettings())
    settings = {**report.settings, "rtol": 10**400}

    with pytest.raises(ConfigError, match="expected a number for 'rtol', found 10000"):
        rejudge(replace(report, settings=settings), atol=1e-3, rtol=None)
    with pytest.raises(ConfigError, match="rtol must be a finite number >= 0"):
        CompareSettings(rtol=10**400)
