"""What measuring costs, one thread, against numpy.allclose, memcpy and a pass without a hull."""

from __future__ import annotations

import argparse
import json
import mmap
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from padiff.comparer import Tolerance, measure
from padiff.comparer.judging.blocks import Room
from padiff.comparer.judging.smallpairs import BATCH, count_small

from .figure import Figure
from .memory import peak_bytes
from .rounds import take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scale import Scale

Array = npt.NDArray[Any]

TOLERANCE = Tolerance(atol=1e-5, rtol=1.3e-6)
GATED = "passing float32"
BLOCK = 65536
MIB = 1 << 20
SMALL_ELEMENTS = 256
"""1 KiB of float32."""


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Measure large pairs of several kinds, many small ones, and one larger than memory."""
    size = scale.pick(full=16_000_000, quick=4_000_000, tiny=10_000)
    rounds = scale.pick(full=9, quick=3, tiny=1)
    random = np.random.default_rng(1)
    close = _pair(size, noise=1e-7, zeros=0.0)
    absolute = np.float32(1e-6) * random.standard_normal(size, dtype=np.float32)
    cases = {
        GATED: close,
        "passing, half zeros": _pair(size, noise=1e-7, zeros=0.5),
        "passing, noise whatever the value": (close[0], close[0] + absolute),
        "diverged": _pair(size, noise=1e-3, zeros=0.0),
        "diverged by a constant": (close[0], close[0] + np.float32(0.1)),
        "diverged by a factor": (close[0], close[0] * np.float32(1.25)),
        "equal bfloat16": tuple(
            array.astype(ml_dtypes.bfloat16) for array in _pair(size, noise=0.0, zeros=0.0)
        ),
    }
    for name, (reference, candidate) in cases.items():
        yield from _ratios(name, reference, candidate, rounds=rounds)
    yield _small(scale.pick(full=100_000, quick=10_000, tiny=500))
    yield _sparse(scale.pick(full=10_240, quick=1_024, tiny=4))


def _pair(size: int, *, noise: float, zeros: float) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    reference = random.standard_normal(size, dtype=np.float32)
    if zeros:
        reference[random.random(size, dtype=np.float32) < zeros] = 0
    factor = 1 + np.float32(noise) * random.standard_normal(size, dtype=np.float32)
    return reference, reference * factor


def _ratios(name: str, reference: Array, candidate: Array, *, rounds: int) -> Iterator[Figure]:
    copies = np.empty_like(reference), np.empty_like(candidate)
    is_gated = name == GATED
    room = Room()  # a comparison keeps its own from pair to pair

    def copy() -> None:
        np.copyto(copies[0], reference)
        np.copyto(copies[1], candidate)

    taken = take_turns(
        {
            "measure": lambda: measure(reference, candidate, TOLERANCE, room=room),
            "plain": lambda: _plain(reference, candidate),
            "allclose": lambda: np.allclose(candidate, reference, rtol=1.3e-6, atol=1e-5),
            "memcpy": copy,
        },
        rounds=rounds,
    )
    speed = 2 * reference.nbytes / taken.median("measure") / 1e9
    yield Figure(
        name=f"{name}: speed over numpy.allclose",
        value=taken.ratio("allclose", "measure"),
        at_least=2.5 if is_gated else None,
        detail=f"{speed:.2f} GB/s; rounds {taken.spread('allclose', 'measure')}; in processor time "
        f"{taken.processor_ratio('allclose', 'measure'):.2f}",
    )
    yield Figure(
        name=f"{name}: share of memcpy's speed",
        value=taken.ratio("memcpy", "measure"),
        at_least=0.25 if is_gated else None,
        detail=f"both arrays copied; rounds {taken.spread('memcpy', 'measure')}; in processor time "
        f"{taken.processor_ratio('memcpy', 'measure'):.2f}",
    )
    if reference.dtype == np.float32:
        yield Figure(
            name=f"{name}: time over plain metrics",
            value=taken.ratio("measure", "plain"),
            at_most=1.5 if name.startswith("passing") else None,
            detail=f"rounds {taken.spread('measure', 'plain')}; in processor time "
            f"{taken.processor_ratio('measure', 'plain'):.2f}",
        )


def _plain(reference: Array, candidate: Array) -> tuple[float, int, float]:
    """Take the usual metrics in a blocked pass: no hull, no smallest tolerances, float32 only."""
    largest, mismatched, sums = 0.0, 0, np.zeros(5)
    distance, magnitude = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for start in range(0, reference.size, BLOCK):
        r, c = reference[start : start + BLOCK], candidate[start : start + BLOCK]
        d, m = distance[: r.size], magnitude[: r.size]
        np.subtract(c, r, out=d)
        np.abs(d, out=d)
        largest = max(largest, float(d.max()))
        sums += (np.dot(d, d), np.dot(r, r), np.dot(c, c), np.dot(c, r), d.sum())
        np.abs(r, out=m)
        np.multiply(m, np.float32(TOLERANCE.rtol), out=m)
        np.add(m, np.float32(TOLERANCE.atol), out=m)
        mismatched += int(np.count_nonzero(d > m))
    return largest, mismatched, float(sums.sum())


def _small(count: int) -> Figure:
    random = np.random.default_rng(0)
    each = BATCH // SMALL_ELEMENTS
    known = random.standard_normal((each, SMALL_ELEMENTS), dtype=np.float32)
    found = known * (1 + np.float32(1e-7) * random.standard_normal(known.shape, dtype=np.float32))
    limits, shapes = np.empty((2, each)), [(SMALL_ELEMENTS,)] * each
    limits[0], limits[1] = TOLERANCE.atol, TOLERANCE.rtol
    room = Room()
    began = time.process_time()
    batches = -(-count // each)
    for _ in range(batches):
        counted = count_small(known, found, *limits, mean=False, room=room)
        counted.metrics(np.arange(each), shapes, mean=False)
    batched = (time.process_time() - began) / (batches * each)
    began = time.process_time()
    for one, other in zip(known, found, strict=True):
        measure(one, other, TOLERANCE)
    alone = (time.process_time() - began) / each
    return Figure(
        name=f"{count} pairs of 1 KiB: measured per second",
        value=1 / batched,
        unit="1/s",
        at_least=20_000,
        detail=f"in batches; one by one {1 / alone:.0f}; processor time, without pairing",
    )


def _sparse(mebibytes: int) -> Figure:
    """Measure two sparse files in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        for name in ("reference", "candidate"):
            with (Path(made) / name).open("wb") as file:
                file.truncate(mebibytes * MIB)
        command = [sys.executable, "-m", "benchmarks.comparing", made]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    return Figure(
        name=f"one pair of 2 x {mebibytes} MiB, sparse: memory",
        value=found["peak"] / MIB,
        unit="MiB",
        at_most=256,
        detail=f"peak over the interpreter; {found['wall']:.1f} s",
    )


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    maps = []
    for name in ("reference", "candidate"):
        with (folder / name).open("rb") as file:
            maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def release() -> None:
        for one in maps:
            one.madvise(mmap.MADV_DONTNEED)

    before, began = peak_bytes(), time.perf_counter()
    reference, candidate = (np.frombuffer(one, np.float32) for one in maps)
    found = measure(reference, candidate, TOLERANCE, release=release)
    if found.mismatched:
        raise SystemExit("expected a match")
    wall = time.perf_counter() - began
    print(json.dumps({"peak": peak_bytes() - before, "wall": wall}))


if __name__ == "__main__":
    _main()
