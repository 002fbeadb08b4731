"""Tests of writing dumps and swapping them in."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

from padiff.dumpfile import (
    Content,
    DumpExistsError,
    DumpFormatError,
    DumpWriteError,
    DumpWriter,
    Phase,
    RecordError,
    Role,
    Stored,
    open_dump,
    validate,
)
from tests.support.dumps import DumpBuilder, manifest, write_dump

if TYPE_CHECKING:
    from padiff.dumpfile import StepWriter

ROOT = Path(__file__).parents[3]
X = np.arange(4, dtype=np.float32)


def tiny(value: float = 0.0) -> DumpBuilder:
    return DumpBuilder().module("", "Net").call("", inputs=[X], outputs=[X + value])


def output(path: Path) -> list[float]:
    dump = open_dump(path)
    with dump.open() as file:
        return [float(x) for x in file.array(file.index.records[-1])]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def add(step: StepWriter, stored: Stored, array: np.ndarray) -> None:
    step.add_record(
        module=0,
        call=None,
        phase=Phase.FORWARD,
        role=Role.NAMED,
        slot="['x']",
        order=0,
        shape=array.shape,
        value=stored,
    )


def test_a_dump_comes_back_as_it_was_built(tmp_path: Path) -> None:
    built = tiny(1.0)
    path = built.write(tmp_path / "net")

    with open_dump(path).open() as file:
        assert file.framework == "torch"
        assert file.index.modules == built.side().index.modules
        assert file.index.calls == built.side().index.calls
        assert file.index.records == built.side().index.records
    assert names(tmp_path) == ["net"]
    assert validate(path, deep=True) == []


def test_equal_content_is_stored_once_whatever_its_shape(tmp_path: Path) -> None:
    big = np.arange(40_000, dtype=np.float32).reshape(200, 200)
    built = DumpBuilder().module("", "Net").call("", inputs=[big], outputs=[big.reshape(-1)])

    with open_dump(built.write(tmp_path / "net")).open() as file:
        first, second = file.index.records
        assert first.value == second.value
        assert len(file.index.values) == 1
        assert file.array(first).shape == (200, 200)
        assert file.array(second).shape == (40_000,)


def test_small_values_share_pages_and_large_ones_do_not(tmp_path: Path) -> None:
    arrays = [np.full(3, n, dtype=np.float32) for n in range(50)]
    arrays += [np.full(2, n, dtype=np.int64) for n in range(50)]
    arrays += [np.full(20_000, n, dtype=np.float64) for n in range(2)]
    built = DumpBuilder().module("", "Net").call("", inputs=arrays)
    path = built.write(tmp_path / "net")

    with h5py.File(path / "step_000000/rank_0000.h5") as file:
        assert sorted(file["values"]) == ["p0000_float32", "p0001_int64", "v00000100", "v00000101"]
    with open_dump(path).open() as opened:
        for record, array in zip(opened.index.records, arrays, strict=True):
            np.testing.assert_array_equal(opened.array(record), array)


def test_statistics_without_elements_can_be_recorded(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        with writer.step(0) as step:
            step.add_modules(tiny().modules)
            add(step, step.store(X, content=Content.STATS), X)
        path = writer.commit(manifest())

    with open_dump(path).open() as file:
        assert file.index.values[0].statistics.maximum == 3.0
        with pytest.raises(DumpFormatError):
            file.array(file.index.records[0])
    assert validate(path, deep=True) == []


def test_stored_tensors_are_known_after_a_flush(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        step = writer.step(0)
        stored = step.store(X)
        step.flush()

        assert stored.info is not None
        assert stored.info.size == 4


def test_a_dtype_that_dumps_cannot_hold_is_refused_at_once(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer, pytest.raises(RecordError):
        writer.step(0).store(np.array(["a"]))


@pytest.mark.parametrize("array", [X, np.zeros(70_000, np.complex64), np.ones(70_000, np.bool_)])
def test_compressed_values_come_back(
    array: np.ndarray,
    tmp_path: Path,
) -> None:
    with DumpWriter(tmp_path / "net", compression=4) as writer:
        with writer.step(0) as step:
            step.add_modules(tiny().modules)
            add(step, step.store(array), array)
        path = writer.commit(manifest())

    with open_dump(path).open() as file:
        np.testing.assert_array_equal(file.array(file.index.records[0]), array)
    assert validate(path, deep=True) == []


def test_leaving_without_commit_leaves_nothing(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "new" / "net") as writer:
        writer.step(0).store(X)

    assert names(tmp_path) == []


def test_an_error_leaves_the_previous_dump_as_it_was(tmp_path: Path) -> None:
    path = tiny(1.0).write(tmp_path / "net")

    def fail() -> None:
        with DumpWriter(path, overwrite=True) as writer:
            writer.step(0).store(X)
            raise KeyError("model")

    with pytest.raises(KeyError):
        fail()

    assert output(path) == [1.0, 2.0, 3.0, 4.0]
    assert names(tmp_path) == ["net"]


def test_a_dump_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tiny(1.0).write(tmp_path / "net")

    with pytest.raises(DumpExistsError), DumpWriter(path):
        pass
    assert output(path)[0] == 1.0

    tiny(2.0).write(path)
    assert output(path)[0] == 2.0
    assert names(tmp_path) == ["net"]


def test_what_is_no_dump_is_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.tex").write_text("text")

    with pytest.raises(DumpExistsError), DumpWriter(folder, overwrite=True):
        pass

    assert names(folder) == ["chapter.tex"]
    assert names(tmp_path) == ["thesis"]


def test_a_dump_with_somebodys_notes_in_it_is_never_replaced(tmp_path: Path) -> None:
    path = tiny().write(tmp_path / "net")
    (path / "step_000000" / "notes.txt").write_text("mine")

    with pytest.raises(DumpExistsError), DumpWriter(path, overwrite=True):
        pass

    assert (path / "step_000000" / "notes.txt").read_text() == "mine"
    assert (path / "manifest.json").exists()


def test_a_file_in_the_way_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "net").write_text("mine")

    with pytest.raises(DumpExistsError), DumpWriter(tmp_path / "net", overwrite=True):
        pass

    assert (tmp_path / "net").read_text() == "mine"


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()

    assert output(tiny(1.0).write(tmp_path / "net"))[0] == 1.0


def test_a_second_writer_to_one_place_is_turned_away(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        with pytest.raises(DumpWriteError), DumpWriter(tmp_path / "net"):
            pass
        with writer.step(0) as step:
            step.add_modules(tiny().modules)
        path = writer.commit(manifest())

    assert open_dump(path).files[0].records == 0
    assert names(tmp_path) == ["net"]


def test_two_names_are_written_side_by_side(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net"), DumpWriter(tmp_path / "net2"):
        pass


def test_leftovers_of_a_dead_writer_are_removed_and_others_kept(tmp_path: Path) -> None:
    path = tiny().write(tmp_path / "net")
    path.rename(tmp_path / ".net.partial-0123abcd")
    (tmp_path / ".net2.partial-0123abcd").mkdir()
    (tmp_path / ".net.partial-mine").mkdir()

    tiny().write(path)

    assert names(tmp_path) == [".net.partial-mine", ".net2.partial-0123abcd", "net"]


@pytest.mark.parametrize(
    "name", [".net.partial-0123abcd", ".net.old-0123abcd", ".net.lock", ".net.ranks"]
)
def test_a_name_that_writers_give_their_own_files_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DumpWriteError, match="kept for what belongs to the dump 'net'") as caught:
        tiny().write(tmp_path / name)

    assert caught.value.hint is not None
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", [".net", ".net.partial", "net.old-0123abcd", ".net.old-0123abcde"])
def test_a_name_that_only_looks_alike_is_taken(name: str, tmp_path: Path) -> None:
    tiny().write(tmp_path / name)
    tiny().write(tmp_path / "net")

    assert names(tmp_path) == sorted([name, "net"])


def test_a_dump_set_aside_by_a_dead_writer_is_put_back(tmp_path: Path) -> None:
    path = tiny(1.0).write(tmp_path / "net")
    path.rename(tmp_path / ".net.old-0123abcd")

    with pytest.raises(DumpExistsError), DumpWriter(path):
        pass

    assert output(path)[0] == 1.0


def test_nothing_recorded_is_no_dump(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer, pytest.raises(DumpWriteError):
        writer.commit(manifest())

    assert names(tmp_path) == []


def test_files_are_listed_by_step_and_rank(tmp_path: Path) -> None:
    steps = [
        DumpBuilder(step=step, rank=rank).module("", "Net")
        for step, rank in [(10, 0), (2, 1), (2, 0)]
    ]

    dump = open_dump(write_dump(tmp_path / "net", *steps))

    assert [(info.step, info.rank) for info in dump.files] == [(2, 0), (2, 1), (10, 0)]
    assert dump.files[2].path == "step_000010/rank_0000.h5"


def test_a_place_that_takes_no_directories_is_a_write_error() -> None:
    with pytest.raises(DumpWriteError), DumpWriter(Path("/proc/padiff/net")):
        pass


def test_a_file_among_the_parents_is_a_write_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DumpWriteError), DumpWriter(tmp_path / "file" / "net"):
        pass


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from padiff.dumpfile import DumpWriteError, DumpWriter
from tests.support.dumps import DumpBuilder, manifest

mode, place = sys.argv[1], Path(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
size = {"large": 1 << 20, "small": 256}[mode]
try:
    with DumpWriter(place, overwrite=True) as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            for number in range(20_000):
                step.store(np.full(size, number, dtype=np.float32))
        writer.commit(manifest())
except DumpWriteError as error:
    print("refused", error.errno, error.hint)
"""


@pytest.mark.parametrize("mode", ["large", "small"])
def test_a_full_disk_leaves_the_previous_dump_and_nothing_else(mode: str, tmp_path: Path) -> None:
    path = tiny(1.0).write(tmp_path / "net")

    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, mode, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert done.stdout.startswith("refused 27 the file exceeds"), done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert output(path)[0] == 1.0
    assert names(tmp_path) == ["net"]


def test_a_call_id_that_leaves_a_gap_is_refused(tmp_path: Path) -> None:
    call = tiny().calls[0]

    with DumpWriter(tmp_path / "net") as writer, pytest.raises(ValueError, match="call 0"):
        writer.step(0).add_call(replace(call, id=1))


def test_a_place_that_becomes_taken_meanwhile_is_left_alone(tmp_path: Path) -> None:
    def take_place() -> None:
        with DumpWriter(tmp_path / "net") as writer:
            with writer.step(0) as step:
                step.add_modules(tiny().modules)
            (tmp_path / "net").mkdir()
            (tmp_path / "net" / "mine").write_text("text")
            writer.commit(manifest())

    with pytest.raises(DumpExistsError):
        take_place()

    assert names(tmp_path) == ["net"]
    assert names(tmp_path / "net") == ["mine"]


DYING = """
import os, sys
from pathlib import Path
from padiff.dumpfile import DumpWriter
from tests.support.dumps import DumpBuilder

with DumpWriter(Path(sys.argv[1]), overwrite=True) as writer:
    with writer.step(0) as step:
        step.add_modules(DumpBuilder().module("", "Net").modules)
    writer.step(1)
    os._exit(9)
"""


def test_a_process_that_dies_loses_only_its_own_recording(tmp_path: Path) -> None:
    path = tiny(1.0).write(tmp_path / "net")

    done = subprocess.run([sys.executable, "-c", DYING, str(path)], check=False, cwd=ROOT)

    assert done.returncode == 9
    left = [name for name in names(tmp_path) if ".partial-" in name]
    assert len(left) == 1
    with pytest.raises(DumpFormatError, match=r"step_000000/rank_0000\.h5"):
        open_dump(tmp_path / left[0])
    assert output(path)[0] == 1.0
    assert output(tiny(2.0).write(path))[0] == 2.0
    assert names(tmp_path) == ["net"]


def test_what_comes_again_at_an_address_is_kept_under_another_slot(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        with writer.step(0) as step:
            step.add_modules(tiny().modules)
            for value in range(3):
                add(step, step.store(X + value), X)
        path = writer.commit(manifest())

    with open_dump(path).open() as file:
        assert [record.slot for record in file.index.records] == ["['x']", "['x']@2", "['x']@3"]
