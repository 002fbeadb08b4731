"""What it costs to execute both programs of a comparison, and a program at all."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import padiff
from padiff.dumpfile import open_dump
from padiff.program import TABLES, execute, lower, read_program

from .figure import Figure
from .memory import peak_bytes
from .scale import Scale
from .workloads import build

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumpfile import StepFile

_MIB = 1 << 20
REFERENCE, SAME, OTHER, IMAGES, SMALL = "reference", "same", "other", "images", "small"
FAULTS = {"another epsilon": 1e-2, "one near to rounding": 3e-5}
"""Epsilons of the norm in the middle, which is 1e-5 in the reference. The second moves the GPT's
result by twice as much as rounding does, so that no fault takes more executions."""


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Compare a GPT with itself, with its rewritten attention, and with wrong epsilons."""
    rounds = scale.pick(full=3, quick=3, tiny=1)
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        for name in (REFERENCE, SAME, OTHER, *FAULTS):
            _run("record", folder, name, scale=scale)
        yield from _forward(folder, rounds=rounds, scale=scale)
        yield from _comparisons(folder, rounds=rounds)
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        for name in (SMALL, "small again"):
            _run("record", folder, name, scale=scale)
        yield _start(folder, rounds=scale.pick(full=9, quick=5, tiny=1))
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        for name in (IMAGES, "images again"):
            _run("record", folder, name, scale=scale)
        yield _images(folder)


def _forward(folder: Path, *, rounds: int, scale: Scale) -> Iterator[Figure]:
    """Execute the GPT's forward pass in float64, against the framework's own in float32."""
    taken: dict[str, list[dict[str, Any]]] = {"forward": [], "execute": []}
    for _ in range(rounds):
        for what, found in taken.items():
            found.append(_run(what, folder, REFERENCE, scale=scale))
    pairs = zip(taken["forward"], taken["execute"], strict=True)
    ratios = [wide["cpu"] / own["cpu"] for own, wide in pairs]
    yield Figure(
        name="execution in float64 / torch's forward in float32",
        value=statistics.median(ratios),
        unit="x",
        at_most=4,
        detail=f"one thread, processor time: {_seconds(taken['execute'])}, "
        f"{_seconds(taken['forward'])}; rounds {min(ratios):.2f}..{max(ratios):.2f}",
    )


def _seconds(found: list[dict[str, Any]]) -> str:
    return f"{statistics.median(one['cpu'] for one in found):.1f} s"


def _comparisons(folder: Path, *, rounds: int) -> Iterator[Figure]:
    """Compare with and without execution, in turns."""
    cases = {(name, extra) for name in (SAME, OTHER, *FAULTS) for extra in (False, True)}
    taken: dict[tuple[str, bool], list[dict[str, float]]] = {case: [] for case in sorted(cases)}
    for _ in range(rounds):
        for (name, extra), found in taken.items():
            found.append(_compare(folder, REFERENCE, name, executes=extra))

    def ratio(one: tuple[str, bool], two: tuple[str, bool]) -> float:
        pairs = zip(taken[one], taken[two], strict=True)
        return statistics.median(first["cpu"] / second["cpu"] for first, second in pairs)

    def middle(case: tuple[str, bool], what: str) -> float:
        return statistics.median(one[what] for one in taken[case])

    for label, name in (
        ("equal recordings", SAME),
        ("attention in another form", OTHER),
        *((name, name) for name in FAULTS),
    ):
        yield Figure(
            name=f"{label}: compare with execution / without",
            value=ratio((name, True), (name, False)),
            unit="x",
            at_most=None if name in FAULTS else 3,
            detail=f"processor time {middle((name, True), 'cpu'):.1f} s, "
            f"{middle((name, False), 'cpu'):.1f} s; peak memory "
            f"{middle((name, True), 'peak') / _MIB:.0f}, "
            f"{middle((name, False), 'peak') / _MIB:.0f} MiB",
        )
    for name in FAULTS:
        yield Figure(
            name=f"with execution: {name} / matching",
            value=ratio((name, True), (OTHER, True)),
            unit="x",
            at_most=5,
            detail="against attention in another form",
        )


def _start(folder: Path, *, rounds: int) -> Figure:
    """Compare a model of four layers with next to no elements."""
    gaps = []
    for count in range(rounds + 1):
        plain, wide = (
            _compare(folder, SMALL, "small again", executes=executes)["cpu"]
            for executes in (False, True)
        )
        gaps += [wide - plain] if count else []  # the first compiles what is imported
    return Figure(
        name="a small program: what execution adds",
        value=1000 * statistics.median(gaps),
        unit="ms",
        at_most=50,
        detail=f"a perceptron of three layers, processor time; {1000 * min(gaps):.0f}.."
        f"{1000 * max(gaps):.0f}",
    )


def _images(folder: Path) -> Figure:
    found = _compare(folder, IMAGES, "images again", executes=True)
    return Figure(
        name="ResNet with itself, with execution",
        value=found["cpu"],
        unit="s",
        at_most=60,
        detail=f"processor time; peak memory {found['peak'] / _MIB:.0f} MiB",
    )


def _compare(folder: Path, known: str, found: str, *, executes: bool) -> dict[str, float]:
    """Return processor time and peak memory of the whole command, the report included."""
    command = [sys.executable, "-m", "padiff.cli", "compare", str(folder / known)]
    command += [str(folder / found), *([] if executes else ["--no-execute"])]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "pyc"),
    }
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    expected = int(found in FAULTS)
    if process.returncode != expected:
        raise SystemExit(f"expected exit code {expected}, found {process.returncode}")
    return {"cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}


def _run(what: str, folder: Path, name: str, *, scale: Scale) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.executing", what, str(folder), name]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--scale", scale], check=True, env=environment, stdout=subprocess.PIPE
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _model(name: str, *, scale: Scale) -> tuple[Any, Any]:
    """Return a model and what it takes."""
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    if name.startswith(SMALL):
        layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)]
        return torch.nn.Sequential(*layers), torch.ones(4, 8)
    if name.startswith(IMAGES):
        return _workload("resnet", scale)
    model, ids = _workload("gpt", scale)
    if name == OTHER:
        gpt = importlib.import_module("benchmarks.gpt_torch")
        gpt.Attention.forward = gpt.fused_attention
    if name in FAULTS:
        blocks = list(model.blocks)
        blocks[len(blocks) // 2].norm2.eps = FAULTS[name]
    return model, ids


def _workload(name: str, scale: Scale) -> tuple[Any, Any]:
    torch = importlib.import_module("torch")
    workload = build("torch", name, scale=scale)
    return workload.model, torch.from_numpy(workload.inputs)


def _record(folder: Path, name: str, *, scale: Scale) -> dict[str, Any]:
    model, inputs = _model(name, scale=scale)
    with padiff.record(model.eval(), name=name, out=folder):
        output = model(inputs)
        getattr(output, "logits", output).mean().backward()
    return {}


def _forward_once(folder: Path, name: str, *, scale: Scale) -> dict[str, Any]:
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    model, inputs = _model(name, scale=scale)
    model.eval()
    with torch.inference_mode():
        model(inputs)
        before = time.process_time()
        model(inputs)
    return {"cpu": time.process_time() - before, "folder": str(folder)}


def _execute_once(folder: Path, name: str, *, scale: Scale) -> dict[str, Any]:
    with open_dump(folder / name).open(0, 0) as file:
        _executed(file)
        before = time.process_time()
        largest = _executed(file)
    cpu = time.process_time() - before
    return {"cpu": cpu, "peak": peak_bytes(), "largest": largest, "scale": scale}


def _executed(file: StepFile) -> float:
    recorded = read_program(file)
    assert recorded is not None
    lowered = lower(recorded.program, TABLES[file.framework], contents=recorded.elements)

    def leaf(value: int) -> Any:  # noqa: ANN401
        return lambda: recorded.elements(value)

    leaves = {value: leaf(value) for value in lowered.leaves.values()}
    results = execute(lowered, leaves, recorded.program.outputs)
    return max(float(np.abs(one).max()) for one in results.values())


_WHAT = {"record": _record, "forward": _forward_once, "execute": _execute_once}


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=_WHAT)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--scale", type=Scale, default=Scale.FULL)
    chosen = parser.parse_args()
    answer = _WHAT[chosen.what](chosen.folder, chosen.name, scale=chosen.scale)
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
