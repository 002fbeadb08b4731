"""Arrays that are saved: numbered dumps, and the files of reprod_log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import padiff
from padiff.dumpfile import ConfigError
from padiff.reprodfile import read_reprod
from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path


def test_a_number_in_a_name_is_the_first_that_is_free(tmp_path: Path) -> None:
    places = [padiff.save("a_{n}", {"x": 1.0}, out=tmp_path).name for _ in range(3)]

    assert places == ["a_0", "a_1", "a_2"]


def reprod(path: Path, **values: Any) -> Path:  # noqa: ANN401
    """Write a file as ``ReprodLogger.save`` does."""
    np.save(path, values)  # type: ignore[arg-type]
    return path


def test_files_of_reprod_log_compare_by_name(tmp_path: Path) -> None:
    logits = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    reprod(tmp_path / "torch.npy", logits=logits, loss=np.array(0.5), top=np.float64(0.25))
    reprod(tmp_path / "same.npy", logits=logits, loss=np.array(0.5), top=np.float64(0.25))
    reprod(tmp_path / "other.npy", logits=logits + 1, loss=np.array(0.5), top=np.float64(0.25))

    assert padiff.compare(tmp_path / "torch.npy", tmp_path / "same.npy")
    done = run_padiff("compare", "torch.npy", "other.npy", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("DIVERGED at logits; ")


def test_an_array_of_numbers_is_left_to_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))

    assert read_reprod(tmp_path / "x.npy") is None


class Evil:
    """Makes a folder where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.place),)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_nothing_of_a_hostile_file_is_executed(depth: int, tmp_path: Path) -> None:
    evil: Any = Evil(tmp_path / "made")
    if depth == 1:
        evil = {"a": evil}
    if depth == 2:
        evil = {"a": np.array([evil], dtype=object)}
    np.save(tmp_path / "x.npy", np.array(evil, dtype=object))

    with pytest.raises(ConfigError, match=r"wants to load (posix|nt)\.mkdir"):
        read_reprod(tmp_path / "x.npy")

    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "held",
    [
        {"a": "text"},
        {"a": [1.0, 2.0]},
        np.array([{}, {}], dtype=object),
        {"a": np.array([{"b": np.ones(1)}], dtype=object)},
    ],
)
def test_what_is_no_dict_of_arrays_is_refused(held: Any, tmp_path: Path) -> None:  # noqa: ANN401
    np.save(tmp_path / "x.npy", held)

    with pytest.raises(ConfigError, match="cannot read the arrays of"):
        padiff.compare(tmp_path / "x.npy", tmp_path / "x.npy")


@pytest.mark.parametrize("kept", [0, 20, 130, 200, 260])
def test_a_file_that_is_cut_off_is_refused(kept: int, tmp_path: Path) -> None:
    whole = reprod(tmp_path / "x.npy", a=np.arange(9.0)).read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:kept])

    with pytest.raises(ConfigError, match="cannot read the arrays of"):
        padiff.compare(tmp_path / "cut.npy", tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("set_dump_root_path", "out= of padiff.record"),
        ("check_report", "padiff.compare"),
        ("check_params", "padiff.compare"),
        ("dump_report", "padiff.record"),
    ],
)
def test_names_of_padiff_say_what_replaces_them(name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"padiff has no '{name}'") as caught:
        getattr(padiff, name)

    assert instead in str(caught.value)
