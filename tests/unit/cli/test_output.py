"""Files appear whole or not at all; JSON is strict."""

from __future__ import annotations

import json
import math
import os
import stat
from typing import TYPE_CHECKING

import pytest

from padiff.cli.output import emit_json, write_json
from padiff.dumpfile import ConfigError
from padiff.dumpfile.lock import PlaceLock

if TYPE_CHECKING:
    from pathlib import Path


def test_json_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old", encoding="utf-8")

    write_json(path, {"a": [1, 2.5, "é"]})

    assert json.loads(path.read_text(encoding="ascii")) == {"a": [1, 2.5, "é"]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


def test_json_on_stdout_is_no_command_to_a_ci_service(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"notes": ["##[error]x", "::error::y"]}

    emit_json(data)

    out = capsys.readouterr().out
    assert "##[" not in out
    assert not any(line.lstrip().startswith("::") for line in out.splitlines())
    assert json.loads(out) == data


@pytest.mark.parametrize("value", [math.nan, math.inf, object()])
def test_what_strict_json_cannot_hold_leaves_the_old_file(value: object, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old", encoding="utf-8")

    with pytest.raises((ValueError, TypeError)):
        write_json(path, {"a": value})

    assert path.read_text(encoding="utf-8") == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["file/r.json", "."])
def test_a_place_that_cannot_be_written_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError) as caught:
        write_json(tmp_path / name, {})

    assert caught.value.hint
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_folders_are_made(tmp_path: Path) -> None:
    write_json(tmp_path / "a" / "b" / "r.json", {})

    assert (tmp_path / "a" / "b" / "r.json").is_file()


def test_what_is_no_plain_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    write_json(pipe, [1])

    assert json.loads(os.read(reader, 100)) == [1]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")

    write_json(tmp_path / "link.json", [1])

    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == [1]


def test_a_second_writer_to_one_file_is_turned_away(tmp_path: Path) -> None:
    lock = PlaceLock(tmp_path / ".r.json.lock")
    assert lock.acquire() is None

    with pytest.raises(ConfigError, match=f"process {os.getpid()} on"):
        write_json(tmp_path / "r.json", [1])

    lock.release()
    write_json(tmp_path / "r.json", [1])
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_what_a_dead_writer_left_is_taken_over(tmp_path: Path) -> None:
    for name in (".r.json.lock", ".r.json.partial"):
        (tmp_path / name).write_text("left")

    write_json(tmp_path / "r.json", [1])

    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]
