"""Measured noise floors instead of fixed tolerances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.baseline import accept
from padiff.comparer.judging.noise import FloorSide, Noise
from padiff.dumpfile import (
    Address,
    ConfigError,
    DumpFormatError,
    Floor,
    Phase,
    RecordFloor,
    Role,
    open_dump,
    read_floor,
    write_floor,
)
from padiff.dumpfile.packed import pack, unpacked
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def written(path: Path, change: float = 0.0, floor: float | None = None) -> Path:
    built = DumpBuilder().module("", "Net").module("m", "Layer")
    built.enter("", inputs=[X]).call("m", inputs=[X], outputs=[X + np.float32(change)])
    made = built.leave(outputs=[X + np.float32(change)]).write(path)
    if floor is not None:
        records = len(open_dump(made).open().index.records)
        row = RecordFloor(max_abs=floor, rms=floor / 2)
        write_floor(
            made,
            Floor(repeats=3, perturb="ulp", records={(0, 0): (row,) * (records - 1) + (None,)}),
        )
    return made


def test_a_floor_is_read_as_it_was_written(tmp_path: Path) -> None:
    floor = Floor(
        repeats=2,
        perturb="none",
        records={(0, 0): (RecordFloor(max_abs=np.inf, rms=0.5), None), (3, 1): ()},
    )

    write_floor(tmp_path, floor)

    assert read_floor(tmp_path) == floor


def test_a_dump_without_floor_has_none(tmp_path: Path) -> None:
    assert read_floor(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "padiff-floor"}'])
def test_what_is_no_floor_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "floor.json").write_text(text)

    with pytest.raises(DumpFormatError, match="noise floor"):
        read_floor(tmp_path)


def test_packing_and_accepting_keep_the_floor(tmp_path: Path) -> None:
    made = written(tmp_path / "dump", floor=1.0)
    pack(made, tmp_path / "dump.padiff.zip")

    accept(tmp_path / "baseline", made, reason="new", command=[])

    with unpacked(tmp_path / "dump.padiff.zip") as again:
        assert read_floor(again) == read_floor(made) == read_floor(tmp_path / "baseline")


def test_a_floor_that_lacks_the_step_is_an_error(tmp_path: Path) -> None:
    known = written(tmp_path / "known")
    write_floor(known, Floor(repeats=1, perturb="ulp", records={(7, 0): ()}))

    with pytest.raises(ConfigError, match="none for step 0"):
        compare(known, written(tmp_path / "found"), CompareSettings(floor=FloorSide.REFERENCE))


def test_a_floor_of_other_records_is_refused(tmp_path: Path) -> None:
    known = written(tmp_path / "known")
    write_floor(known, Floor(repeats=1, perturb="ulp", records={(0, 0): (None,)}))

    with pytest.raises(DumpFormatError, match="rows"):
        compare(known, written(tmp_path / "found"), CompareSettings(floor=FloorSide.REFERENCE))


def test_a_dump_with_a_floor_can_be_replaced(tmp_path: Path) -> None:
    written(tmp_path / "dump", floor=1.0)

    written(tmp_path / "dump")

    assert read_floor(tmp_path / "dump") is None


@pytest.mark.parametrize(
    ("change", "expected"), [(0.0045, Verdict.MATCH), (0.02, Verdict.DIVERGED)]
)
def test_the_factor_times_the_floor_decides(
    change: float, expected: Verdict, tmp_path: Path
) -> None:
    known = written(tmp_path / "known", floor=1e-3)
    noise = Noise(reference=(RecordFloor(max_abs=1e-3, rms=0),), candidate=None, factor=10.0)
    allowed = noise.of([0], 0)
    assert allowed == pytest.approx(1e-2)

    found = compare(
        known, written(tmp_path / "found", change), CompareSettings(floor=FloorSide.REFERENCE)
    )

    inner = next(
        pair
        for pair in found.steps[0].pairs
        if pair.reference is not None
        and (pair.reference.address.module, pair.reference.address.role) == ("m", Role.OUTPUT)
    )
    assert inner.verdict is expected


def test_a_side_without_floor_is_an_error(tmp_path: Path) -> None:
    paths = written(tmp_path / "known", floor=1e-3), written(tmp_path / "found")

    with pytest.raises(ConfigError, match="noise floor of the candidate"):
        compare(*paths, CompareSettings(floor=FloorSide.BOTH))


def test_the_larger_side_counts() -> None:
    noise = Noise(
        reference=(RecordFloor(max_abs=1.0, rms=0), None),
        candidate=(RecordFloor(max_abs=3.0, rms=0), None),
        factor=2.0,
    )

    assert (noise.of([0], 0), noise.of([0, 1], 1), noise.of([1], 1)) == (6.0, 2.0, None)


ADDRESS = Address(
    step=0, rank=0, module="m", class_name="M", call=0, phase=Phase.FORWARD,
    role=Role.OUTPUT, slot="",
)  # fmt: skip


@pytest.mark.parametrize(
    ("reference", "candidate", "expected", "note"),
    [
        (1e-3, 5e-3, Verdict.MATCH, 0),
        (1e-3, 2e-2, Verdict.DIVERGED, 0),
        (1e-2, 1e-4, Verdict.MATCH, 1),
        (0.0, 1e-2, Verdict.DIVERGED, 0),
    ],
)
def test_the_golden_run_tells_whose_error_is_larger(
    reference: float, candidate: float, expected: Verdict, note: int, tmp_path: Path
) -> None:
    paths = [
        written(tmp_path / name, change)
        for name, change in (("golden", 0.0), ("known", reference), ("found", candidate))
    ]

    found = compare(paths[1], paths[2], CompareSettings(golden=paths[0], floor_factor=10.0))

    assert found.verdict is expected
    assert len([line for line in found.notes if "more precise" in line]) == note
