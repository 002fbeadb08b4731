"""Recording against a plain run: time, memory, bytes. Every workload has processes of its own."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import padiff
from padiff.dumper import Recorder, RecordSettings, adapters
from padiff.dumpfile import Keep, open_dump

from .figure import Figure
from .memory import peak_bytes
from .rounds import Rounds, take_turns
from .workloads import FRAMEWORKS, MODELS, build

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIB = 1 << 20
_MODES = ("stats", "digest")


def figures(*, quick: bool) -> Iterator[Figure]:
    """Measure every model in every framework."""
    for framework in FRAMEWORKS:
        for name in MODELS:
            timed = _in_process("time", framework, name, quick=quick)
            plain = _in_process("plain", framework, name, quick=quick)["peak"]
            recorded = _in_process("record", framework, name, quick=quick)["peak"]
            label = f"{framework} {name}"
            yield Figure(
                name=f"{label}: record / (plain + numpy.save)",
                value=timed["ratio"],
                unit="x",
                at_most=1.5,
                detail=timed["detail"],
            )
            for mode in _MODES:
                yield Figure(
                    name=f"{label}: record {mode} only / plain",
                    value=timed[mode],
                    unit="x",
                    at_most=1.5,
                    detail=timed[f"{mode} detail"],
                )
            yield Figure(
                name=f"{label}: step between recorded ones / plain",
                value=timed["between"],
                unit="x",
                at_most=1.01,
                detail=timed["between detail"],
            )
            yield Figure(
                name=f"{label}: peak memory over plain",
                value=(recorded - plain) / _MIB,
                unit="MiB",
                detail=f"plain {plain / _MIB:.0f}, recording {recorded / _MIB:.0f} MiB",
            )
            yield Figure(
                name=f"{label}: file / distinct bytes",
                value=timed["file"] / timed["distinct"],
                unit="x",
                detail=f"{timed['distinct'] / timed['met']:.0%} of what was met is distinct",
            )


def _in_process(task: str, framework: str, name: str, *, quick: bool) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.dumping", task, framework, name]
    done = subprocess.run(
        [*command, *(["--quick"] if quick else [])],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _time(framework: str, name: str, folder: Path, *, quick: bool) -> dict[str, Any]:
    work = build(framework, name, quick=quick)
    dump = _record(work, folder)
    arrays, met = _arrays(dump)
    size_bytes = sum(file.size_bytes for file in open_dump(dump).files)
    sides = {
        "plain": work.step,
        "save": lambda: _save(arrays, folder / "saved"),
        "record": lambda: _record(work, folder),
    }
    sides |= {mode: partial(_record, work, folder, content=mode) for mode in _MODES}
    taken = take_turns(sides, rounds=3 if quick else 5)
    between = _between(work, folder, rounds=15 if quick else 5)
    distinct = sum(array.nbytes for array in arrays)
    shown = ", ".join(f"{side} {taken.median(side):.2f} s" for side in sides)
    return {
        "ratio": taken.ratio("record", "plain", "save"),
        "detail": f"{work.description}; {distinct / _MIB:.0f} MiB; {shown}; "
        f"rounds {taken.spread('record', 'plain', 'save')}; in processor time "
        f"{taken.processor_ratio('record', 'plain', 'save'):.2f}",
        "between": between.ratio("between", "plain"),
        "between detail": f"rounds {between.spread('between', 'plain')}; in processor time "
        f"{between.processor_ratio('between', 'plain'):.4f}",
        **{mode: taken.ratio(mode, "plain") for mode in _MODES},
        **{
            f"{mode} detail": f"rounds {taken.spread(mode, 'plain')}; in processor time "
            f"{taken.processor_ratio(mode, 'plain'):.2f}"
            for mode in _MODES
        },
        "distinct": distinct,
        "met": met,
        "file": size_bytes,
    }


def _record(work: Any, folder: Path, content: str = "full") -> Path:  # noqa: ANN401
    settings = RecordSettings(
        out=folder, name="dump", overwrite=True, content=Keep.parse(content)
    )  # fmt: skip
    with Recorder(work.model, settings, adapters.find(work.model)) as recorder:
        work.step()
    return recorder.path


def _between(work: Any, folder: Path, *, rounds: int) -> Rounds:  # noqa: ANN401
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


def _save(arrays: list[np.ndarray[Any, Any]], folder: Path) -> None:
    """Write what a dump holds, one file for each distinct value, replacing the last ones."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, array in enumerate(arrays):
        np.save(folder / f"{number}.npy", array)


def _arrays(dump: Path) -> tuple[list[np.ndarray[Any, Any]], int]:
    """Give all distinct values, in memory, and how many bytes there were before folding."""
    with open_dump(dump).open(0, 0) as file:
        arrays = [file.value_array(value).copy() for value in file.index.values]
        met = sum(
            arrays[record.value].nbytes for record in file.index.records if record.value is not None
        )
    return arrays, met


def _peak(framework: str, name: str, folder: Path, *, quick: bool, record: bool) -> dict[str, Any]:
    work = build(framework, name, quick=quick)
    work.step()
    if record:
        _record(work, folder)
    else:
        work.step()
    return {"peak": peak_bytes()}


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["time", "plain", "record"])
    parser.add_argument("framework", choices=FRAMEWORKS)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        if chosen.task == "time":
            answer = _time(chosen.framework, chosen.model, folder, quick=chosen.quick)
        else:
            is_recording = chosen.task == "record"
            answer = _peak(
                chosen.framework, chosen.model, folder, quick=chosen.quick, record=is_recording
            )
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
