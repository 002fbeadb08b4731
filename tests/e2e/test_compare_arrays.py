"""Named arrays without a model, from files and from ``padiff.save``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import padiff
from padiff.dumpfile import ConfigError
from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

NO_FRAMEWORK = ("torch", "paddle")


@pytest.fixture
def logits() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def test_files_of_arrays_compare_by_name(tmp_path: Path, logits: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", logits=logits, accuracy=0.761)
    np.savez(tmp_path / "b.npz", accuracy=0.761, logits=logits + np.float32(1e-3))

    same = run_padiff("compare", "a.npz", "a.npz", cwd=tmp_path, blocked=NO_FRAMEWORK)
    other = run_padiff("compare", "a.npz", "b.npz", cwd=tmp_path, blocked=NO_FRAMEWORK)

    assert (same.returncode, other.returncode) == (0, 1), same.stderr + other.stderr
    assert "FIRST DIVERGENCE  logits" in other.stdout


def test_report_on_arrays_speaks_of_arrays_alone(tmp_path: Path, logits: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", logits=logits, accuracy=0.761, epoch=3)
    np.savez(tmp_path / "b.npz", logits=logits * 2, accuracy=0.761)

    equal = run_padiff("compare", "a.npz", "a.npz", cwd=tmp_path)
    other = run_padiff("compare", "a.npz", "b.npz", cwd=tmp_path)

    assert equal.stdout.startswith("MATCH: the arrays agree")
    assert other.stdout.startswith("DIVERGED: 2 of 3 arrays")
    assert "only in the reference" in other.stdout
    for word in ("eval", "(root)", "forward", "backward", "MODULE TREE", "inputs", "train"):
        assert word not in equal.stdout + other.stdout, word


def test_arrays_without_common_names_are_trouble_that_says_so(
    tmp_path: Path, logits: np.ndarray
) -> None:
    np.save(tmp_path / "a.npy", logits)
    np.savez(tmp_path / "b.npz", logits=logits, more=logits)

    result = run_padiff("compare", "a.npy", "b.npz", cwd=tmp_path)

    assert result.returncode == 2
    assert "arrays go by their names" in result.stderr


def test_hint_for_a_pickled_dict_converts_it(tmp_path: Path, logits: np.ndarray) -> None:
    known = {"logits": logits, "acc": np.array(0.5)}
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "forward.npy", known, allow_pickle=True)  # type: ignore[arg-type]
    refused = run_padiff("compare", "folder", "folder", cwd=tmp_path)
    _, found, line = refused.stderr.partition("hint: convert it where it was made: ")
    assert (refused.returncode, bool(found)) == (2, True), refused.stderr

    script = f"import numpy\npath = 'folder/forward.npy'\n{line.strip()}"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)

    assert done.returncode == 0
    np.savez(tmp_path / "again.npz", logits=logits, acc=0.5)
    result = run_padiff("compare", "folder/forward.npy.npz", "again.npz", cwd=tmp_path)
    assert result.stdout.startswith("MATCH"), result.stdout + result.stderr


def test_tolerance_that_the_report_offers_is_enough(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=np.zeros(3, np.float32))
    np.savez(tmp_path / "b.npz", logits=np.full(3, 0.1, np.float32))  # 0.100000001...

    refused = run_padiff("compare", "a.npz", "b.npz", cwd=tmp_path)
    offer = re.search(r"would pass +with --atol (\S+)", refused.stdout)
    assert offer is not None, refused.stdout
    accepted = run_padiff("compare", "a.npz", "b.npz", "--atol", offer[1], cwd=tmp_path)

    assert (refused.returncode, accepted.returncode) == (1, 0), accepted.stdout


FORMATS = {
    "json": "r.json",
    "html": "r.html",
    "junit": "r.xml",
    "sarif": "r.sarif",
    "markdown": "r.md",
    "csv": "r.csv",
}


def test_all_reports_are_written_of_arrays_too(tmp_path: Path, logits: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", logits=logits)
    np.savez(tmp_path / "b.npz", logits=logits * 2)
    words = [word for form, name in FORMATS.items() for word in (f"--{form}", name)]

    result = run_padiff("compare", "a.npz", "b.npz", *words, cwd=tmp_path)

    assert result.returncode == 1, result.stderr
    for name in FORMATS.values():
        assert "logits" in (tmp_path / name).read_text(encoding="utf-8"), name
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "diverged"


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_every_kind_of_file_compares(tmp_path: Path, logits: np.ndarray, suffix: str) -> None:
    def write(name: str, array: np.ndarray) -> None:
        path = tmp_path / f"{name}{suffix}"
        if suffix == ".npy":
            np.save(path, array)
        elif suffix == ".npz":
            np.savez(path, array=array)
        else:
            save_file({"array": array.astype(ml_dtypes.bfloat16)}, path)

    write("a", logits)
    write("b", logits * np.float32(1.5))
    names = f"a{suffix}", f"b{suffix}"

    same = run_padiff("compare", names[0], names[0], cwd=tmp_path, blocked=NO_FRAMEWORK)
    other = run_padiff("compare", *names, cwd=tmp_path, blocked=NO_FRAMEWORK)

    assert (same.returncode, other.returncode) == (0, 1), same.stderr + other.stderr
    assert "mean abs" in other.stdout


def test_file_compares_with_what_was_saved(tmp_path: Path, logits: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", logits=logits, rates=[0.1, 0.2], accuracy=0.5)
    values = {"logits": logits, "rates": [0.1, 0.2], "accuracy": 0.5}
    padiff.save("b", values, out=tmp_path)

    result = run_padiff("compare", "a.npz", "b", cwd=tmp_path)

    assert result.returncode == 0, result.stdout


def test_array_that_one_side_lacks_is_a_divergence(tmp_path: Path, logits: np.ndarray) -> None:
    np.savez(tmp_path / "a.npz", logits=logits, loss=1.0)
    np.savez(tmp_path / "b.npz", logits=logits)

    result = run_padiff("compare", "a.npz", "b.npz", cwd=tmp_path)

    assert result.returncode == 1
    assert "FIRST DIVERGENCE  loss" in result.stdout


def test_folders_compare_file_by_file(tmp_path: Path, logits: np.ndarray) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "forward.npy", logits)
        np.savez(tmp_path / side / "metric.npz", accuracy=0.5 if side == "a" else 0.6)

    result = run_padiff("compare", "a", "b", cwd=tmp_path)

    assert result.returncode == 1
    assert "FIRST DIVERGENCE  metric['accuracy']" in result.stdout


def test_a_pickle_of_something_else_than_a_dict_of_arrays_is_refused(
    tmp_path: Path, logits: np.ndarray
) -> None:
    pickled = np.array([{"logits": logits}, 1], dtype=object)
    np.save(tmp_path / "log.npy", pickled, allow_pickle=True)

    result = run_padiff("compare", "log.npy", "log.npy", cwd=tmp_path)

    assert result.returncode == 2
    assert "cannot read the arrays of 'log.npy': it holds an array of objects" in result.stderr


def test_saved_values_are_a_dump(tmp_path: Path, logits: np.ndarray) -> None:
    values = {"logits": logits, "nested": [logits[0], {"accuracy": 0.761}]}

    path = padiff.save("forward", values, out=tmp_path)

    dump = padiff.open_dump(path)
    assert not list(dump.problems())
    with dump.open(0, 0) as step:
        assert [record.slot for record in step.index.records] == [
            "['logits']",
            "['nested'][0]",
            "['nested'][1]['accuracy']",
        ]


def test_what_is_no_number_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected tensors, arrays and numbers"):
        padiff.save("forward", {"name": "text"}, out=tmp_path)
    with pytest.raises(ConfigError, match="nothing in it"):
        padiff.save("forward", {}, out=tmp_path)

    assert not (tmp_path / "forward").exists()
