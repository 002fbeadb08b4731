"""Dumps that are larger than what memory they may take, and those that need not be read."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from padiff.comparer import CompareSettings, compare
from padiff.dumpfile import StepFile, validate
from tests.support.sparse_dumps import write_sparse

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.dumpfile import ValueInfo

MIB = 1 << 20
COMPARE = """
import json, sys
from pathlib import Path
from benchmarks.memory import peak_bytes
from padiff.comparer import CompareSettings, compare, measure  # loaded before it counts
before = peak_bytes()
found = compare(Path(sys.argv[1]), Path(sys.argv[2]), CompareSettings(jobs=int(sys.argv[3])))
print(json.dumps([found.verdict, len(found.steps[0].pairs), peak_bytes() - before]))
"""


def test_a_sparse_dump_is_one(tmp_path: Path) -> None:
    place = write_sparse(tmp_path / "known", 3, 5 * MIB, seed=1)

    assert validate(place, deep=False) == []
    assert sum(file.stat().st_blocks * 512 for file in place.rglob("*.h5")) < MIB
    assert sum(file.stat().st_size for file in place.rglob("*.h5")) > 60 * MIB


@pytest.mark.parametrize("jobs", [1, 2])
def test_memory_does_not_grow_with_the_dump(tmp_path: Path, jobs: int) -> None:
    """768 MiB in all; what is mapped is given back every 64 MiB."""
    places = [write_sparse(tmp_path / str(seed), 12, 8 * MIB, seed=seed) for seed in (1, 2)]

    done = subprocess.run(
        [sys.executable, "-c", COMPARE, *map(str, places), str(jobs)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )

    verdict, pairs, peak = json.loads(done.stdout)
    assert (verdict, pairs) == ("match", 13)
    assert peak < 256 * MIB


def test_nothing_is_read_of_equal_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [write_sparse(tmp_path / name, 5, 1000, seed=1) for name in ("known", "found")]
    read: list[int] = []
    elements = StepFile._elements

    def counted(file: StepFile, value: ValueInfo, size: int) -> object:
        read.append(value.id)
        return elements(file, value, size)

    monkeypatch.setattr(StepFile, "_elements", counted)
    same = compare(places[0], places[1], CompareSettings())
    read_of_equal = list(read)
    other = write_sparse(tmp_path / "other", 5, 1000, seed=2)
    compare(places[0], other, CompareSettings())

    assert (read_of_equal, sorted(set(read))) == ([], [0, 1, 2, 3, 4])
    assert all(pair.equal_digest for pair in same.steps[0].pairs)
