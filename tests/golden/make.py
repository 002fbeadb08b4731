"""Rewrite the golden files: ``make golden``. Say in the commit why they changed."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
SCHEMA = HERE.parents[1] / "docs" / "report.schema.json"
sys.path.insert(0, str(HERE.parents[1]))

from padiff.cli.output import json_pieces  # noqa: E402 -- found only through the path above
from padiff.comparer.report.json_report import schema  # noqa: E402
from tests.golden.cases import golden_reports  # noqa: E402


def main() -> None:
    """Write every golden file and remove those that no longer exist."""
    folder = HERE / "reports"
    reports = golden_reports()
    for path in folder.iterdir():
        if path.name not in reports:
            path.unlink()
    for name, text in reports.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
    SCHEMA.write_text("".join(json_pieces(schema())), encoding="utf-8")
    print(f"{len(reports)} reports in {folder.name}/")


if __name__ == "__main__":
    main()
