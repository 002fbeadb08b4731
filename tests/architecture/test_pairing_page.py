"""Every test that the page on pairing names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = sorted(
    set(
        re.findall(
            r"`((?:unit|property|frameworks|e2e|pairs)/[\w/]+\.py(?:::[^`]+)?)`",
            (ROOT / "docs" / "pairing.md").read_text(encoding="utf-8"),
        )
    )
)


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 50


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_or_case_exists(name: str) -> None:
    path, _, case = name.partition("::")

    text = (ROOT / "tests" / path).read_text(encoding="utf-8")

    assert f"def {case}(" in text or f'"{case}"' in text if case else "def test_" in text
