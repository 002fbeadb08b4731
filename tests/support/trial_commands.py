"""The commands that write, what lies there before them, and how to see that all is whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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


class Pair(torch.nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.names = first, second
        for name in sorted(self.names):
            self.add_module(name, torch.nn.Linear(3, 3))

    def forward(self, x):
        return getattr(self, self.names[1])(getattr(self, self.names[0])(x).tanh())


def reference():
    return Pair("up", "down")


def candidate():
    return Pair("one", "two")
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
    arrays: dict[str, Any] = {f"x{number}": np.full(2000, number) for number in range(9)}
    np.savez(home / "w.npz", **arrays)
    np.save(home / "x.npy", np.ones((2, 3), np.float32))
    pack(home / "a", home / "packed.padiff.zip")
    for name in ("r.json", "r.html", "again.csv", "map.toml", "plan.toml"):
        (home / name).write_text("old" if name != "r.json" else "{}")
    write_arrays(home / "w.safetensors", {"old": np.ones(2, np.float32)})
    os.chdir(home)
    assert run(["compare", "a", "b", "-q", "--json", "result.json"], home) == 1
    assert run(dump_words(), home) == 0
    assert run([*pair_words("reference"), "--out", "."], home) == 0


def pair_words(name: str) -> list[str]:
    """Give a dump of a model of which only a run tells which layer is which."""
    return ["dump", "--model", f"net.py:{name}", "--inputs", "x.npy", "--name", name]


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


INTO_A_FOLDER = {
    "dump": [*dump_words()[:-3], "--out", "out", "--overwrite"],
    "accept": ["accept", "out/base", "b", "--reason", "new"],
    "pack": ["pack", "b", "-o", "out/packed.padiff.zip"],
    "compare": ["compare", "a", "b", "-q", "--json", "out/r.json", "--html", "out/r.html"],
    "report": ["report", "result.json", "--csv", "out/again.csv"],
    "map": ["map", "a", "b", "-o", "out/map.toml"],
    "plan": ["weights", "plan", "a", "b", "-o", "out/plan.toml"],
    "convert": ["weights", "convert", "a", "--like", "b", "--to", "out/w.safetensors"],
    "extract": ["extract", "a", "b", "--module", "fc1", "-o", "out/layer"],
}
"""The same commands, which write into a folder that may go."""
TEMPORARY = {
    "check": ["check", "packed.padiff.zip"],
    "show": ["show", "packed.padiff.zip"],
    "extract": ["extract", "packed.padiff.zip", "b", "--module", "fc1", "-o", "layer"],
    "compare": ["compare", "packed.padiff.zip", "b", "-q"],
    "accept": ["accept", "new", "packed.padiff.zip", "--reason", "new"],
    "compare arrays": ["compare", "w.npz", "w.npz", "-q"],
    "dump": [*pair_words("candidate"), "--out", ".", "--weights-from", "reference", "--overwrite"],
}
"""Commands that need temporary files."""
