"""Whole commands on real dumps: a GPT of 86 M parameters in torch, and its port to Paddle."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import padiff
from padiff.dumpfile import Content, open_dump

from .figure import Figure
from .whole import compare_once, compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import StepFile

    from .scale import Scale

_MIB = 1 << 20
HERE = Path(__file__).parent
REFERENCE, PORT, SAMPLE = "reference", "port", "sample"
ALL, DIFFERENT = "all", "different"
_COMPARE = [sys.executable, "-m", "padiff", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spent:
    """What a process and all that it started took."""

    seconds: float
    """Of processor time."""
    peak: int
    """Largest resident size of one of them, in bytes."""


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Record both sides by the command line, and compare them."""
    rounds = scale.pick(full=3, quick=3, tiny=1)
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        sizes = _prepare(folder, scale)
        yield _recording(folder, sizes)
        known = ["--weights-from", str(folder / REFERENCE)]
        _spend([*_dump(folder, PORT, "paddle", sizes), *known])
        _spend([*_dump(folder, SAMPLE, "paddle", sizes), *known, "--content", "sample=4096"])
        yield from _comparing(folder, rounds=rounds)
        yield from _memory(folder)


def _prepare(folder: Path, scale: Scale) -> dict[str, int]:
    """Write the input, and return the arguments of the model."""
    layers, width, batch, length = scale.pick(
        full=(12, 768, 4, 128), quick=(4, 256, 4, 128), tiny=(1, 64, 1, 8)
    )
    ids = np.random.default_rng(0).integers(0, 256, (batch, length))
    np.save(folder / "ids.npy", ids)
    return {"layers": layers, "width": width, "heads": width // 64, "vocabulary": 256}


def _dump(folder: Path, name: str, framework: str, sizes: dict[str, int]) -> list[str]:
    """Return the command that records a side, forward and backward."""
    arguments = [f"--model-arg={key}={value}" for key, value in sizes.items()]
    return [
        *(sys.executable, "-m", "padiff", "dump", *arguments),
        *("--model", f"{HERE / f'gpt_{framework}.py'}:GPT", "--inputs", str(folder / "ids.npy")),
        *("--out", str(folder), "--name", name),
    ]


def _recording(folder: Path, sizes: dict[str, int]) -> Figure:
    """Record torch's side, against the same forward and backward pass in a plain process."""
    words = [json.dumps(sizes), str(folder / "ids.npy")]
    plain = _spend([sys.executable, "-m", "benchmarks.commands", "plain", *words])
    found = _spend(_dump(folder, REFERENCE, "torch", sizes))
    bytes_ = sum(file.size_bytes for file in open_dump(folder / REFERENCE).files)
    return Figure(
        name="`padiff dump` of everything: peak memory over plain",
        value=(found.peak - plain.peak) / _MIB,
        unit="MiB",
        at_most=512,
        detail=f"plain {plain.peak / _MIB:.0f}, recording {found.peak / _MIB:.0f} MiB; a dump of "
        f"{bytes_ / _MIB:.0f} MiB; processor time {plain.seconds:.1f} s, {found.seconds:.1f} s",
    )


def _comparing(folder: Path, *, rounds: int) -> Iterator[Figure]:
    """Compare with the port, against numpy.allclose of what they hold, in turns."""
    words = [str(folder / REFERENCE), str(folder / PORT)]
    environment = compiled(folder)
    _spend([*_COMPARE, *words], environment)  # compiles what an installed package has compiled
    command: list[float] = []
    alone: dict[str, list[dict[str, Any]]] = {ALL: [], DIFFERENT: []}
    for _ in range(rounds):
        command.append(_spend([*_COMPARE, *words], environment).seconds)
        for which, found in alone.items():
            found.append(_answer(["allclose", *words, which]))
    for which, label in ((ALL, "all pairs"), (DIFFERENT, "the pairs whose bytes differ")):
        ratios = [mine / found["cpu"] for mine, found in zip(command, alone[which], strict=True)]
        first = alone[which][0]
        yield Figure(
            name=f"`padiff compare` of a port / numpy.allclose of {label}",
            value=statistics.median(ratios),
            unit="x",
            detail=f"{first['pairs']} pairs of {first['bytes'] / _MIB:.0f} MiB a side; processor "
            f"time {statistics.median(command):.2f} s, "
            f"{statistics.median(found['cpu'] for found in alone[which]):.2f} s; "
            f"rounds {min(ratios):.2f}..{max(ratios):.2f}",
        )


def _memory(folder: Path) -> Iterator[Figure]:
    """Measure the largest resident size of comparisons over that of an interpreter with imports."""
    idle = compare_once(folder, "", "")["peak"]
    for name, label in ((PORT, "a full dump"), (SAMPLE, "a sample")):
        peak = _spend([*_COMPARE, str(folder / REFERENCE), str(folder / name)]).peak
        yield Figure(
            name=f"`padiff compare` of a full dump with {label}: peak memory over imports",
            value=(peak - idle) / _MIB,
            unit="MiB",
            at_most=256,
            detail=f"imports alone {idle / _MIB:.0f} MiB",
        )


def _spend(command: Sequence[str], environment: dict[str, str] | None = None) -> _Spent:
    """Run a command that must succeed, and return what it took."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"expected exit code 0, found {process.returncode}: {command}")
    kib = 1 if sys.platform == "darwin" else 1024
    return _Spent(seconds=usage.ru_utime + usage.ru_stime, peak=usage.ru_maxrss * kib)


def _answer(words: Sequence[str]) -> dict[str, Any]:
    """Run a task of this file in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.commands", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _allclose(reference: str, candidate: str, which: str) -> dict[str, Any]:
    """Time numpy.allclose of the values that a comparison pairs, each pair once, after a reading.

    A weight that lies transposed is compared as it lies, or turned where its shape says so: that
    takes as long.
    """
    comparison = padiff.compare(reference, candidate)
    with open_dump(reference).open(0, 0) as one, open_dump(candidate).open(0, 0) as two:
        places = [(_values(file), file.index.values) for file in (one, two)]
        pairs = {
            (places[0][0][pair.reference.address], places[1][0][pair.candidate.address])
            for pair in comparison.steps[0].pairs
            if pair.reference is not None and pair.candidate is not None
            if pair.reference.address in places[0][0] and pair.candidate.address in places[1][0]
            if which == ALL or not pair.equal_digest
        }
        arrays = [
            (one.value_array(places[0][1][left]), two.value_array(places[1][1][right]))
            for left, right in sorted(pairs)
        ]
        arrays = [
            (left, right if left.shape == right.shape else right.T)
            for left, right in arrays
            if left.size == right.size
        ]
        for left, right in arrays:
            np.add.reduce(left, axis=None), np.add.reduce(right, axis=None)
        began = time.process_time()
        for left, right in arrays:
            np.allclose(right, left.reshape(right.shape), rtol=1.3e-6, atol=1e-5)
        spent = time.process_time() - began
        size = sum(left.nbytes for left, _ in arrays)
    return {"cpu": spent, "pairs": len(arrays), "bytes": size}


def _values(file: StepFile) -> dict[Any, int]:
    """Return the values of a step's records that hold all elements, by address."""
    index = file.index
    return {
        index.address(record): record.value
        for record in index.records
        if record.value is not None and index.values[record.value].content is Content.FULL
    }


def _plain(sizes: dict[str, int], inputs: str) -> None:
    import torch  # noqa: PLC0415 -- the other tasks need no framework

    from .gpt_torch import GPT  # noqa: PLC0415

    model = GPT(
        layers=sizes["layers"],
        width=sizes["width"],
        heads=sizes["heads"],
        vocabulary=sizes["vocabulary"],
    ).eval()
    model(torch.from_numpy(np.load(inputs))).mean().backward()


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=["plain", "allclose"])
    parser.add_argument("words", nargs="+")
    chosen = parser.parse_args()
    if chosen.task == "plain":
        _plain(json.loads(chosen.words[0]), chosen.words[1])
    else:
        print(json.dumps(_allclose(*chosen.words)))


if __name__ == "__main__":
    _main()
