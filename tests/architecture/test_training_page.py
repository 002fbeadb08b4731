"""Every test that docs/training.md names for one of its sentences is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| .+ \| `(tests/[\w/]+\.py)` \| (.+) \|$", re.MULTILINE)


def test_tests_named_on_the_training_page_exist() -> None:
    rows = ROW.findall((ROOT / "docs" / "training.md").read_text(encoding="utf-8"))
    assert len(rows) >= 10

    missing = [
        f"{file}: {name}"
        for file, names in rows
        for name in re.findall(r"`(\w+)`", names)
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]

    assert missing == []
