"""What a recording that did not finish leaves: its whole steps, labelled, and nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import DumpWriteError, DumpWriter, Phase, ProblemKind, open_dump, validate
from padiff.dumpfile.place import Place
from padiff.dumpfile.store import step_files
from padiff.dumpfile.unfinished import state_begin
from tests.support.dumps import DumpBuilder, add_step, manifest
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = np.arange(4, dtype=np.float32)


def tiny(step: int) -> DumpBuilder:
    return DumpBuilder(step=step).module("", "Net").call("", inputs=[X], outputs=[X + step])


def write_until_error(
    place: Path,
    *,
    steps: int,
    error: BaseException,
    build: Callable[[int], DumpBuilder] = tiny,
    overwrite: bool = False,
) -> None:
    """Write whole steps, begin another one, and raise."""
    with DumpWriter(place, overwrite=overwrite) as writer:
        writer.describe(manifest(name=place.name))
        for step in range(steps):
            add_step(writer, build(step))
        writer.step(steps).store(X)
        raise error


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_whole_steps_are_kept_as_an_incomplete_dump_of_another_name(tmp_path: Path) -> None:
    with pytest.raises(KeyError) as caught:
        write_until_error(tmp_path / "net", steps=2, error=KeyError("model"))

    kept = open_dump(tmp_path / "net.incomplete")
    assert names(tmp_path) == ["net.incomplete"]
    assert [info.step for info in kept.files] == [0, 1]
    assert kept.manifest.incomplete == "KeyError: 'model'"
    assert str(tmp_path / "net.incomplete") in caught.value.__notes__[0]
    with kept.open(1) as file:
        assert file.array(file.index.records[-1]).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_check_says_that_it_is_incomplete_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_until_error(tmp_path / "net", steps=1, error=KeyboardInterrupt())

    found = validate(tmp_path / "net.incomplete", deep=True)

    assert [problem.kind for problem in found] == [ProblemKind.INCOMPLETE]
    assert "interrupted (Ctrl-C)" in found[0].message
    assert "steps 0" in found[0].message


def test_phase_is_the_last_one_that_was_recorded(tmp_path: Path) -> None:
    def forward_only(step: int) -> DumpBuilder:
        return tiny_net(step=step, backward=False)

    with pytest.raises(KeyError):
        write_until_error(tmp_path / "net", steps=1, error=KeyError("x"), build=forward_only)

    assert open_dump(tmp_path / "net.incomplete").manifest.phase is Phase.FORWARD


def test_without_a_whole_step_nothing_is_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyError) as caught:
        write_until_error(tmp_path / "net", steps=0, error=KeyError("model"))

    assert names(tmp_path) == []
    assert not hasattr(caught.value, "__notes__")


def test_previous_dump_stays_and_previous_incomplete_one_is_replaced(tmp_path: Path) -> None:
    tiny(7).write(tmp_path / "net")
    for steps in (3, 1):
        with pytest.raises(KeyError):
            write_until_error(tmp_path / "net", steps=steps, error=KeyError("x"), overwrite=True)

    assert names(tmp_path) == ["net", "net.incomplete"]
    assert [info.step for info in open_dump(tmp_path / "net").files] == [7]
    assert [info.step for info in open_dump(tmp_path / "net.incomplete").files] == [0]


def test_a_whole_dump_of_that_name_is_not_replaced(tmp_path: Path) -> None:
    tiny(7).write(tmp_path / "net.incomplete")

    with pytest.raises(KeyError) as caught:
        write_until_error(tmp_path / "net", steps=1, error=KeyError("x"))

    other = next(name for name in names(tmp_path) if name != "net.incomplete")
    assert [info.step for info in open_dump(tmp_path / "net.incomplete").files] == [7]
    assert other.startswith("net.incomplete-")
    assert other in caught.value.__notes__[0]


def dead_writer(place: Path, *, steps: int) -> Path:
    """Leave what a process leaves that was killed within a step."""
    hidden = place.with_name(f".{place.name}.partial-0123abcd")
    hidden.mkdir()
    state_begin(hidden, manifest(name=place.name))
    for step in range(steps):
        built = tiny(step).write(place.with_name("made"))
        os.renames(built / f"step_{step:06d}", hidden / f"step_{step:06d}")
        (built / "manifest.json").unlink()
        built.rmdir()
    (hidden / f"step_{steps:06d}").mkdir()
    (hidden / f"step_{steps:06d}" / ".rank_0000.h5.partial").write_bytes(b"half")
    return hidden


def test_next_writer_keeps_the_whole_steps_of_a_killed_one(tmp_path: Path) -> None:
    dead_writer(tmp_path / "net", steps=2)

    tiny(7).write(tmp_path / "net")

    assert names(tmp_path) == ["net", "net.incomplete"]
    assert validate(tmp_path / "net", deep=True) == []
    kept = open_dump(tmp_path / "net.incomplete")
    assert [info.step for info in kept.files] == [0, 1]
    assert names(kept.path) == ["manifest.json", "step_000000", "step_000001"]
    assert "killed" in kept.manifest.incomplete


def test_next_writer_removes_what_a_killed_one_left_without_a_whole_step(tmp_path: Path) -> None:
    dead_writer(tmp_path / "net", steps=0)

    tiny(7).write(tmp_path / "net")

    assert names(tmp_path) == ["net"]


def test_what_other_writers_left_is_not_touched(tmp_path: Path) -> None:
    other = dead_writer(tmp_path / "other", steps=1)

    tiny(7).write(tmp_path / "net")

    assert names(tmp_path) == [other.name, "net"]


def test_recovery_gives_the_whole_steps_or_the_dump_itself(tmp_path: Path) -> None:
    dead_writer(tmp_path / "net", steps=1)
    assert Place(tmp_path / "net", overwrite=False).recover() == tmp_path / "net.incomplete"

    tiny(7).write(tmp_path / "net").rename(tmp_path / ".net.partial-0123abcd")
    assert Place(tmp_path / "net", overwrite=False).recover() == tmp_path / "net"
    assert Place(tmp_path / "net", overwrite=False).recover() is None
    assert validate(tmp_path / "net", deep=True) == []


def test_recovery_leaves_a_living_writer_alone_and_says_who_it_is(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        writer.describe(manifest())
        add_step(writer, tiny(0))
        with pytest.raises(DumpWriteError, match=f"process {os.getpid()} on"):
            Place(tmp_path / "net", overwrite=False).recover()
        path = writer.commit(manifest())

    assert validate(path, deep=True) == []
    assert names(path) == ["manifest.json", "step_000000"]


def test_folder_behind_a_link_is_not_listed(tmp_path: Path) -> None:
    dump = tiny(7).write(tmp_path / "net")
    (dump / "step_000007").rename(tmp_path / "elsewhere")
    (dump / "step_000007").symlink_to(tmp_path / "elsewhere")

    assert step_files(dump) == []


def test_folder_behind_a_link_is_a_problem_though_no_manifest_lists_it(tmp_path: Path) -> None:
    dump = tiny(7).write(tmp_path / "net")
    (dump / "step_000008").symlink_to(dump / "step_000007")

    (problem,) = validate(dump, deep=False)

    assert (problem.loc, problem.kind) == ("step_000008", ProblemKind.FORBIDDEN)
