"""Comparing whole dumps: time against numpy on the same arrays, peak memory, small tensors."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.comparer import CompareSettings, compare
from padiff.dumpfile import (
    CallInfo,
    DumpWriter,
    Manifest,
    ModuleInfo,
    Phase,
    Role,
    StepWriter,
    open_dump,
)
from tests.support.sparse_dumps import write_sparse

from .figure import Figure
from .memory import peak_bytes
from .smallnet import RECORDS_PER_BLOCK, write_small

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scale import Scale

_MIB = 1 << 20
_SPARSE_BYTES = 256 << 20
"""Of one tensor of the sparse files."""


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Compare large dumps that pass, identical ones, and many small tensors."""
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        elements = scale.pick(full=4 << 20, quick=4 << 20, tiny=1 << 12)
        tensors = scale.pick(full=160, quick=8, tiny=2)
        for name, noise in (("reference", 0.0), ("same", 0.0), ("close", 2e-7)):
            _write(folder / name, tensors, elements, noise=noise)
        yield from _large(folder, size_bytes=tensors * elements * 4)
        yield from _processes(folder, rounds=scale.pick(full=3, quick=3, tiny=1))
        yield from _sparse(folder, mebibytes=scale.pick(full=10_240, quick=1_024, tiny=256))
        yield from _small(folder, records=scale.pick(full=100_000, quick=20_000, tiny=100))


def _processes(folder: Path, *, rounds: int) -> Iterator[Figure]:
    """Compare large dumps with one process and with two, in turns."""
    taken: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for _ in range(rounds):
        for jobs, found in taken.items():
            found.append(compare_once(folder, "reference", "close", jobs=jobs))
    one, two = (min(found, key=lambda each: float(each["wall"])) for found in taken.values())
    load = os.getloadavg()[0]
    yield Figure(
        name="large pairs: wall time of one process over that of two",
        value=one["wall"] / two["wall"],
        unit="x",
        detail=f"{one['wall']:.2f} s, {two['wall']:.2f} s (4 GiB and more are shared out); "
        f"load {load:.1f} on {os.cpu_count()} cores",
    )


def _sparse(folder: Path, *, mebibytes: int) -> Iterator[Figure]:
    """Compare two large dumps whose elements are holes in their files."""
    tensors = mebibytes * _MIB // _SPARSE_BYTES
    for seed in (1, 2):
        write_sparse(folder / f"sparse {seed}", tensors, _SPARSE_BYTES // 4, seed=seed)
    idle = compare_once(folder, "", "")
    found = compare_once(folder, "sparse 1", "sparse 2")
    yield Figure(
        name=f"2 x {mebibytes} MiB of sparse files: peak memory over the interpreter",
        value=(found["peak"] - idle["peak"]) / _MIB,
        unit="MiB",
        at_most=256,
        detail=f"{tensors} pairs of {_SPARSE_BYTES // _MIB} MiB; {found['wall']:.0f} s, "
        f"processor time {found['cpu']:.0f} s",
    )


def _small(folder: Path, *, records: int) -> Iterator[Figure]:
    """Compare dumps of many records of 1 KiB: the same tree, another tree, a module for each."""
    blocks = records // RECORDS_PER_BLOCK
    write_small(folder / "small", blocks, noise=0.0)
    write_small(folder / "small close", blocks, noise=2e-7)
    write_small(folder / "small port", blocks, noise=2e-7, is_port=True)
    write_small(folder / "one", 1, noise=0.0)
    for name, is_port in (("one close", False), ("one port", True)):
        write_small(folder / name, 1, noise=2e-7, is_port=is_port)
        command_seconds(
            folder / "one", folder / name
        )  # compiles what an installed package has compiled
    for name, noise in (("flat", 0.0), ("flat close", 2e-7)):
        _write(folder / name, records // 5, 256, noise=noise)
    for label, names, count in (
        ("small pairs, equal trees", ("small", "small close"), records),
        ("small pairs, a port with another tree", ("small", "small port"), records),
        ("small pairs, a module for each", ("flat", "flat close"), records // 5),
    ):
        found = compare_once(folder, *names)
        yield Figure(
            name=f"{label}: per second",
            value=count / found["cpu"],
            unit="1/s",
            at_least=20_000,
            detail=f"{count} of 1 KiB each; processor time {found['cpu']:.1f} s, all included; "
            f"peak memory {found['peak'] / _MIB:.0f} MiB",
        )
        seconds = command_seconds(folder / names[0], folder / names[1])
        yield Figure(
            name=f"{label}: the command, per second",
            value=count / seconds,
            unit="1/s",
            at_least=20_000,
            detail=f"`padiff compare` with its start and the terminal's report: {seconds:.1f} s",
        )


def compiled(folder: Path) -> dict[str, str]:
    """Return the environment of commands whose code is compiled, as that of a package is.

    Args:
        folder: Where the compiled code is kept.
    """
    own = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
    return os.environ | own


def command_seconds(
    reference: Path, candidate: Path, *options: str, diverges: bool = False
) -> float:
    """Return the processor time of the whole command, the report included."""
    command = [sys.executable, "-m", "padiff.cli", "compare", str(reference), str(candidate)]
    command += options
    environment = compiled(reference.parent)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False, env=environment)
    if done.returncode != int(diverges):
        raise SystemExit(f"expected exit code {int(diverges)}, found {done.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _large(folder: Path, *, size_bytes: int) -> Iterator[Figure]:
    allclose = _allclose(folder)
    idle = compare_once(folder, "", "")
    label = f"2 x {size_bytes / _MIB:.0f} MiB"
    close = compare_once(folder, "reference", "close")
    yield Figure(
        name=f"{label} within tolerance: compare / allclose",
        value=close["wall"] / allclose,
        unit="x",
        detail=f"whole compare {close['wall']:.2f} s, numpy.allclose alone {allclose:.2f} s",
    )
    yield Figure(
        name=f"{label}: peak memory over the interpreter",
        value=(close["peak"] - idle["peak"]) / _MIB,
        unit="MiB",
        at_most=256,
        detail=f"imports alone {idle['peak'] / _MIB:.0f} MiB",
    )
    same = compare_once(folder, "reference", "same")
    yield Figure(
        name=f"{label} bit-equal: compare",
        value=same["wall"],
        unit="s",
        detail="by digests, nothing is read",
    )


def _allclose(folder: Path) -> float:
    """Time numpy.allclose on the mapped arrays of two dumps, after reading them once."""
    with (
        open_dump(folder / "reference").open(0, 0) as one,
        open_dump(folder / "close").open() as two,
    ):
        pairs = [
            (one.value_array(left), two.value_array(right))
            for left, right in zip(one.index.values, two.index.values, strict=True)
        ]
        for left, right in pairs:
            np.add.reduce(left), np.add.reduce(right)
        began = time.perf_counter()
        for left, right in pairs:
            np.allclose(right, left, rtol=1.3e-6, atol=1e-5)
        return time.perf_counter() - began


def compare_once(folder: Path, reference: str, candidate: str, *, jobs: int = 1) -> dict[str, Any]:
    """Compare in a process of its own; empty names only start it."""
    words = [str(folder), reference, candidate, str(jobs)]
    command = [sys.executable, "-m", "benchmarks.whole", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _write(directory: Path, calls: int, elements: int, *, noise: float) -> None:
    """Write a dump of one root and so many linear layers, each called once."""
    random = np.random.default_rng(0)
    with DumpWriter(directory) as writer:
        with writer.step(0, 0) as step:
            step.add_modules([_module(number) for number in range(calls + 1)])
            step.add_call(_call(0, end=2 * calls + 1))
            for number in range(1, calls + 1):
                array = random.standard_normal(elements, dtype=np.float32)
                array *= np.float32(1 + noise)
                _add(step, number, array, calls)
        about = Manifest(
            name=directory.name,
            framework="torch",
            framework_version="",
            padiff_version="",
            created="2026-01-01T00:00:00Z",
            files=(),
        )
        writer.commit(about)


def _module(number: int) -> ModuleInfo:
    name = "Linear" if number else "Net"
    return ModuleInfo(
        id=number,
        path=f"layer{number}" if number else "",
        class_name=name,
        class_path=f"torch.nn.modules.linear.{name}",
        parent=0 if number else None,
    )


def _call(number: int, *, end: int) -> CallInfo:
    start = 2 * number - 1 if number else 0
    parent = 0 if number else None
    return CallInfo(id=number, module=number, index=0, parent=parent, start=start, end=end)


def _add(step: StepWriter, number: int, array: np.ndarray[Any, Any], last: int) -> None:
    step.add_call(_call(number, end=2 * number))
    stored = step.store(array)
    for call in (number, 0) if number == last else (number,):
        step.add_record(
            module=call,
            call=call,
            phase=Phase.FORWARD,
            role=Role.OUTPUT,
            slot="",
            order=2 * number + (call == 0),
            shape=array.shape,
            value=stored,
        )


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("reference")
    parser.add_argument("candidate")
    parser.add_argument("jobs", type=int)
    chosen = parser.parse_args()

    wall, cpu = time.perf_counter(), time.process_time()
    if chosen.reference:
        reference, candidate = (
            chosen.folder / name for name in (chosen.reference, chosen.candidate)
        )
        found = compare(reference, candidate, CompareSettings(jobs=chosen.jobs))
        if found.verdict != "match":
            raise SystemExit(f"expected a match: {found.reasons}")
    answer = {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "peak": peak_bytes(),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
