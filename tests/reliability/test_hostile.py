"""Dumps that mean harm: refused with a problem, in bounded memory and time, nothing touched."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from tests.support.confined import confined, listing
from tests.support.dumps import DumpBuilder
from tests.support.hostile_archives import ARCHIVES
from tests.support.hostile_chunks import CHUNKS
from tests.support.hostile_dumps import DUMPS, sample_of_five_equal_axes
from tests.support.hostile_manifests import FLOORS, MANIFESTS
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.hostile_dumps import Cases

SECRET = np.full(99, 42, np.float32).tobytes()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder with a good dump, a bad one to be, and files that nobody may read."""
    home = tmp_path / "home"
    home.mkdir()
    tiny_net(weight_change=1e-6).write(home / "good")  # so that elements have to be read
    tiny_net().write(home / "bad")
    with h5py.File(home / "secret.h5", "w") as file:
        file["x"] = np.frombuffer(SECRET, np.float32)
    (home / "secret.bin").write_bytes(SECRET)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return home


def holds_the_secret(folder: Path) -> bool:
    """Tell whether what was written has the content of other files; removes it."""
    found = False
    for path in folder.rglob("*.padiff.zip"):
        with zipfile.ZipFile(path) as archive:
            found |= any(SECRET in archive.read(name) for name in archive.namelist())
    found |= any(SECRET in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return found


def cases(*lists: Cases) -> list[Any]:
    assert all(lists)
    return [pytest.param(*case, id=case[0].__name__) for one in lists for case in one]


def assert_refused(bad: Path, folder: Path, words: str, *options: str) -> None:
    """Let the commands that read dumps meet a bad one."""
    before = listing(folder.parent)
    good, out = folder / "good", folder.parent / "out"

    found = confined(
        ["check", "--deep", bad],
        ["accept", folder / "baseline", bad, "--reason", "none"],
        ["compare", bad, good, *options],
        ["compare", good, bad, *options],
        ["show", bad, "--records"],
        ["weights", "stats", bad],
        ["map", good, bad],
        ["extract", good, bad, "--module", "fc1", "-o", out],
        ["pack", bad, "-o", out / "packed.padiff.zip"],
        folder=folder,
    )

    checked, accepted, *compared = found.codes[:4]
    assert (checked, accepted) == (2, 2), found.text[-2000:]
    assert words in found.text
    assert set(compared) <= {1, 2}
    assert set(found.codes[4:]) <= {0, 2}  # what only --deep reads is not seen by all
    assert not holds_the_secret(out)
    assert "more memory" not in found.text  # nothing is tried that could not work
    assert "Traceback" not in found.text
    assert "internal error" not in found.text
    assert "\x1b" not in found.text
    assert listing(folder.parent) == before


@pytest.mark.parametrize(("spoil", "words"), cases(DUMPS, CHUNKS, MANIFESTS))
def test_a_hostile_dump_is_refused(spoil: Callable[[Path], None], words: str, folder: Path) -> None:
    spoil(folder / "bad")

    assert_refused(folder / "bad", folder, words)


@pytest.mark.parametrize(("spoil", "words"), cases(FLOORS))
def test_a_hostile_noise_floor_is_refused(
    spoil: Callable[[Path], None], words: str, folder: Path
) -> None:
    spoil(folder / "bad")

    assert_refused(folder / "bad", folder, words, "--floor", "both")


@pytest.mark.parametrize(("spoil", "words"), cases(ARCHIVES))
def test_a_hostile_packed_dump_is_refused(
    spoil: Callable[[Path, Path], None], words: str, folder: Path
) -> None:
    spoil(folder / "bad", folder / "bad.padiff.zip")

    assert_refused(folder / "bad.padiff.zip", folder, words)


def test_the_good_dump_is_not_refused(folder: Path) -> None:
    found = confined(
        ["check", "--deep", folder / "good"],
        ["compare", folder / "good", folder / "bad"],
        ["show", folder / "good"],
        folder=folder,
    )

    assert found.codes == (0, 0, 0), found.text


def test_a_large_sample_is_drawn_in_bounded_memory(folder: Path) -> None:
    sample_of_five_equal_axes(folder / "bad")

    found = confined(["check", "--deep", folder / "bad"], folder=folder)

    assert found.codes == (0,), found.text


def test_long_names_take_no_square_of_their_length(folder: Path) -> None:
    x, name = np.ones((2, 2), np.float32), "ab" * 100_000
    for place, path in (("one", name), ("two", f"{name}c")):
        built = DumpBuilder().module("", "Net").module(path, name).tensor(path, name, x)
        built.enter("", inputs=[x]).call(path, inputs=[x], outputs=[x]).leave(outputs=[x])
        built.write(folder / place)

    found = confined(
        ["compare", folder / "one", folder / "two", "-q"],
        ["map", folder / "one", folder / "two", "-o", folder / "map.toml"],
        folder=folder,
    )

    assert found.codes == (0, 0), found.text[-500:]
