"""A seeded fuzzer over everything that padiff reads: one number is one case, for ever.

Each case takes a good file, damages it by bytes or by structure, and gives it to one command in
a process that is shared with other cases. If that process dies, the case is known, and the next
ones run in another.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import random
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from safetensors.numpy import save_file

from padiff.cli.main import main
from padiff.dumpfile import Content, DumpWriter, Floor, Keep, RecordFloor, write_floor
from padiff.dumpfile.packed import pack
from tests.support.damage import bend, bend_toml, flip, nudge
from tests.support.dumps import add_step, manifest
from tests.support.hostile_checkpoints import GOOD, old_torch_file, tensor, torch_archive
from tests.support.indexes import FILE, read_tables, with_number, write_tables
from tests.support.tiny_net import tiny_net
from tests.support.tiny_program import tiny_program

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

CASE_S = 20
MAP = """[[pair]]
reference = "fc{i}"
candidate = "fc{i}"
children = true

[[layout]]
reference = "norm"
output = "permute 0 1"

[[ignore]]
reference = "**.dropout"
reason = "inactive"

[[weight]]
reference = "fc1.weight"
candidate = "fc1.weight"
rule = "transpose"

[[rule]]
class = "mylib.Packed"
kind = "linear"
weight = "weight | transpose"
"""
POLICY = """atol = 1e-4
mode = "quantile=0.999"
max_mismatched = "10ppm"

[[rule]]
pattern = "fc*"
role = "weight_grad"
atol = 1e-3
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A case that broke the promise."""

    case: int
    what: str


def prepare(folder: Path) -> None:
    """Write the good files that all cases start from."""
    tiny_net(weight_change=1e-6).write(folder / "good")
    tiny_net().write(folder / "plain")
    keeps = {"deflated": Keep(), "sampled": Keep(content=Content.SAMPLE, sample=1)}
    for name, keep in keeps.items():
        level = 1 if name == "deflated" else None
        with DumpWriter(folder / name, content=keep, compression=level) as writer:
            add_step(writer, tiny_net())
            writer.commit(manifest(name=name))
    _without_checksums(tiny_net().write(folder / "loose"))
    tiny_program().write(folder / "programmed")
    tiny_program(is_plain=True).write(folder / "executed")
    rows = tuple(RecordFloor(max_abs=1e-6, rms=1e-7) for _ in range(17))
    tiny_net().write(folder / "floored")
    write_floor(folder / "floored", Floor(repeats=1, perturb="ulp", records={(0, 0): rows}))
    pack(folder / "plain", folder / "packed.padiff.zip")
    (folder / "map.toml").write_text(MAP, encoding="utf-8")
    (folder / "policy.toml").write_text(POLICY, encoding="utf-8")
    arrays: dict[str, Any] = {"fc.weight": np.ones((3, 4), np.float32), "x": np.arange(5)}
    np.save(folder / "a.npy", arrays["fc.weight"])
    np.savez(folder / "a.npz", **arrays)
    save_file(arrays, folder / "a.safetensors")
    (folder / "a.pdparams").write_bytes(pickle_of(arrays))
    torch_archive(folder / "a.pth", tensor(), GOOD)
    old_torch_file(folder / "a.pt")
    words = ["compare", str(folder / "plain"), str(folder / "good"), "-q", "--details"]
    assert main([*words, "--json", str(folder / "report.json")]) in (0, 1)


def _without_checksums(dump: Path) -> None:
    """Write a step file anew in HDF5's old form, in which a damaged byte is not found out."""
    with h5py.File(dump / FILE) as file:
        found = {f"values/{name}": dataset[...] for name, dataset in file["values"].items()}
        found |= {f"index/{name}": dataset[...] for name, dataset in file["index"].items()}
    with h5py.File(dump / FILE, "w", libver="earliest") as file:
        file.create_group("values")
        for name, elements in found.items():
            file.create_dataset(name, data=elements, track_times=False)
    _state_size(dump)


def pickle_of(arrays: dict[str, Any]) -> bytes:
    """Write arrays as Paddle does."""
    import pickle  # noqa: PLC0415 - written only, never read here

    return pickle.dumps(arrays, protocol=4)


# -- cases


def case_of_file(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage a step file by its bytes."""
    bad = _copy(folder, chance.choice(["plain", "deflated", "sampled", "loose", "loose", "loose"]))
    damage = chance.choice([flip, nudge, nudge])
    (bad / FILE).write_bytes(damage((bad / FILE).read_bytes(), chance))
    _state_size(bad)
    return [_command(bad, folder, chance)]


def case_of_index(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage tables of an index: numbers, lengths, texts; cycles, counts, positions."""
    bad = _copy(folder, chance.choice(["plain", "deflated", "sampled"]))
    _bend_tables(bad, "index", chance)
    return [_command(bad, folder, chance)]


def _bend_tables(dump: Path, group: str, chance: random.Random) -> None:
    tables = read_tables(dump, group)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        name = chance.choice(sorted(tables))
        tables[name] = _bent_table(tables[name], chance)
    write_tables(dump, tables, group)


def case_of_program(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage columns of a program: numbers, lengths, texts; operands, cycles, names, nesting."""
    name = chance.choice(["programmed", "executed", "executed"])
    bad = _copy(folder, name)
    _bend_tables(bad, chance.choice(["program", "program", "index"]), chance)
    out = str(folder / "out.onnx")
    return [
        chance.choice(
            [
                ["show", str(bad), "--program", "--holes"],
                ["show", str(bad), "--program", "--json"],
                ["show", str(bad), "--dot"],
                ["audit", str(bad)],
                ["audit", str(bad)],
                ["export", str(bad), "-o", out],
                ["check", "--deep", str(bad)],
                ["compare", str(bad), str(folder / name)],
            ]
        )
    ]


def _bent_table(table: Any, chance: random.Random) -> Any:  # noqa: ANN401
    """Change one thing about a table: most changes leave a file that can be read."""
    at = chance.randrange(table.size) if table.size else 0
    kind = chance.choice(["set", "set", "set", "step", "swap", "cut", "repeat", "huge"])
    if kind == "cut" or not table.size:
        return table[:at]
    if kind == "repeat":  # also of arguments: containers inside each other
        return np.repeat(table, chance.choice([1, 2, 40]))
    column = None if table.dtype.names is None else chance.choice(table.dtype.names)
    cells = table if column is None else table[column]
    if cells.dtype.kind == "f":
        return with_number(table, column, at, chance.choice([np.nan, np.inf, -1e300, 0.0, 2.5]))
    if cells.ndim > 1:
        return with_number(table, column, at, chance.randrange(256))
    if kind == "swap":
        swapped = with_number(table, column, at, int(cells[-1]))
        return with_number(swapped, column, -1, int(cells[at]))
    set_to = int(cells[chance.randrange(cells.size)])
    huge = chance.choice([1 << 20, 1 << 31, (1 << 53) + 1, (1 << 62) + 3, -(1 << 62)])
    step = int(cells[at]) + chance.choice([-1, 1, 2])
    return with_number(table, column, at, {"set": set_to, "step": step, "huge": huge}[kind])


def case_of_manifest(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage a manifest."""
    bad = _copy(folder, "plain")
    damage = chance.choice([flip, bend])
    (bad / "manifest.json").write_bytes(damage((bad / "manifest.json").read_bytes(), chance))
    return [_command(bad, folder, chance)]


def case_of_floor(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage a noise floor."""
    bad = _copy(folder, "floored")
    damage = chance.choice([flip, bend])
    (bad / "floor.json").write_bytes(damage((bad / "floor.json").read_bytes(), chance))
    return [["compare", str(bad), str(folder / "good"), "--floor", "both"]]


def case_of_packed(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage a packed dump."""
    bad = folder / "bad.padiff.zip"
    damage = chance.choice([flip, nudge])
    bad.write_bytes(damage((folder / "packed.padiff.zip").read_bytes(), chance))
    return [_command(bad, folder, chance)]


def case_of_map(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage a map file or a policy."""
    name, option = chance.choice([("map.toml", "--map"), ("policy.toml", "--policy")])
    bad = folder / "bad.toml"
    damage = chance.choice([flip, bend_toml, bend_toml])
    bad.write_bytes(damage((folder / name).read_bytes(), chance))
    return [["compare", str(folder / "plain"), str(folder / "good"), option, str(bad)]]


def case_of_arrays(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage an input file or a checkpoint."""
    suffix = chance.choice(["npy", "npz", "safetensors", "pdparams", "pth", "pt"])
    bad = folder / f"bad.{suffix}"
    damage = chance.choice([flip, nudge])
    bad.write_bytes(damage((folder / f"a.{suffix}").read_bytes(), chance))
    if suffix in {"pdparams", "pth", "pt"} or chance.random() < 0.3:
        return [["weights", "stats", str(bad)]]
    return [["compare", str(bad), str(folder / f"a.{suffix}")]]


def case_of_report(folder: Path, chance: random.Random) -> list[list[str]]:
    """Damage a report."""
    bad = folder / "bad.json"
    damage = chance.choice([flip, bend, bend])
    bad.write_bytes(damage((folder / "report.json").read_bytes(), chance))
    out = str(folder / "out")
    forms = ["html", "junit", "sarif", "markdown", "csv"]
    return [
        chance.choice(
            [
                ["judge", str(bad), "--atol", "1e-3"],
                ["report", str(bad), f"--{chance.choice(forms)}", out],
                ["report", str(bad), "--github"],
            ]
        )
    ]


KINDS: tuple[Callable[[Path, random.Random], list[list[str]]], ...] = (
    case_of_file,
    case_of_file,
    case_of_file,
    case_of_index,
    case_of_index,
    case_of_program,
    case_of_program,
    case_of_program,
    case_of_manifest,
    case_of_floor,
    case_of_packed,
    case_of_map,
    case_of_arrays,
    case_of_report,
)


def _copy(folder: Path, name: str) -> Path:
    bad = folder / "bad"
    shutil.rmtree(bad, ignore_errors=True)
    shutil.copytree(folder / name, bad)
    return bad


def _state_size(dump: Path) -> None:
    path = dump / "manifest.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["files"][0]["size_bytes"] = (dump / FILE).stat().st_size
    path.write_text(json.dumps(document), encoding="utf-8")


def _command(bad: Path, folder: Path, chance: random.Random) -> list[str]:
    good = str(folder / "good")
    return chance.choice(
        [
            ["check", "--deep", str(bad)],
            ["compare", str(bad), good],
            ["compare", good, str(bad)],
            ["show", str(bad), "--records"],
        ]
    )


# -- running


def fuzz(folder: Path, cases: Sequence[int], *, stop_s: float = float("inf")) -> list[Bad]:
    """Run cases and give those that broke the promise: exit 0, 1 or 2, and no traceback.

    Args:
        folder: Filled by ``prepare``; scratch besides.
        cases: Numbers.
        stop_s: Begin no further case at this ``time.monotonic()``.
    """
    place = mmap.mmap(-1, 16)
    bad: list[Bad] = []
    following = 0
    log = folder / "log"
    log.write_text("", encoding="utf-8")
    while following < len(cases) and time.monotonic() < stop_s:
        place[:8] = following.to_bytes(8, "little")
        child = os.fork()
        if child == 0:
            _work(folder, cases, following, place, log, stop_s)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        reached = int.from_bytes(place[:8], "little")
        if status != 0:
            name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            bad.append(Bad(case=cases[reached], what=name))
        following = reached + 1
    bad += [Bad(**json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]
    return bad


def _work(
    folder: Path, cases: Sequence[int], first: int, place: mmap.mmap, log: Path, stop_s: float
) -> None:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for number in range(first, len(cases)):
            place[:8] = number.to_bytes(8, "little")
            if time.monotonic() >= stop_s:
                break
            signal.alarm(CASE_S)
            for what in run_case(folder, cases[number]):
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"case": cases[number], "what": what}) + "\n")
        os._exit(0)
    finally:
        os._exit(99)


def run_case(folder: Path, case: int) -> list[str]:
    """Run one case in this process; gives what was wrong."""
    chance = random.Random(case)
    wrong = []
    for words in KINDS[case % len(KINDS)](folder, chance):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main(words)
        text = said.getvalue()
        if code not in (0, 1, 2) or "Traceback" in text or "internal error" in text:
            wrong.append(f"{' '.join(words)}: exit {code}: {text[-600:]}")
    return wrong


if __name__ == "__main__":  # python -m tests.support.fuzzing FOLDER FIRST COUNT
    import pathlib

    place_, first_, count_ = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    place_.mkdir(parents=True, exist_ok=True)
    if not (place_ / "good").exists():
        prepare(place_)
    started = time.monotonic()
    for one in fuzz(place_, range(first_, first_ + count_)):
        print(one.case, one.what)
    print(f"{count_} cases in {time.monotonic() - started:.0f} s")
