"""What HDF5 locks, and how a reader gets by where it cannot."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

from tests.support.command import run_padiff
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path

SWITCH = "HDF5_USE_FILE_LOCKING"


def test_a_file_that_cannot_be_locked_is_read_with_the_switch(tmp_path: Path) -> None:
    """As on a network file system whose locks do not work."""
    a, b = (tiny_net().write(tmp_path / name) for name in ("a", "b"))

    with (a / "step_000000/rank_0000.h5").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refused = run_padiff("compare", a, b, cwd=tmp_path)
        done = run_padiff("compare", a, b, cwd=tmp_path, environment={SWITCH: "FALSE"})

    assert refused.returncode == 2
    assert f"hint: set the environment variable {SWITCH}=FALSE" in refused.stderr
    assert done.returncode == 0, done.stderr
