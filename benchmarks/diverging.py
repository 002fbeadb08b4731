"""What a comparison costs that finds another model, against one that finds the same."""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import padiff

from .figure import Figure
from .scale import Scale
from .whole import command_seconds, compare_once

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIB = 1 << 20
_ULP = 2.0**-23
REFERENCE, CLOSE, OTHER, SAMPLE = "reference", "close", "other", "sample"


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Compare a GPT with itself one rounding away, with another author's, and with a sample."""
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        for name in (REFERENCE, CLOSE, OTHER, SAMPLE):
            command = [sys.executable, "-m", "benchmarks.diverging", made, name]
            subprocess.run([*command, "--scale", scale], check=True)
        yield _unmatched(folder, rounds=scale.pick(full=3, quick=3, tiny=1))
        yield _sampled(folder)


def _unmatched(folder: Path, *, rounds: int) -> Figure:
    taken: dict[str, list[float]] = {CLOSE: [], OTHER: []}
    for _ in range(rounds):
        for name, seconds in taken.items():
            diverges = name == OTHER
            sides = folder / REFERENCE, folder / name
            seconds.append(command_seconds(*sides, "--no-execute", diverges=diverges))
    ratios = [far / near for near, far in zip(taken[CLOSE], taken[OTHER], strict=True)]
    shown = ", ".join(f"{statistics.median(seconds):.1f} s" for seconds in taken.values())
    return Figure(
        name="divergence with unmatched records: diverging / matching",
        value=statistics.median(ratios),
        unit="x",
        at_most=5,
        detail=f"`padiff compare --no-execute` of a GPT with itself and with another author's, "
        f"forward, processor time: {shown}; rounds {min(ratios):.2f}..{max(ratios):.2f}",
    )


def _sampled(folder: Path) -> Figure:
    idle = compare_once(folder, "", "")
    found = compare_once(folder, REFERENCE, SAMPLE)
    return Figure(
        name="full against a sample: peak memory over the interpreter",
        value=(found["peak"] - idle["peak"]) / _MIB,
        unit="MiB",
        at_most=256,
        detail=f"imports alone {idle['peak'] / _MIB:.0f} MiB",
    )


def _record(folder: Path, name: str, *, scale: Scale) -> None:
    torch = importlib.import_module("torch")
    gpt = importlib.import_module("benchmarks.gpt_torch")
    layers, width, batch, length = scale.pick(
        full=(12, 768, 4, 128), quick=(4, 256, 4, 128), tiny=(1, 64, 1, 8)
    )
    torch.manual_seed(name == OTHER)
    block = gpt.OtherBlock if name == OTHER else gpt.Block
    model = gpt.GPT(layers=layers, width=width, heads=width // 64, vocabulary=256, block=block)
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (batch, length)))
    with torch.no_grad():
        if name in {CLOSE, SAMPLE}:
            for parameter in model.parameters():
                parameter.mul_(1 + _ULP)
        content = "sample=4096" if name == SAMPLE else "full"
        with padiff.record(model.eval(), name=name, out=folder, content=content):
            model(ids)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--scale", type=Scale, default=Scale.FULL)
    chosen = parser.parse_args()
    _record(chosen.folder, chosen.name, scale=chosen.scale)


if __name__ == "__main__":
    _main()
