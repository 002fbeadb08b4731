"""One trial of recording, in a process of its own: ``python -m benchmarks.recordtrial``."""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import padiff
from padiff.dumper import Recorder, RecordSettings, adapters
from padiff.dumpfile import Content, Keep, open_dump

from .memory import peak_bytes
from .programsize import program_size
from .rounds import Rounds, take_turns
from .scale import Scale
from .workloads import FRAMEWORKS, MODELS, build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .workloads import Workload

_MIB = 1 << 20
_MODES = ("full", "stats", "digest")
_Arrays = list[np.ndarray[Any, Any]]


def measure(framework: str, name: str, folder: Path, *, scale: Scale) -> dict[str, Any]:
    """Time recording in all modes, a plain step, and other ways to write the same bytes."""
    work = build(framework, name, scale=scale)
    dump = _record(work, folder)
    arrays, met = _arrays(dump)
    size_bytes = sum(file.size_bytes for file in open_dump(dump).files)
    savers = _savers(framework, arrays, folder)
    sides: dict[str, Callable[[], object]] = {"plain": work.step, **savers}
    sides |= {mode: partial(_record, work, folder, content=mode) for mode in _MODES}
    taken = take_turns(sides, rounds=scale.pick(full=3, quick=5, tiny=1))
    between = _between(work, folder, rounds=scale.pick(full=3, quick=15, tiny=1))
    distinct = sum(array.nbytes for array in arrays)
    operators, program_bytes = program_size(dump)
    cost = _operator_cost(framework, folder, rounds=scale.pick(full=25, quick=9, tiny=1))
    shown = ", ".join(f"{side} {taken.median(side):.2f} s" for side in sides)
    return {
        "detail": f"{work.description}; {distinct / _MIB:.0f} MiB; {shown}",
        "others": [saver for saver in savers if saver != "save"],
        **{saver: _ratio(taken, "full", "plain", saver) for saver in savers},
        **{mode: _ratio(taken, mode, "plain") for mode in ("stats", "digest")},
        "between": _ratio(between, "between", "plain"),
        "distinct": distinct,
        "met": met,
        "file": size_bytes,
        "operators": operators,
        "program": program_bytes,
        "operator_us": cost,
    }


def _operator_cost(framework: str, folder: Path, *, rounds: int) -> dict[str, float]:
    """Return the processor time in µs that a program adds to steps of a tiny model.

    That of the fastest steps with and without a program: there is hardly an element to read.
    ``each`` is all of it for each operator of the deeper of two models; the line through both
    parts it into ``slope``, for one more operator, and ``fixed``, for a step.
    """
    counts, added = [], []
    for name in ("small gpt", "deep gpt"):
        work = build(framework, name, scale=Scale.TINY)
        sides = {
            "without": partial(_record, work, folder, program=False),
            "with": partial(_record, work, folder),
        }
        taken = take_turns(sides, rounds=rounds).processor
        counts.append(program_size(_record(work, folder))[0])
        added.append((min(taken["with"]) - min(taken["without"])) * 1e6)
    slope = (added[1] - added[0]) / (counts[1] - counts[0])
    return {"each": added[1] / counts[1], "slope": slope, "fixed": added[0] - slope * counts[0]}


def _ratio(taken: Rounds, side: str, *others: str) -> dict[str, Any]:
    return {
        "wall": taken.ratio(side, *others),
        "detail": f"rounds {taken.spread(side, *others)}; in processor time "
        f"{taken.processor_ratio(side, *others):.2f}",
    }


def _record(work: Workload, folder: Path, content: str = "full", *, program: bool = True) -> Path:
    keep = Keep.parse(content)
    settings = RecordSettings(
        out=folder, name="dump", overwrite=True, content=keep, program=program
    )
    with Recorder(work.model, settings, adapters.find(work.model)) as recorder:
        work.step()
    return recorder.path


def _between(work: Workload, folder: Path, *, rounds: int) -> Rounds:
    """Time steps that are not recorded while a recording is open, and steps without any."""
    with padiff.record(
        work.model, name="between", out=folder, overwrite=True, steps=[0]
    ) as recorder:
        work.step()
        recorder.step()

        def between() -> None:
            work.step()
            recorder.step()

        return take_turns({"plain": work.step, "between": between}, rounds=rounds)


def _savers(framework: str, arrays: _Arrays, folder: Path) -> dict[str, Callable[[], object]]:
    """Give the ways to write what a dump holds, each distinct value once."""
    module = importlib.import_module(framework)
    make = module.from_numpy if framework == "torch" else module.to_tensor
    tensors = {str(number): make(array) for number, array in enumerate(arrays)}
    return {
        "save": lambda: _save(arrays, folder / "saved"),
        "savez": lambda: np.savez(folder / "saved.npz", *arrays),
        f"{framework}.save": lambda: module.save(tensors, str(folder / "saved.pt")),
    }


def _save(arrays: Sequence[np.ndarray[Any, Any]], folder: Path) -> None:
    """Write one file for each value, replacing the last ones."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)


def _arrays(dump: Path) -> tuple[_Arrays, int]:
    """Give all distinct values of records, in memory, and how many bytes the records hold."""
    with open_dump(dump).open(0, 0) as file:
        arrays = {
            value.id: file.value_array(value).copy()
            for value in file.index.values
            if value.content is Content.FULL
        }
        met = sum(
            arrays[record.value].nbytes for record in file.index.records if record.value is not None
        )
    return list(arrays.values()), met


def _peak(framework: str, name: str, folder: Path, *, scale: Scale, mode: str) -> dict[str, Any]:
    work = build(framework, name, scale=scale)
    work.step()
    if mode == "plain":
        work.step()
    else:
        _record(work, folder, mode)
    return {"peak": peak_bytes()}


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["time", "plain", *_MODES])
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--scale", type=Scale, choices=list(Scale), default=Scale.FULL)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        where = (chosen.framework, chosen.model, Path(made))
        if chosen.task == "time":
            answer = measure(*where, scale=chosen.scale)
        else:
            answer = _peak(*where, scale=chosen.scale, mode=chosen.task)
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
