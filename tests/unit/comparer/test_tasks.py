"""Comparing ranks side by side changes nothing of the result, and loses nothing with a process."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from padiff.comparer import CompareSettings, compare, comparison, executors, tasks
from padiff.comparer.executors import local_pool
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import CompareError, DumpFormatError
from tests.support.command import environment_for
from tests.support.many_ranks import RANKS, STEPS, write_ranks
from tests.support.pools import fork_pools

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KILLED = """
import os, sys, time
from padiff.comparer.executors import local_pool
print("the script runs", flush=True)
with local_pool(1) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


class Noted:
    """Notes what it is told, and does something before all tasks or after each."""

    def __init__(
        self,
        then: Callable[[], object] = lambda: None,
        *,
        first: Callable[[], object] = lambda: None,
    ) -> None:
        self.done: list[int] = []
        self.notes: list[str] = []
        self._then = then
        self._first = first

    def begin(self, steps: int) -> None:
        self.steps = steps
        self._first()

    def advance(self, steps: int) -> None:
        self.done.append(steps)
        self._then()

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    fork_pools(monkeypatch)
    known, found = tmp_path / "known", tmp_path / "found"
    return write_ranks(known), write_ranks(found, "paddle", faulty=(1,))


def compared(dumps: tuple[Path, Path], jobs: int | None, watch: Noted | None = None) -> str:
    found = compare(*dumps, CompareSettings(jobs=jobs), watch=watch)
    return json.dumps(to_json(found), allow_nan=False)


def kill_processes() -> None:
    for process in multiprocessing.active_children():
        assert process.pid is not None
        with suppress(ProcessLookupError):  # it may have ended since it was listed
            os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_processes_change_no_byte(
    dumps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(tasks, "STEPS_A_TASK", steps)
    noted = Noted()

    one, two = compared(dumps, 1), compared(dumps, 2, noted)

    assert one == two
    assert json.loads(one)["verdict"] == "diverged"
    assert [step["rank"] for step in json.loads(one)["steps"]] == [*range(RANKS)] * STEPS
    assert sum(noted.done) == noted.steps == RANKS * STEPS
    assert max(noted.done) == min(steps, STEPS)


def test_what_killed_processes_had_is_compared_here(
    dumps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "STEPS_A_TASK", 1)
    noted = Noted(kill_processes)

    assert compared(dumps, 2, noted) == compared(dumps, 1)

    (note,) = noted.notes
    assert "the rest is compared in this one" in note


def test_little_is_compared_in_this_process_unless_processes_are_asked_for(
    dumps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def noted(count: int) -> Any:  # noqa: ANN401
        started.append(count)
        return local_pool(count)

    monkeypatch.setattr(executors, "local_pool", noted)
    monkeypatch.setattr(comparison, "default_jobs", lambda: 2)

    compared(dumps, None)
    assert started == []
    compared(dumps, 2)
    assert started == [2]
    monkeypatch.setattr(comparison, "WORTH_S", 0.0)
    compared(dumps, None)
    assert started == [2, 2]


def test_an_error_in_a_process_is_the_error(dumps: tuple[Path, Path]) -> None:
    path = dumps[1] / "step_000001" / "rank_0002.h5"
    path.write_bytes(path.read_bytes()[:-1])
    found = []

    for jobs in (1, 2):
        with pytest.raises(DumpFormatError, match="rank_0002") as error:
            compared(dumps, jobs)
        found.append((error.value.message, error.value.hint))

    assert found[0] == found[1]
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(
    ("becomes", "words"),
    [("nothing", "no such directory, where a task"), ("another", "is another dump where a task")],
)
def test_a_dump_that_is_not_there_for_a_process_is_named(
    dumps: tuple[Path, Path], becomes: str, words: str
) -> None:
    def change() -> None:
        dumps[1].rename(dumps[1].with_name("moved"))
        if becomes == "another":
            write_ranks(dumps[1], "paddle", ranks=RANKS + 1)

    with pytest.raises(CompareError, match=words) as error:
        compared(dumps, 2, Noted(first=change))

    assert str(dumps[1]) in error.value.message
    assert error.value.hint == "all workers must find both dumps under the same names"


def test_a_process_of_another_version_is_refused(
    dumps: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "own_version", lambda: "0.0.9")

    with pytest.raises(CompareError, match=r"found 0\.0\.9"):
        compared(dumps, 2)


def test_processes_import_nothing_of_the_users_and_end_with_their_parent(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('code of the folder we are in')")
    (tmp_path / "below").mkdir()
    script = tmp_path / "below" / "script.py"
    script.write_text(KILLED)

    with subprocess.Popen(
        [sys.executable, "-P", script],
        cwd=tmp_path,
        env=environment_for(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "the script runs\n"
        worker = int(process.stdout.readline())
        process.kill()

    until = time.monotonic() + 60
    while is_there(worker):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_processes_end_with_the_pool() -> None:
    with local_pool(1) as pool:
        running = pool.submit(time.sleep, 600)
        while not running.running():
            time.sleep(0.01)

    assert multiprocessing.active_children() == []


def is_there(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("width", "groups", "name", "parts"),
    [(8, 1, "known", 8), (8, 3, "known", 2), (2, 3, "known", 1), (8, 1, "s3://bucket/known", 1)],
)
def test_idle_workers_measure_with_the_others(
    width: int, groups: int, name: str, parts: int
) -> None:
    with local_pool(1) as pool:
        workers = executors.Workers(executor=pool, width=width)

        assert comparison._shares(workers, groups, (name, "found")) == parts
