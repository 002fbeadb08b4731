"""What is no dump, or no longer one: exit 2, one clear line, nothing changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.command import run_padiff
from tests.support.dumps import DumpBuilder
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def nothing(path: Path) -> None:
    del path


def a_file(path: Path) -> None:
    path.write_text("not a dump", encoding="utf-8")


def empty_folder(path: Path) -> None:
    path.mkdir()


def incomplete(path: Path) -> None:
    (tiny_net().write(path) / "manifest.json").unlink()


def truncated(path: Path) -> None:
    file = tiny_net().write(path) / "step_000000" / "rank_0000.h5"
    file.write_bytes(file.read_bytes()[:5000])


def without_its_file(path: Path) -> None:
    (tiny_net().write(path) / "step_000000" / "rank_0000.h5").unlink()


def newer(path: Path) -> None:
    edit_manifest(tiny_net().write(path), lambda document: document.update(format_version=999))


def not_json(path: Path) -> None:
    (tiny_net().write(path) / "manifest.json").write_text("{", encoding="utf-8")


def leading_outside(path: Path) -> None:
    def lead_outside(document: dict[str, list[dict[str, str]]]) -> None:
        document["files"][0]["path"] = "../../etc/passwd"

    edit_manifest(tiny_net().write(path), lead_outside)


def edit_manifest(path: Path, change: Callable[..., None]) -> None:
    """Change a manifest as somebody else's program could."""
    file = path / "manifest.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    change(document)
    file.write_text(json.dumps(document), encoding="utf-8")


BAD = [
    nothing,
    a_file,
    empty_folder,
    incomplete,
    truncated,
    without_its_file,
    newer,
    not_json,
    leading_outside,
]


@pytest.mark.parametrize("spoil", BAD)
@pytest.mark.parametrize("position", ["reference", "candidate"])
def test_compare_refuses(spoil: Callable[[Path], None], position: str, tmp_path: Path) -> None:
    good, bad = tiny_net().write(tmp_path / "good"), tmp_path / "bad"
    spoil(bad)
    before = listing(tmp_path)
    words = (bad, good) if position == "reference" else (good, bad)

    done = run_padiff("compare", *words, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    first, *rest = done.stderr.splitlines()
    assert first.startswith("padiff: error: ")
    assert "bad" in first
    assert all(line.startswith("hint: ") for line in rest)
    assert len(rest) <= 1
    assert listing(tmp_path) == before


@pytest.mark.parametrize("spoil", BAD)
@pytest.mark.parametrize("name", ["show", "check"])
def test_show_and_check_refuse(spoil: Callable[[Path], None], name: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    spoil(bad)

    done = run_padiff(name, bad, cwd=tmp_path)

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "internal" not in done.stderr
    assert done.stdout + done.stderr


def test_newer_version_says_what_to_do(tmp_path: Path) -> None:
    newer(tmp_path / "bad")

    done = run_padiff("show", tmp_path / "bad", cwd=tmp_path)

    assert "999" in done.stderr
    assert "hint: install a newer padiff" in done.stderr


def listing(folder: Path) -> dict[str, bytes]:
    """Give all files and their content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def damage_elements(dump: Path, array: npt.NDArray[np.float32]) -> None:
    """Change one bit of what a dump's file holds of an array."""
    file = dump / "step_000000" / "rank_0000.h5"
    data = bytearray(file.read_bytes())
    data[data.index(array.tobytes()) + 5] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("position", ["reference", "candidate"])
def test_elements_that_are_not_those_recorded_are_damage_and_no_divergence(
    position: str, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    y = {name: random.random(5000, np.float32) for name in ("reference", "candidate")}
    for name, made in y.items():
        built = DumpBuilder().module("", "Net").call("", inputs=[y["reference"]], outputs=[made])
        built.write(tmp_path / name)
    damage_elements(tmp_path / position, y[position])

    done = run_padiff("compare", "reference", "candidate", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    first, hint = done.stderr.splitlines()
    assert first.startswith("padiff: error: cannot read step 0 (root)#0 ")
    assert position in first
    assert "check --deep" in hint


def test_what_equal_digests_settle_is_not_read(tmp_path: Path) -> None:
    x, y = np.arange(64, dtype=np.float32), np.linspace(1, 2, 5000, dtype=np.float32)
    for name in ("reference", "candidate"):
        DumpBuilder().module("", "Net").call("", inputs=[x], outputs=[y]).write(tmp_path / name)
    damage_elements(tmp_path / "candidate", y)

    done = run_padiff("compare", "reference", "candidate", cwd=tmp_path)

    assert done.returncode == 0
