"""docs/reliability.md says what the tests do: numbers of cases, and a test for each promise."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.reliability import (
    test_crashes,
    test_determinism,
    test_failing_disk,
    test_fuzz,
    test_injection,
    test_killed,
    test_links,
    test_places,
)
from tests.support.hostile_archives import ARCHIVES
from tests.support.hostile_checkpoints import CHECKPOINTS
from tests.support.hostile_chunks import CHUNKS
from tests.support.hostile_dumps import DUMPS
from tests.support.hostile_manifests import FLOORS, MANIFESTS
from tests.support.hostile_texts import TEXTS
from tests.support.trial_commands import TEMPORARY

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def cases_of(words: str) -> int:
    """Give the number in the row of the page that begins with these words."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {words}")]
    return int(row.split("|")[2].split(",")[0].replace(" ", ""))


def cases_in(module: ModuleType) -> int:
    """Count the cases of all tests of a file, also of those with parameters."""
    count = 0
    for name, test in vars(module).items():
        if name.startswith("test_"):
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
            count += math.prod(len(mark.args[1]) for mark in marks)
    return count


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("hostile dumps", sum(map(len, (DUMPS, CHUNKS, MANIFESTS, FLOORS, ARCHIVES)))),
        ("hostile checkpoints", len(CHECKPOINTS)),
        ("hostile maps", len(TEXTS)),
        ("damaged step files", test_fuzz.MANY),
        ("a full disk with", test_places.PLACES),
        ("SIGINT and SIGTERM", test_places.SIGNALS),
        ("the folder that these write into vanishes", test_places.VANISHING),
        ("a full disk for temporary files", 2 * len(TEMPORARY)),
        ("models that crash", cases_in(test_crashes)),
        ("failing writes of a dump", cases_in(test_failing_disk)),
        ("two dumps of one run", cases_in(test_determinism)),
        ("names of modules", len(test_injection.NAMES)),
        ("links where padiff", cases_in(test_links)),
        ("`kill -9` at random moments of a recording", test_killed.MANY),
        ("the same of `padiff accept`", test_killed.MANY),
        ("the same of a report", test_killed.MANY),
    ],
)
def test_the_page_states_as_many_cases_as_there_are(words: str, count: int) -> None:
    assert cases_of(words) == count


def test_every_test_that_the_page_names_is_there() -> None:
    named = NAMED.findall(PAGE)

    assert len(named) > 20
    for file, name in named:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or f"def {name}(" in text, f"{file}::{name}"
