"""Dumps that mean harm: refused with a problem, in bounded memory and time, nothing touched."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

from tests.support.confined import confined, listing
from tests.support.hostile_dumps import ARCHIVES, DIRECTORIES
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a good dump, a bad one to be, and files that nobody may read."""
    home = tmp_path / "home"
    home.mkdir()
    tiny_net(weight_change=1e-6).write(home / "good")  # so that elements have to be read
    tiny_net().write(home / "bad")
    with h5py.File(home / "secret.h5", "w") as file:
        file["x"] = np.full(99, 42, np.float32)
    (home / "secret.bin").write_bytes(np.full(99, 42, np.float32).tobytes())
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return home


def assert_refused(bad: Path, folder: Path) -> None:
    """Let the commands that read dumps meet a bad one."""
    before = listing(folder.parent)

    found = confined(
        ["check", "--deep", bad],
        ["compare", bad, folder / "good"],
        ["compare", folder / "good", bad],
        ["show", bad],
        folder=folder,
    )

    checked, *compared, shown = found.codes
    assert checked == 2, found.text[-2000:]
    assert set(compared) <= {1, 2}
    assert shown in (0, 2)  # what only --deep reads is not seen by show
    assert "Traceback" not in found.text
    assert "internal error" not in found.text
    assert "\x1b" not in found.text
    assert listing(folder.parent) == before


@pytest.mark.parametrize("spoil", DIRECTORIES)
def test_a_hostile_dump_is_refused(spoil: Callable[[Path], None], folder: Path) -> None:
    spoil(folder / "bad")

    assert_refused(folder / "bad", folder)


@pytest.mark.parametrize("spoil", ARCHIVES)
def test_a_hostile_packed_dump_is_refused(
    spoil: Callable[[Path, Path], None], folder: Path
) -> None:
    spoil(folder / "bad", folder / "bad.padiff.zip")

    assert_refused(folder / "bad.padiff.zip", folder)


def test_the_good_dump_is_not_refused(folder: Path) -> None:
    found = confined(
        ["check", "--deep", folder / "good"],
        ["compare", folder / "good", folder / "bad"],
        ["show", folder / "good"],
        folder=folder,
    )

    assert found.codes == (0, 0, 0), found.text
