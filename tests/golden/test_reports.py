"""The committed reports are what is drawn today; ``make golden`` rewrites them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.cases import golden_reports

FOLDER = Path(__file__).parent / "reports"
REPORTS = golden_reports()


def test_there_are_golden_reports_and_no_stale_ones() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(REPORTS)
    assert REPORTS


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_report_is_as_committed(name: str) -> None:
    assert REPORTS[name].encode() == (FOLDER / name).read_bytes()
