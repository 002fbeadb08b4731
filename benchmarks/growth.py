"""How cost grows when a dump does: ten times the calls, bytes or depth, ten times the time."""

from __future__ import annotations

import io
import json
import tempfile
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from padiff.comparer import CompareSettings, compare
from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.report.terminal import render
from padiff.dumpfile import open_dump, validate
from padiff.pairing import pair
from padiff.pairing.maps.mapwriter import pairing_to_toml
from tests.support.deep_trees import write_chain
from tests.support.dumps import DumpBuilder, write_dump

from . import recordgrowth
from .figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from padiff.comparer import Comparison

    from .scale import Scale

    Write = Callable[[Path], Path]

_TIMES = 10
_MOST = 12.0
"""Ten times and 20 %."""
_WIDE = 32
_ROUNDS = 3
_PARTS = ("write", "check", "compare", "report", "map", "open")


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Record, and work with dumps of one size and of ten times that, in processor time."""
    calls, mebibytes, depth = scale.pick(full=(2_000, 48, 100), quick=(300, 8, 30), tiny=(4, 1, 3))
    for what, small, make in (
        ("calls", calls, write_calls),
        ("MiB", mebibytes, _of_bytes),
        ("levels", depth, _of_depth),
    ):
        with tempfile.TemporaryDirectory(prefix="padiff-growth-") as folder:
            costs = [_costs(Path(folder) / str(size), size, make) for size in (small, 10 * small)]
        for name in costs[0]:
            before, after = costs[0][name], costs[1][name]
            yield Figure(
                name=f"{name}: {small} -> {_TIMES * small} {what}",
                value=after / before,
                unit="x",
                at_most=_MOST,
                detail=f"{before:.3f} s -> {after:.3f} s",
            )
    yield from recordgrowth.figures(scale=scale)


def _costs(folder: Path, size: int, make: Callable[[int, float], Write]) -> dict[str, float]:
    """Measure processor time; the best of some rounds, since other programs only add to it."""
    rounds: list[dict[str, float]] = []
    for _ in range(_ROUNDS):
        reference = make(size, 0.0)(folder / "a")
        write = make(size, 1e-6)
        marks = [time.process_time()]
        candidate = write(folder / "b")
        marks.append(time.process_time())
        assert validate(reference, deep=False) == []
        marks.append(time.process_time())
        result = compare(reference, candidate, CompareSettings())
        marks.append(time.process_time())
        _report(result)
        marks.append(time.process_time())
        _map(reference, candidate)
        marks.append(time.process_time())
        open_dump(reference).open().close()
        marks.append(time.process_time())
        spent = [after - before for before, after in pairwise(marks)]
        rounds.append(dict(zip(_PARTS, spent, strict=True)))
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def _report(result: Comparison) -> None:
    """Do what ``padiff report`` does with a JSON result."""
    data = json.loads(json.dumps(to_json(result)))
    render(read_report(data), Console(file=io.StringIO(), width=100))


def _map(reference: Path, candidate: Path) -> None:
    """Do what ``padiff map`` does."""
    with open_dump(reference).open() as one, open_dump(candidate).open() as two:
        pairing_to_toml(pair(one, two), one, two, title="growth")


def write_calls(calls: int, change: float) -> Write:
    """Make a dump of many calls of some modules, each with small tensors of its own."""
    built = DumpBuilder().module("", "Net")
    for number in range(_WIDE):
        built.module(f"layer{number}", "Linear")
    values = np.random.default_rng(0).standard_normal((calls + 1, 64)).astype(np.float32)
    values += np.float32(change)
    built.enter("", inputs=[values[0]])
    for number in range(calls):
        built.call(
            f"layer{number * _WIDE // calls}", inputs=[values[number]], outputs=[values[number + 1]]
        )
    built.leave(outputs=[values[-1]])
    return lambda place: write_dump(place, built)


def _of_bytes(mebibytes: int, change: float) -> Write:
    """Make a dump of few calls with large tensors, 1 MiB each."""
    values = np.random.default_rng(0).standard_normal((mebibytes, 1 << 18)).astype(np.float32)
    values += np.float32(change)
    built = DumpBuilder().module("", "Net").enter("", inputs=list(values))
    built.leave(outputs=[values[-1]])
    return lambda place: write_dump(place, built)


def _of_depth(depth: int, change: float) -> Write:
    return partial(write_chain, depth=depth, change=change)
