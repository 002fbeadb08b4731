"""The commands that write, what lies there before them, and how to see that all is whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper.weights.checkpoint import read_arrays, write_arrays
from padiff.dumpfile import open_dump, validate
from padiff.dumpfile.packed import pack, unpacked
from padiff.dumpfile.place import Place
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NET = """
import torch


def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One command, what lies there before it, and what must hold afterwards."""

    words: list[str]
    whole: Callable[[Path], object]
    """Raises if what the command writes is there and not whole."""


def prepare(home: Path, run: Callable[[list[str], Path], int]) -> None:
    """Write what the commands read, and an older version of what each writes.

    Args:
        home: Where; made, and the working directory from now on.
        run: Runs a command there, in a process of its own; gives its exit code.
    """
    home.mkdir()
    tiny_net().write(home / "a")
    tiny_net(weight_change=1.0).write(home / "b")
    tiny_net().write(home / "base")
    (home / "net.py").write_text(NET)
    np.save(home / "x.npy", np.ones((2, 3), np.float32))
    pack(home / "a", home / "packed.padiff.zip")
    for name in ("r.json", "r.html", "again.csv", "map.toml", "plan.toml"):
        (home / name).write_text("old" if name != "r.json" else "{}")
    write_arrays(home / "w.safetensors", {"old": np.ones(2, np.float32)})
    os.chdir(home)
    assert run(["compare", "a", "b", "-q", "--json", "result.json"], home) == 1
    assert run(dump_words(), home) == 0


def dump_words() -> list[str]:
    words = ["dump", "--model", "net.py:build", "--inputs", "x.npy", "--name", "d", "--steps", "2"]
    return [*words, "--out", ".", "--overwrite"]


def packed_is_whole(home: Path) -> None:
    with unpacked(home / "packed.padiff.zip") as place:
        assert validate(place, deep=True) == []


def dump_is_whole(name: str) -> Callable[[Path], None]:
    def check(home: Path) -> None:
        Place(home / name, overwrite=False).recover()
        assert validate(home / name, deep=True) == []
        kept = home / f"{name}.incomplete"
        assert not kept.exists() or open_dump(kept).manifest.incomplete

    return check


def text_is_whole(name: str, end: str) -> Callable[[Path], None]:
    def check(home: Path) -> None:
        text = (home / name).read_text()
        assert text in {"old", "{}"} or text.rstrip().endswith(end)

    return check


def extracted_is_whole(home: Path) -> None:
    for path in (home / "layer").glob("*.*"):
        if path.name.startswith("."):
            continue
        if path.suffix == ".npz":
            assert np.load(path).files
        elif path.suffix == ".json":
            assert json.loads(path.read_text())
        else:
            assert "__main__" in path.read_text()
            compile(path.read_text(), path.name, "exec")


TRIALS = {
    "dump": Trial(words=dump_words(), whole=dump_is_whole("d")),
    "accept": Trial(words=["accept", "base", "b", "--reason", "new"], whole=dump_is_whole("base")),
    "pack": Trial(
        words=["pack", "b", "-o", "packed.padiff.zip", "--overwrite"], whole=packed_is_whole
    ),
    "compare": Trial(
        words=["compare", "a", "b", "-q", "--json", "r.json", "--html", "r.html"],
        whole=lambda home: (
            json.loads((home / "r.json").read_text()),
            text_is_whole("r.html", "</html>")(home),
        ),
    ),
    "report": Trial(
        words=["report", "result.json", "--csv", "again.csv"], whole=text_is_whole("again.csv", "")
    ),
    "map": Trial(
        words=["map", "a", "b", "-o", "map.toml", "--overwrite"],
        whole=text_is_whole("map.toml", ""),
    ),
    "plan": Trial(
        words=["weights", "plan", "a", "b", "-o", "plan.toml"],
        whole=text_is_whole("plan.toml", ""),
    ),
    "convert": Trial(
        words=["weights", "convert", "a", "--like", "b", "--to", "w.safetensors", "--overwrite"],
        whole=lambda home: read_arrays(home / "w.safetensors"),
    ),
    "extract": Trial(
        words=["extract", "a", "b", "--module", "fc1", "-o", "layer"], whole=extracted_is_whole
    ),
}
