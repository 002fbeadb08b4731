"""Every example of docs/python.md runs, in the order of the page, and prints what stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_example_runs_and_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert {kind for kind, _ in blocks} == {"python", "text"}
    known: dict[str, Any] = {"__name__": "page"}
    printed = ""

    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, str(PAGE), "exec"), known)
            printed = capsys.readouterr().out
        else:
            assert text.strip() in printed

    assert (tmp_path / "reports" / "report.html").is_file()
    assert len(known["result"].report().splitlines()) > 20
