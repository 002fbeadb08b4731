"""Full disks, closed places, vanished folders, odd clocks: one clear error, nothing lost."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.comparer.baseline import accept
from padiff.dumpfile import DumpWriteError, DumpWriter, open_dump, validate
from padiff.dumpfile.packed import pack
from tests.support.dumps import DumpBuilder, add_step, manifest
from tests.support.killing import run_and_kill
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE = np.random.default_rng(0).standard_normal(60_000)  # which does not compress


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def write(place: Path, *, steps: int = 2, compression: int | None = None) -> Path:
    with DumpWriter(place, overwrite=True, compression=compression) as writer:
        writer.describe(manifest(name=place.name))
        for step in range(steps):
            built = DumpBuilder(step=step).module("", "Net").call("", outputs=[LARGE + step])
            add_step(writer, built)
        return writer.commit(manifest(name=place.name))


def failing(real: Callable[..., int], number: int, code: int) -> Callable[..., int]:
    """Make a function fail at its n-th call and from then on."""
    calls = 0

    def fail(*args: object) -> int:
        nonlocal calls
        calls += 1
        if calls >= number:
            raise OSError(code, os.strerror(code))
        return real(*args)

    return fail


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG])
@pytest.mark.parametrize("number", [1, 2])
def test_a_write_that_fails_in_the_first_step_leaves_the_old_dump_alone(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_net().write(tmp_path / "net")
    monkeypatch.setattr(os, "pwrite", failing(os.pwrite, number + 1, code))  # 1: the lock

    with pytest.raises(DumpWriteError) as caught:
        write(tmp_path / "net")

    assert caught.value.errno == code
    assert os.strerror(code) in caught.value.message
    assert caught.value.hint or code == errno.EIO
    assert names(tmp_path) == ["net"]
    assert validate(tmp_path / "net", deep=True) == []


def test_a_disk_that_fills_up_in_the_second_step_keeps_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def fill_up(handle: int, data: bytes, offset: int) -> int:
        if any(tmp_path.glob(".net.partial-*/step_000001")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", fill_up)

    with pytest.raises(DumpWriteError) as caught:
        write(tmp_path / "net")

    assert "kept: the 1 whole step" in caught.value.__notes__[0]
    kept = open_dump(tmp_path / "net.incomplete")
    assert [info.step for info in kept.files] == [0]
    assert "No space left" in kept.manifest.incomplete
    assert names(tmp_path) == ["net.incomplete"]


def test_compressed_values_on_a_full_disk(tmp_path: Path) -> None:
    """HDF5 writes these itself, and tells only when the file is closed."""
    tiny_net().write(tmp_path / "net")

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(DumpWriteError):
            write(tmp_path / "net", compression=1)

    assert run_and_kill(work, after_s=60) == 0
    assert names(tmp_path) == ["net"]
    assert validate(tmp_path / "net", deep=True) == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.ENAMETOOLONG])
def test_a_place_that_takes_no_folder_is_told_with_a_way_out(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)

    with pytest.raises(DumpWriteError) as caught:
        write(tmp_path / "net")

    assert str(tmp_path / "net") in caught.value.message
    assert os.strerror(code) in caught.value.message
    assert caught.value.hint
    assert names(tmp_path) == []


def test_a_folder_that_vanishes_under_the_writer_is_a_write_error(tmp_path: Path) -> None:
    def lose() -> None:
        with DumpWriter(tmp_path / "out" / "net") as writer:
            add_step(writer, tiny_net())
            shutil.rmtree(tmp_path / "out")
            writer.commit(manifest())

    with pytest.raises(DumpWriteError) as caught:
        lose()

    assert "No such file" in caught.value.message
    assert names(tmp_path) == []


def test_a_folder_that_vanishes_within_a_step_is_a_write_error(tmp_path: Path) -> None:
    def lose() -> None:
        with DumpWriter(tmp_path / "out" / "net") as writer, writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            step.store(LARGE)
            shutil.rmtree(tmp_path / "out")

    with pytest.raises(DumpWriteError):
        lose()


def test_a_report_on_a_full_disk_leaves_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = [str(tiny_net().write(tmp_path / name)) for name in ("a", "b")]
    report = tmp_path / "r.json"
    report.write_text("old", encoding="utf-8")
    before = names(tmp_path)

    assert main(["compare", *dumps, "-q", "--json", "/dev/full"]) == 2
    assert "cannot write '/dev/full': No space left on device" in capsys.readouterr().err

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "replace", refuse)
    assert main(["compare", *dumps, "-q", "--json", str(report)]) == 2
    assert "Read-only file system" in capsys.readouterr().err
    assert report.read_text() == "old"
    assert names(tmp_path) == before


def test_a_clock_that_goes_backwards_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 2e9

    def backwards() -> float:
        nonlocal now_s
        now_s -= 1e6
        return now_s

    monkeypatch.setattr(time, "time", backwards)

    path = write(tmp_path / "net")
    path = write(tmp_path / "net")
    os.utime(path / "manifest.json", (0, 0))  # before what a zip archive can say
    pack(path, tmp_path / "net.padiff.zip")
    accept(tmp_path / "old", path, reason="new")

    assert validate(tmp_path / "old", deep=True) == []


def test_a_lock_file_without_a_process_behind_it_locks_nothing(tmp_path: Path) -> None:
    (tmp_path / ".net.lock").write_text("process 1 on nowhere", encoding="utf-8")

    write(tmp_path / "net")

    assert names(tmp_path) == ["net"]


@pytest.mark.parametrize(
    "name", ["ein Modell", "模型", "a'b\"c", "-x", "%s{}", "x" * 200, "a\nb", "\x1b[31m"]
)
def test_odd_names_work_and_drive_no_terminal(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path / name))

    assert main(["check", "--deep", "--", path]) == 0
    assert main(["show", "--", path]) == 0
    assert main(["compare", "--", path, path]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err


def test_a_name_that_leaves_no_room_for_the_hidden_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(DumpWriteError) as caught:
        write(tmp_path / ("x" * 250))

    assert "shorter name" in str(caught.value.hint)
