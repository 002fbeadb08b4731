"""Layouts in a dump: what is written is read, and what contradicts itself is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.dumpfile import (
    DumpWriter,
    Layout,
    Mesh,
    ModuleInfo,
    Phase,
    ProblemKind,
    Role,
    open_dump,
    validate,
)
from padiff.dumpfile.indexcodec import decode_index
from tests.support.dumps import manifest
from tests.support.indexes import datasets_of, document_of, read_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TP = Mesh(dims=("tp",), sizes=(2,), ranks=(0, 1))
GRID = Mesh(dims=("dp", "tp"), sizes=(2, 2), ranks=(0, 1, 2, 3))
PLACED = {
    ".split": Layout(mesh=TP, placements=("S(0)",), shape=(4, 3)),
    ".whole": Layout(mesh=TP, placements=("R",), shape=(2, 3)),
    ".grid": Layout(mesh=GRID, placements=("S(0;2)", "P(sum)"), shape=(5, 3)),
    ".plain": None,
}


def write(place: Path, *, ranks: tuple[int, ...] = (0,)) -> Path:
    """Write a step with one weight of two rows for each layout."""
    with DumpWriter(place) as writer:
        for rank in ranks:
            with writer.step(0, rank) as step:
                root = ModuleInfo(id=0, path="", class_name="M", class_path="m.M", parent=None)
                step.add_modules((root,))
                for number, (slot, layout) in enumerate(PLACED.items()):
                    step.add_record(
                        module=0,
                        call=None,
                        phase=Phase.FORWARD,
                        role=Role.WEIGHT,
                        slot=slot,
                        order=number,
                        shape=(2, 3),
                        value=step.store(np.full((2, 3), number + rank)),
                        layout=layout,
                    )
        return writer.commit(manifest(name=place.name))


def test_layouts_are_read_as_they_were_written(tmp_path: Path) -> None:
    dump = open_dump(write(tmp_path / "m", ranks=(0, 1)))

    for rank in (0, 1):
        with dump.open(0, rank) as file:
            assert {one.slot: one.layout for one in file.index.records} == PLACED
            assert file.index.meshes == (TP, GRID)
    assert dump.manifest.meshes == (TP, GRID)
    assert dump.problems() == []


def test_equal_index_with_other_layouts_is_read_anew(tmp_path: Path) -> None:
    first = open_dump(write(tmp_path / "m"))
    before = dict(PLACED)
    PLACED[".split"] = Layout(mesh=TP, placements=("S(1)",), shape=(2, 6))
    try:
        other = open_dump(write(tmp_path / "n"))
        with first.open() as like, other.open(like=like) as file:
            assert file.index.records[0].layout == PLACED[".split"]
    finally:
        PLACED.update(before)


def test_dump_without_layouts_has_no_such_table_and_no_meshes(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "m") as writer:
        with writer.step(0, 0) as step:
            step.add_modules(())
        writer.commit(manifest(name="m"))

    assert not {"meshes", "layouts", "spread"} & read_tables(tmp_path / "m").keys()
    assert "meshes" not in json.loads((tmp_path / "m" / "manifest.json").read_text())


def rows(name: str, row: int, cell: int, to: object) -> Callable[[dict[str, Any]], None]:
    def spoil(index: dict[str, Any]) -> None:
        index[name]["rows"][row][cell] = to

    return spoil


@pytest.mark.parametrize(
    ("spoil", "loc", "kind"),
    [
        (rows("meshes", 0, 0, ["dp", "tp"]), "meshes[0]", ProblemKind.SIZE),
        (rows("meshes", 0, 1, []), "meshes[0]", ProblemKind.SIZE),
        (rows("meshes", 0, 2, [0, 1, 2]), "meshes[0]", ProblemKind.SIZE),
        (rows("meshes", 0, 2, [1, 1]), "meshes[0]", ProblemKind.SIZE),
        (rows("meshes", 0, 2, [0, -1]), "meshes[0].ranks", ProblemKind.TYPE),
        (rows("layouts", 0, 0, 2), "layouts[0].mesh", ProblemKind.REFERENCE),
        (rows("layouts", 0, 1, ["R", "R"]), "layouts[0].placements", ProblemKind.SIZE),
        (rows("layouts", 0, 1, ["S(2)"]), "layouts[0].placements", ProblemKind.RANGE),
        (rows("layouts", 0, 1, ["S(-1)"]), "layouts[0].placements", ProblemKind.RANGE),
        (rows("layouts", 0, 1, ["split"]), "layouts[0].placements", ProblemKind.RANGE),
        (rows("layouts", 0, 2, [1, 3]), "records[0].shape", ProblemKind.SIZE),
        (rows("layouts", 0, 2, [4, 2]), "records[0].shape", ProblemKind.SIZE),
        (rows("layouts", 0, 2, [4, 3, 1]), "records[0].shape", ProblemKind.SIZE),
        (rows("layouts", 1, 2, [4, 3]), "records[1].shape", ProblemKind.SIZE),
        (rows("spread", 0, 0, 4), "spread[0].record", ProblemKind.REFERENCE),
        (rows("spread", 0, 1, 3), "spread[0].layout", ProblemKind.REFERENCE),
        (rows("spread", 0, 0, 1), "spread", ProblemKind.UNEXPECTED),
    ],
)
def test_layouts_that_contradict_themselves_are_refused(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], None], loc: str, kind: ProblemKind
) -> None:
    document = document_of(read_tables(write(tmp_path / "m")))
    assert decode_index(datasets_of(document))[1] == []

    spoil(document)
    _, problems = decode_index(datasets_of(document))

    assert (loc, kind) in [(one.loc, one.kind) for one in problems]


def test_mesh_that_the_manifest_lacks_is_a_problem(tmp_path: Path) -> None:
    dump = write(tmp_path / "m")
    path = dump / "manifest.json"
    document = json.loads(path.read_text())
    document["meshes"].pop()
    path.write_text(json.dumps(document))

    found = validate(dump, deep=False)

    assert [(one.loc, one.kind) for one in found] == [
        ("step_000000/rank_0000.h5: meshes[1]", ProblemKind.MISSING)
    ]


def test_incomplete_dump_has_the_meshes_of_its_whole_steps(tmp_path: Path) -> None:
    place = tmp_path / "m"

    def lose() -> None:
        with DumpWriter(place) as writer:
            writer.describe(manifest(name="m"))
            with writer.step(0, 0) as step:
                step.add_modules(
                    (ModuleInfo(id=0, path="", class_name="M", class_path="m.M", parent=None),)
                )
                step.add_record(
                    module=0,
                    call=None,
                    phase=Phase.FORWARD,
                    role=Role.WEIGHT,
                    slot=".split",
                    order=0,
                    shape=(2, 3),
                    value=step.store(np.zeros((2, 3))),
                    layout=PLACED[".split"],
                )
            raise ValueError("the script's")

    with pytest.raises(ValueError, match="the script's"):
        lose()

    assert open_dump(tmp_path / "m.incomplete").manifest.meshes == (TP,)
