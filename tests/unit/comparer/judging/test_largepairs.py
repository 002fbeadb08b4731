"""Large pairs go to other processes and come back as they were measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import Tolerance, measure
from padiff.comparer.judging import largepairs
from padiff.comparer.judging.largepairs import (
    PAIR_BYTES,
    LargePair,
    LargePairs,
    measure_share,
)
from padiff.dumpfile import VERSION, CompareError, DumpFormatError, digest_of
from padiff.dumpfile.extent import Extent, FileId, MappedFiles

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]
TOLERANCE = Tolerance(atol=1e-3, rtol=1e-2)


def extent_of(path: Path, array: Array) -> Extent:
    """Write an array behind some bytes, and give its place."""
    path.write_bytes(b"12345678" + array.tobytes())
    with path.open("rb") as file:
        found = FileId.of(file.fileno())
    return Extent(str(path), found, 8, array.size, str(array.dtype), digest_of(array))


def pair_of(tmp_path: Path, place: int, known: Array, found: Array) -> LargePair:
    return LargePair(
        place=place,
        reference=extent_of(tmp_path / f"known{place}", known),
        candidate=extent_of(tmp_path / f"found{place}", found),
        shape=known.shape,
        tolerance=TOLERANCE,
        mean=True,
    )


def arrays(values: list[float]) -> tuple[Array, Array]:
    known = np.linspace(0.0, 1.0, 6, dtype=np.float32).reshape(2, 3)
    found = known.copy()
    found.reshape(-1)[: len(values)] = values
    return known, found


@pytest.mark.parametrize(
    "values",
    [[], [0.5], [math.nan, math.inf], [0.0, 1e-30]],
    ids=["equal", "infinite relatively", "nan and inf", "tiny"],
)
def test_a_share_gives_what_measuring_gives(tmp_path: Path, values: list[float]) -> None:
    known, found = arrays(values)
    pair = pair_of(tmp_path, 7, known, found)

    ((place, metrics),) = measure_share([pair], VERSION)

    assert place == 7
    assert repr(metrics) == repr(measure(known, found, TOLERANCE, mean=True))


def test_a_share_refuses_damaged_elements(tmp_path: Path) -> None:
    pair = pair_of(tmp_path, 7, *arrays([0.5]))
    path = tmp_path / "found7"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")

    with pytest.raises(DumpFormatError, match="digest"):
        measure_share([pair], VERSION)


def test_a_share_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompareError, match="expected padiff"):
        measure_share([pair_of(tmp_path, 7, *arrays([0.5]))], "0.0.9")


def test_another_machine_knows_a_file_by_its_elements(tmp_path: Path) -> None:
    known, found = arrays([0.5])
    pair = pair_of(tmp_path, 7, known, found)
    elsewhere = FileId(device=1, inode=2, size_bytes=3)
    held = replace(pair, reference=replace(pair.reference, file=elsewhere))

    with pytest.raises(DumpFormatError, match="replaced"):
        measure_share([held], VERSION)
    assert measure_share([largepairs._anywhere(held)], VERSION) == measure_share([pair], VERSION)

    path = tmp_path / "found7"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DumpFormatError, match="bytes"):
        measure_share([largepairs._anywhere(pair)], VERSION)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes however little there is to do."""
    monkeypatch.setattr(largepairs, "WORTH_BYTES", 0)
    monkeypatch.setattr(largepairs, "HEAD_START_BYTES", 0)


@pytest.mark.usefixtures("at_once")
def test_other_processes_measure_their_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('code of the folder we are in')")
    monkeypatch.chdir(tmp_path)
    both = arrays([0.5])
    pairs = [pair_of(tmp_path, place, *both) for place in range(5)]

    with LargePairs(pairs, jobs=2) as large:
        found = dict(large.results())

    expected = measure(*both, TOLERANCE, mean=True)
    assert found == dict.fromkeys(large.others, expected)
    assert len(found) == 2


def test_many_pairs_are_worth_a_process_though_they_are_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largepairs, "WORTH_BYTES", 5 * PAIR_BYTES)
    monkeypatch.setattr(largepairs, "HEAD_START_BYTES", 0)
    pairs = [pair_of(tmp_path, place, *arrays([])) for place in range(5)]

    with LargePairs(pairs, jobs=2) as many, LargePairs(pairs[1:], jobs=2) as few:
        pass

    assert (len(many.others), len(few.others)) == (2, 0)


@pytest.mark.parametrize(("jobs", "loads"), [(1, [21]), (2, [11, 10]), (3, [7, 7, 7]), (9, None)])
def test_shares_have_about_as_many_bytes(
    tmp_path: Path, jobs: int, loads: list[int] | None
) -> None:
    pairs = []
    for place in range(6):
        array = np.zeros(place + 1, np.float32)
        pairs.append(pair_of(tmp_path, place, array, array))

    shares = largepairs._shares(pairs, jobs, 0)

    assert sorted(pair.place for share in shares for pair in share) == list(range(6))
    found = [sum(pair.nbytes for pair in share) // 8 for share in shares]
    assert sorted(found, reverse=True) == (loads or [6, 5, 4, 3, 2, 1, 0, 0, 0])


def test_this_process_has_a_head_start(tmp_path: Path) -> None:
    pairs = [pair_of(tmp_path, place, *arrays([])) for place in range(3)]

    shares = largepairs._shares(pairs, 2, largepairs.HEAD_START_BYTES)

    assert [len(share) for share in shares] == [3, 0]


def test_a_file_that_was_replaced_is_not_read(tmp_path: Path) -> None:
    array = np.ones(4, np.float32)
    extent = extent_of(tmp_path / "known", array)
    assert MappedFiles().array(extent).tolist() == [1.0] * 4

    (tmp_path / "known").unlink()
    (tmp_path / "held").write_bytes(b"")  # takes the number of the file that was there
    extent_of(tmp_path / "known", array)

    with pytest.raises(DumpFormatError, match="replaced"):
        MappedFiles().array(extent)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    extent = extent_of(tmp_path / "known", np.ones(4, np.float32))
    (tmp_path / "known").rename(tmp_path / "moved")
    (tmp_path / "known").symlink_to(tmp_path / "moved")

    with pytest.raises(DumpFormatError):
        MappedFiles().array(extent)
