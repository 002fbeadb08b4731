"""Files are read in bounded memory, and a pipe only if somebody writes to it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from padiff.dumpfile.untrusted import chunks_of, read_bounded

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_of_just_the_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")

    assert read_bounded(tmp_path / "x", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_bounded(tmp_path / "x", 4)


def test_a_device_that_never_ends_is_not_read_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("/dev/zero")

    with pytest.raises(OSError, match="larger than 3000000 bytes"):
        read_bounded(tmp_path / "x", 3_000_000)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    os.mkfifo(tmp_path / "x")
    writer = threading.Thread(target=(tmp_path / "x").write_bytes, args=(content,))
    writer.start()

    assert b"".join(chunks_of(tmp_path / "x")) == content
    writer.join()


def test_a_pipe_that_nobody_writes_to_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("padiff.dumpfile.untrusted._WAIT_S", 0.05)
    os.mkfifo(tmp_path / "x")

    with pytest.raises(OSError, match="nobody wrote to this pipe"):
        read_bounded(tmp_path / "x", 10)
