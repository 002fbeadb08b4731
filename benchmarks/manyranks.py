"""Comparing dumps of many ranks: what planning, tasks and results cost, without elements."""

from __future__ import annotations

import json
import math
import pickle
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from padiff.comparer import CompareSettings, compare, comparison, executors
from padiff.comparer.executors import local_pool
from padiff.comparer.report.json_report import to_json
from padiff.comparer.sharding.sides import Sides
from padiff.comparer.tasks import STEPS_A_TASK
from padiff.dumpfile import open_dump

from .figure import Figure
from .smallnet import Grid, write_grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scale import Scale

_KIB, _MIB = 1 << 10, 1 << 20
_PROCESSES = 2
_WHOLE = Grid(replicas=8, stages=16, parts=8, steps=10, blocks=20)
"""1024 ranks."""
_COMPARE = """
import sys
from pathlib import Path
from benchmarks.manyranks import compare_measured
compare_measured(Path(sys.argv[1]))
"""


class _Measured(Executor):
    """Passes tasks to processes, and notes what travels and what they take."""

    def __init__(self, pool: Executor) -> None:
        self.tasks: dict[str, list[tuple[float, int, int]]] = {}
        """By kind: processor time in seconds, bytes there, bytes back."""
        self.began: float | None = None
        """When the first task came, in processor time of this process."""
        self._pool = pool

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Submit a task."""
        if self.began is None:
            self.began = time.process_time()
        there = pickle.dumps((fn, args, kwargs))
        given: Future[Any] = Future()

        def done(future: Future[tuple[float, bytes]]) -> None:
            error = future.exception()
            if error is not None:
                given.set_exception(error)
                return
            seconds, back = future.result()
            noted = self.tasks.setdefault(fn.__name__, [])
            noted.append((seconds, len(there), len(back)))
            given.set_result(pickle.loads(back))

        self._pool.submit(_measured, there).add_done_callback(done)
        return given


def _measured(there: bytes) -> tuple[float, bytes]:
    before = time.process_time()
    fn, args, kwargs = pickle.loads(there)
    back = pickle.dumps(fn(*args, **kwargs))
    return time.process_time() - before, back


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Plan for many ranks by their manifests, and compare some, each rank with its counterpart."""
    whole = scale.pick(full=_WHOLE, quick=_WHOLE, tiny=replace(_WHOLE, replicas=1, stages=2))
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        yield _planning(Path(made), whole)
    grid = scale.pick(
        full=replace(_WHOLE, steps=1),
        quick=Grid(replicas=2, stages=4, parts=2, steps=3, blocks=20),
        tiny=Grid(replicas=2, stages=1, parts=1, steps=2, blocks=1),
    )
    with tempfile.TemporaryDirectory(prefix="padiff-bench-") as made:
        folder = Path(made)
        write_grid(folder / "reference", grid)
        write_grid(folder / "candidate", grid, is_port=True)
        command = [sys.executable, "-c", _COMPARE, made]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)
    where = f"dp {grid.replicas} x pp {grid.stages} x tp {grid.parts}, {grid.steps} steps"
    places = found["places"]
    for kind in ("learn", "compare"):
        noted = found["tasks"].get(kind, [])
        if not noted:
            continue
        seconds, there, back = (sum(column) / len(noted) for column in zip(*noted, strict=True))
        yield Figure(
            name=f"tasks that {kind}",
            value=len(noted),
            detail=f"{where}, {20 * grid.blocks} records each; a task {seconds:.2f} s of processor "
            f"time, {there / _KIB:.0f} KiB there, {back / _KIB:.0f} KiB back",
        )
    yield Figure(
        name="the driver: processor time a step and rank",
        value=1e3 * found["driving"] / places,
        unit="ms",
        detail=f"{places} of them: tasks submitted, results put together",
    )
    yield Figure(
        name="the driver: memory a step and rank",
        value=found["memory"] / places / _KIB,
        unit="KiB",
        detail=f"{found['memory'] / _MIB:.0f} MiB more than before the comparison",
    )
    yield Figure(
        name="the report: JSON a step and rank",
        value=found["json"] / places / _KIB,
        unit="KiB",
    )


def _planning(folder: Path, grid: Grid) -> Figure:
    """Plan a comparison of dumps of which only the manifests are as large as they would be."""
    one = replace(grid, replicas=1, stages=1, parts=1, steps=1)
    for name in ("reference", "candidate"):
        write_grid(folder / name, one, is_port=name == "candidate")
        path = folder / name / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        (file,) = manifest["files"]
        manifest["files"] = [
            {**file, "step": step, "rank": rank, "path": f"step_{step:06d}/rank_{rank:04d}.h5"}
            for step in range(grid.steps)
            for rank in grid.mesh.ranks
        ]
        manifest["meshes"] = [asdict(grid.mesh)]
        path.write_text(json.dumps(manifest), encoding="utf-8")
    memory, began = _resident(), time.process_time()
    dumps = [open_dump(folder / name) for name in ("reference", "candidate")]
    sides = Sides(dumps[0], dumps[1], (), by_rank=True)
    chains = comparison._chains(sides, sorted(sides.places(0) & sides.places(1)))
    seconds, memory = time.process_time() - began, _resident() - memory
    forms = len({chain.form for chain in chains})
    steps = sum(len(chain.places) for chain in chains)
    count = sum(math.ceil(len(chain.places) / STEPS_A_TASK) for chain in chains)
    return Figure(
        name="planning: processor time of the driver",
        value=seconds,
        unit="s",
        detail=f"dp {grid.replicas} x pp {grid.stages} x tp {grid.parts}, {grid.steps} steps: "
        f"{steps} steps and ranks a side in {count} tasks, and {forms} that learn partners; "
        f"{memory / _MIB:.0f} MiB, both manifests read",
    )


def _resident() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found[1]) * _KIB if found else 0


def compare_measured(folder: Path) -> None:
    """Compare, and print what it took as JSON."""
    kept: list[_Measured] = []

    @contextmanager
    def measured(_address: str) -> Iterator[executors.Workers]:
        with local_pool(_PROCESSES) as pool:
            kept.append(_Measured(pool))
            yield executors.Workers(executor=kept[0], width=1)

    memory = _resident()
    with patch.object(executors, "on_scheduler", measured):
        settings = CompareSettings(scheduler="processes")
        found = compare(folder / "reference", folder / "candidate", settings)
    ended, memory = time.process_time(), _resident() - memory
    began = kept[0].began or ended
    answer = {
        "places": len(found.steps),
        "driving": ended - began,
        "memory": memory,
        "tasks": kept[0].tasks,
        "json": len(json.dumps(to_json(found))),
    }
    print(json.dumps(answer))
