"""Dumps of statistics only are small, find gross faults, and say how weak a match is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
import torch
from torch import nn

def build(eps: float = 1e-5):
    torch.manual_seed(0)
    norm = nn.LayerNorm(256, eps=eps)
    return nn.Sequential(nn.Linear(64, 256), norm, nn.GELU(), nn.Linear(256, 64))
"""


def dump(folder: Path, name: str, content: str, eps: float) -> None:
    done = run_padiff(
        *("dump", "--model", "model.py:build", "--model-arg", f"eps={eps}", "--inputs", "x.npy"),
        *("--name", name, "--content", content),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stats")
    (place / "model.py").write_text(MODEL, encoding="utf-8")
    np.save(place / "x.npy", np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    for name, content, eps in (
        ("full", "full", 1e-5),
        ("stats", "stats", 1e-5),
        ("near", "full", 1.1e-5),
        ("far", "full", 0.5),
    ):
        dump(place, name, content, eps)
    return place / "padiff_dump"


def size_of(dump_: Path) -> int:
    return sum(file.stat().st_size for file in dump_.rglob("*") if file.is_file())


def test_dump_of_statistics_is_small_and_valid(folder: Path) -> None:
    assert size_of(folder / "stats") * 10 < size_of(folder / "full")
    assert run_padiff("check", "--deep", folder / "stats", cwd=folder).returncode == 0


def test_equal_runs_match_by_their_digests(folder: Path) -> None:
    done = run_padiff("compare", folder / "stats", folder / "full", cwd=folder)

    assert done.returncode == 0, done.stdout
    assert "bit-equal" in done.stdout


def test_match_by_statistics_says_that_it_is_no_proof(folder: Path) -> None:
    done = run_padiff("compare", folder / "stats", folder / "near", "--no-execute", cwd=folder)

    assert done.returncode == 0, done.stdout
    assert "by statistics only, which prove no match" in " ".join(done.stdout.split())


def test_what_statistics_do_not_see_is_proved_by_the_programs(folder: Path) -> None:
    done = run_padiff("compare", folder / "stats", folder / "near", cwd=folder)

    assert done.returncode == 1
    assert "proved: eps of layer_norm: 1.1e-05 where the reference has 1e-05" in done.stdout


@pytest.mark.parametrize("order", [("stats", "far"), ("far", "stats")])
def test_gross_fault_is_found_and_located(order: tuple[str, str], folder: Path) -> None:
    done = run_padiff("compare", *(folder / name for name in order), cwd=folder)

    assert done.returncode == 1
    origin = done.stdout.partition("FIRST ORIGIN")[2].partition("MODULE TREE")[0]
    assert "LayerNorm" in origin
    assert "on the reference" in origin
