"""Comparing dumps of many ranks: what planning, tasks and results cost, without elements."""

from __future__ import annotations

import io
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

from rich.console import Console

from padiff.cli.output import json_pieces
from padiff.comparer import CompareSettings, compare, comparison, executors
from padiff.comparer.executors import local_pool
from padiff.comparer.report.json_report import report_parts
from padiff.comparer.report.terminal import render
from padiff.comparer.sharding.sides import Sides
from padiff.comparer.tasks import STEPS_A_TASK
from padiff.dumpfile import open_dump

from .figure import Figure
from .smallnet import Grid, write_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from padiff.comparer.result import Comparison

    from .scale import Scale

_KIB, _MIB = 1 << 10, 1 << 20
_PROCESSES = 2
_WHOLE = Grid(replicas=8, stages=16, parts=8, steps=10, blocks=20)
"""1024 ranks."""
_COMPARE = """
import sys
from pathlib import Path
from benchmarks.manyranks import compare_measured
compare_measured(Path(sys.argv[1]), sys.argv[2])
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
            noted = self.tasks.setdefault(getattr(fn, "func", fn).__name__, [])
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
        found = {name: _compared(folder, name) for name in ("travelling", "parts")}
    where = f"dp {grid.replicas} x pp {grid.stages} x tp {grid.parts}, {grid.steps} steps"
    for name, said in found.items():
        yield from _of_tasks(f"{where}, {20 * grid.blocks} records each", name, said)
        yield from _of_driver(name, said)


def _compared(folder: Path, name: str) -> Any:  # noqa: ANN401
    """Compare in a process of its own, whose memory says nothing of another comparison."""
    command = [sys.executable, "-c", _COMPARE, str(folder), name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _of_tasks(where: str, name: str, found: Any) -> Iterator[Figure]:  # noqa: ANN401
    for kind in ("learn", "compare"):
        noted = found["tasks"].get(kind, [])
        if not noted:
            continue
        seconds, there, back = (sum(column) / len(noted) for column in zip(*noted, strict=True))
        yield Figure(
            name=f"{name}: tasks that {kind}",
            value=len(noted),
            detail=f"{where}; a task {seconds:.2f} s of processor time, {there / _KIB:.0f} KiB "
            f"there, {back / _KIB:.1f} KiB back",
        )


def _of_driver(name: str, found: Any) -> Iterator[Figure]:  # noqa: ANN401
    places = found["places"]
    yield Figure(
        name=f"{name}: the driver's processor time a step and rank",
        value=1e3 * found["driving"] / places,
        unit="ms",
        detail=f"{places} of them: tasks submitted, results put together",
    )
    yield Figure(
        name=f"{name}: the driver's memory a step and rank",
        value=found["memory"] / places / _KIB,
        unit="KiB",
        detail=f"{found['memory'] / _MIB:.0f} MiB more than before the comparison",
    )
    for report in ("text", "json"):
        told = found[report]
        yield Figure(
            name=f"{name}: the {report}, processor time a step and rank",
            value=1e3 * told["seconds"] / places,
            unit="ms",
            detail=f"{told['bytes'] / places / _KIB:.1f} KiB each; at most "
            f"{told['memory'] / _MIB:.0f} MiB more memory at once",
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
    return _status("VmRSS")


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found[1]) * _KIB if found else 0


def compare_measured(folder: Path, name: str) -> None:
    """Compare, write the text and the JSON, and print what it took as JSON.

    Args:
        folder: Of both dumps.
        name: ``parts`` leaves results in a folder until they are looked at.
    """
    kept: list[_Measured] = []

    @contextmanager
    def measured(_address: str) -> Iterator[executors.Workers]:
        with local_pool(_PROCESSES) as pool:
            kept.append(_Measured(pool))
            yield executors.Workers(executor=kept[0], width=1)

    memory = _resident()
    with patch.object(executors, "on_scheduler", measured):
        parts = folder if name == "parts" else None
        settings = CompareSettings(scheduler="processes", parts=parts)
        found = compare(folder / "reference", folder / "candidate", settings)
    ended, memory = time.process_time(), _resident() - memory
    began = kept[0].began or ended
    answer = {
        "places": len(found.steps),
        "driving": ended - began,
        "memory": memory,
        "tasks": kept[0].tasks,
        "text": _written(lambda: [_text(found)]),
        "json": _written(lambda: json_pieces(report_parts(found))),
    }
    print(json.dumps(answer))


def _text(found: Comparison) -> str:
    console = Console(file=io.StringIO(), width=1 << 16)
    render(found, console)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def _written(pieces: Callable[[], Iterable[str]]) -> dict[str, float]:
    """Return what making a report takes; nobody keeps it."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the highest so far
    memory, began = _resident(), time.process_time()
    size = sum(map(len, pieces()))
    seconds = time.process_time() - began
    return {"seconds": seconds, "bytes": size, "memory": max(_status("VmHWM") - memory, 0)}
