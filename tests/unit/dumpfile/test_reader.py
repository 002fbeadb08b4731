"""Tests of opening dumps, whole and not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.dumpfile import (
    FORMAT_VERSION,
    DumpError,
    DumpFormatError,
    DumpNotFoundError,
    ProblemKind,
    digest_of,
    open_dump,
    stepfile,
    validate,
)
from padiff.dumpfile.dtypes import MOST_AXES
from tests.support.dumps import DumpBuilder, write_dump
from tests.support.hostile_dumps import cell
from tests.support.indexes import edit_index

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Array = npt.NDArray[Any]

X = np.arange(4, dtype=np.float32)
BIG = np.arange(40_000, dtype=np.float32)
FILE = "step_000000/rank_0000.h5"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    built = DumpBuilder().module("", "Net").call("", inputs=[X], outputs=[BIG])
    return built.write(tmp_path / "net")


def change_manifest(dump: Path, **changes: Any) -> None:  # noqa: ANN401
    path = dump / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_place_without_dump_is_not_found_and_names_those_beside(dump: Path) -> None:
    with pytest.raises(DumpNotFoundError) as caught:
        open_dump(dump.parent / "nett")

    assert caught.value.hint is not None
    assert "net" in caught.value.hint


def test_as_many_axes_as_an_array_can_have_are_read_and_no_more(dump: Path) -> None:
    deep = X.reshape([1] * (MOST_AXES - 1) + [4])
    path = (
        DumpBuilder()
        .module("", "Net")
        .call("", inputs=[X], outputs=[deep])
        .write(dump.parent / "deep")
    )

    with open_dump(path).open(0, 0) as file:
        shapes = [file.array(record).shape for record in file.index.records]
    edit_index(path, lambda document: cell(document, "records", "shape", 0, [1] * MOST_AXES + [4]))

    assert deep.shape in shapes
    assert [(one.loc, one.kind) for one in validate(path, deep=False)] == [
        (f"{FILE}: records[0].shape", ProblemKind.TYPE)
    ]


def test_a_folder_of_dumps_names_the_dumps_in_it(dump: Path) -> None:
    with pytest.raises(DumpNotFoundError) as caught:
        open_dump(dump.parent)

    assert str(dump) in str(caught.value.hint)


def test_a_file_is_no_dump(dump: Path) -> None:
    with pytest.raises(DumpNotFoundError):
        open_dump(dump / FILE)
    with pytest.raises(DumpNotFoundError):
        open_dump(dump / FILE / "deeper")


def test_a_dump_without_manifest_is_incomplete_and_says_which_steps_are_whole(
    tmp_path: Path,
) -> None:
    steps = [DumpBuilder(step=step).module("", "Net") for step in range(2)]
    path = write_dump(tmp_path / "net", *steps)
    (path / "manifest.json").unlink()
    (path / "step_000001/rank_0000.h5").write_bytes(b"\x89HDF")

    with pytest.raises(DumpFormatError) as caught:
        open_dump(path)

    assert "incomplete" in caught.value.message
    assert "step_000000/rank_0000.h5" in caught.value.message
    assert "step_000001" not in caught.value.message
    assert [problem.kind for problem in validate(path, deep=False)] == [ProblemKind.INCOMPLETE]


def test_what_a_dead_writer_left_is_mentioned(dump: Path) -> None:
    dump.rename(dump.parent / ".net.old-0123abcd")

    with pytest.raises(DumpNotFoundError) as caught:
        open_dump(dump)

    assert ".net.old-0123abcd" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("version", "kind", "hint"),
    [
        (FORMAT_VERSION + 1, ProblemKind.VERSION, "install a newer padiff"),
        (FORMAT_VERSION - 1, ProblemKind.AGE, "record again, or install the padiff that wrote it"),
    ],
)
def test_another_version_is_refused_with_a_way_out(
    version: int, kind: ProblemKind, hint: str, dump: Path
) -> None:
    change_manifest(dump, format_version=version)

    with pytest.raises(DumpFormatError) as caught:
        open_dump(dump)

    assert caught.value.hint == hint
    assert [problem.kind for problem in validate(dump, deep=False)] == [kind]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "zip"}', '{"a":NaN}', "\xff"])
def test_a_manifest_that_is_none_is_refused(text: str, dump: Path) -> None:
    (dump / "manifest.json").write_text(text, encoding="latin-1")

    with pytest.raises(DumpFormatError):
        open_dump(dump)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../net/step_000000/rank_0000.h5", "step_000000/rank_0001.h5", "x.h5", ""],
)
def test_a_file_outside_the_pattern_is_refused(path: str, dump: Path) -> None:
    files = json.loads((dump / "manifest.json").read_text())["files"]
    change_manifest(dump, files=[files[0] | {"path": path}])

    with pytest.raises(DumpFormatError):
        open_dump(dump)
    assert [problem.loc for problem in validate(dump, deep=False)] == [
        "manifest.json: files[0].path"
    ]


def test_a_missing_file_is_a_format_error(dump: Path) -> None:
    (dump / FILE).unlink()

    with pytest.raises(DumpFormatError):
        open_dump(dump).open()
    found = validate(dump, deep=False)
    assert [(problem.loc, problem.kind) for problem in found] == [(FILE, ProblemKind.MISSING)]


def test_a_truncated_file_is_a_format_error(dump: Path) -> None:
    with (dump / FILE).open("r+b") as file:
        file.truncate(1000)

    with pytest.raises(DumpFormatError) as caught:
        open_dump(dump).open()
    assert "1000" in caught.value.message
    assert validate(dump, deep=False)[0].kind is ProblemKind.SIZE


def test_a_file_of_another_step_is_refused(tmp_path: Path) -> None:
    steps = [DumpBuilder(step=step).module("", "Net") for step in range(2)]
    path = write_dump(tmp_path / "net", *steps)
    shutil.copy(path / "step_000001/rank_0000.h5", path / FILE)

    with pytest.raises(DumpFormatError):
        open_dump(path).open(0)
    assert {problem.loc for problem in validate(path, deep=False)} == {f"{FILE}: step"}


def test_a_step_that_was_not_recorded_is_not_found(dump: Path) -> None:
    with pytest.raises(DumpNotFoundError):
        open_dump(dump).open(7)


def test_a_file_beside_the_manifest_is_reported(dump: Path) -> None:
    shutil.copytree(dump / "step_000000", dump / "step_000001")

    found = validate(dump, deep=False)

    assert [(problem.loc, problem.kind) for problem in found] == [
        ("step_000001/rank_0000.h5", ProblemKind.UNEXPECTED)
    ]


def test_arrays_are_mapped_read_only_and_outlive_the_file(dump: Path) -> None:
    file = open_dump(dump).open()
    array = file.array(file.index.records[1])
    file.release_pages()
    file.close()

    assert array.base is not None
    assert not array.flags.writeable
    assert array[-1] == 39_999.0
    with pytest.raises(DumpError):
        file.array(file.index.records[0])


def test_pages_that_were_read_are_released_on_the_way(
    dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[int] = []
    release = stepfile.StepFile.release_pages
    monkeypatch.setattr(stepfile, "_RELEASE_BYTES", 250_000)
    file = open_dump(dump).open()
    record = file.index.records[1]

    def counted(one: stepfile.StepFile) -> None:
        released.append(1)
        release(one)

    monkeypatch.setattr(stepfile.StepFile, "release_pages", counted)
    arrays = [file.array(record) for _ in range(8)]

    assert arrays[0].nbytes == 160_000
    assert len(released) == 4
    assert np.array_equal(arrays[0], arrays[-1])


def test_a_dump_can_be_moved(dump: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "other name"
    moved.parent.mkdir()
    shutil.move(dump, moved)

    assert open_dump(moved).manifest.name == "net"
    assert open_dump(moved).problems() == []


def test_deep_validation_finds_a_changed_element(dump: Path) -> None:
    data = bytearray((dump / FILE).read_bytes())
    at = data.index(BIG.tobytes())
    data[at : at + 4] = np.float32(-1).tobytes()
    (dump / FILE).write_bytes(data)

    assert validate(dump, deep=False) == []
    found = validate(dump, deep=True)

    assert {problem.kind for problem in found} == {ProblemKind.DIGEST, ProblemKind.STATISTICS}
    assert {problem.loc for problem in found} >= {
        f"{FILE}: values[1].digest",
        f"{FILE}: values[1].minimum",
    }


def damage(dump: Path, array: Array) -> None:
    """Change one bit of the elements that the file holds of an array."""
    data = bytearray((dump / FILE).read_bytes())
    data[data.index(array.tobytes())] ^= 1
    (dump / FILE).write_bytes(data)


def test_a_changed_element_is_refused_when_it_is_read_and_its_record_named(dump: Path) -> None:
    damage(dump, BIG)

    with open_dump(dump).open() as file:
        given, made = file.index.records

        assert file.array(given).tolist() == X.tolist()
        with pytest.raises(DumpFormatError, match=r"step 0 \(root\)#0 output.*digest") as caught:
            file.array(made)
    assert "damaged" in (caught.value.hint or "")


def test_a_changed_element_is_refused_among_rows(tmp_path: Path) -> None:
    arrays = [np.full(4, number, np.float32) for number in range(1, 4)]
    dump = DumpBuilder().module("", "Net").call("", inputs=arrays, outputs=[X]).write(tmp_path)
    damage(dump, arrays[1])

    with open_dump(dump).open() as file, pytest.raises(DumpFormatError, match=r"input\[1\]"):
        file.rows([value for value in file.index.values if value.digest != digest_of(X)])


def test_rows_are_the_values_one_by_one(tmp_path: Path) -> None:
    arrays = [np.random.default_rng(n).standard_normal((3, 4)).astype("f") for n in range(9)]
    built = DumpBuilder().module("", "Net").call("", inputs=arrays, outputs=[X])
    with open_dump(built.write(tmp_path / "net")).open() as file:
        values = [value for value in file.index.values if value.size == 12]

        rows = file.rows(values[::-1])

        assert len(values) == len(arrays)
        assert rows.tolist() == [array.reshape(-1).tolist() for array in arrays[::-1]]


def test_rows_beyond_the_file_are_refused(dump: Path) -> None:
    with open_dump(dump).open() as file:
        value = replace(file.index.values[0], offset=10**6)

        with pytest.raises(DumpFormatError):
            file.rows([value, value])


def two_runs(tmp_path: Path) -> tuple[Path, Path]:
    """Write two dumps of one model, whose outputs differ."""
    built = [
        DumpBuilder().module("", "Net").call("", inputs=[X], outputs=[BIG + number])
        for number in range(2)
    ]
    return built[0].write(tmp_path / "one"), built[1].write(tmp_path / "two")


def test_what_two_files_say_alike_is_read_once(tmp_path: Path) -> None:
    one, two = map(open_dump, two_runs(tmp_path))

    with one.open() as known, two.open(like=known) as found, two.open() as alone:
        assert found.index == alone.index
        assert found.index.records is known.index.records
        assert found.index.values != known.index.values
        assert [found.array(record).sum() for record in found.index.records] == [
            X.sum(),
            (BIG + 1).sum(),
        ]
