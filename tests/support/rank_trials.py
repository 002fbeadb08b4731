"""Several ranks of one run, forked from a process that has imported the framework already.

Run as ``python -m tests.support.rank_trials``, since a test's own process has threads; it prints
what it found as one line of JSON. Importing a framework takes seconds, a forked run
milliseconds: so hundreds of runs can be killed, each at another moment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import padiff
from padiff.dumpfile import PadiffError, open_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COUNT = 2
STEPS = 2
SHORT_S, LONG_S = 0.4, 60.0
"""How long a rank waits for another, where some are killed and where none is."""
VICTIMS = ((0,), (1,), (0, 1))


def work(out: Path, wait_s: float) -> None:
    """Record two steps of a small model; what each rank of a run does."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with padiff.record(
        model, name="m", out=out, optimizer=optimizer, overwrite=True, rank_wait_s=wait_s
    ) as recorder:
        for _ in range(STEPS):
            model(torch.ones(2, 3)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step()


class Killer:
    """Counts what a process does to files below a folder, and kills it at a chosen moment."""

    def __init__(self, folder: Path, moment: int | None) -> None:
        self._folder = str(folder)
        self._moment = moment
        self.count = 0
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if not event.startswith(("open", "os.", "shutil.")):
            return
        if any(self._folder in str(one) for one in arguments if isinstance(one, str | Path)):
            self.count += 1
            if self.count == self._moment:
                os.kill(os.getpid(), signal.SIGKILL)


def fork(rank: int, run: Callable[[], None]) -> int:
    """Fork one rank; gives its process id."""
    process = os.fork()
    if process:
        return process
    status = 3
    try:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(COUNT), "MASTER_PORT": "29500"}
        run()
        status = 0
    except PadiffError:
        status = 1
    finally:
        os._exit(status)


def trial(out: Path, moments: dict[int, int]) -> list[int]:
    """Run all ranks, some of which die at their moments; gives how many moments each rank had."""
    counts = out.parent / "counts"
    counts.mkdir(exist_ok=True)

    def run(rank: int) -> Callable[[], None]:
        def one() -> None:
            killer = Killer(out, moments.get(rank))
            work(out, SHORT_S if moments else LONG_S)
            (counts / str(rank)).write_text(str(killer.count))

        return one

    processes = [fork(rank, run(rank)) for rank in range(COUNT)]
    for process in processes:
        os.waitpid(process, 0)
    return [int((counts / str(rank)).read_text()) for rank in range(COUNT) if not moments]


def trial_by_time(out: Path, victims: Sequence[int], delay_s: float) -> None:
    """Run all ranks and kill some of them from outside, after a while."""
    processes = [fork(rank, lambda: work(out, SHORT_S)) for rank in range(COUNT)]
    time.sleep(delay_s)
    for rank in victims:
        os.kill(processes[rank], signal.SIGKILL)
    for process in processes:
        os.waitpid(process, 0)


def state_of(out: Path) -> str:
    """Say what a reader finds, after checking that nothing reads as complete that is not whole."""
    for manifest in out.rglob("manifest.json"):
        try:
            dump = open_dump(manifest.parent)
        except PadiffError:
            continue  # says itself that it cannot be read
        if dump.manifest.incomplete:
            continue
        places = [(info.step, info.rank) for info in dump.files]
        expected = [(step, rank) for step in range(STEPS) for rank in range(COUNT)]
        assert places == expected, f"{manifest} reads as complete with {places}"
        problems = dump.problems()
        assert not problems, f"{manifest}: {problems[0]}"
    if (out / "m" / "manifest.json").exists():
        return "complete"
    return "incomplete" if (out / "m.incomplete").exists() else "none"


def main() -> None:
    """Run trials and print how often each state was found."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--by-moment", type=int, default=0)
    options.add_argument("--by-time", type=int, default=0)
    given = options.parse_args()
    drawn = random.Random(given.seed)
    work(given.folder / "alone", LONG_S)  # imports what is imported late, once for all
    out = given.folder / "whole" / "dumps"
    out.parent.mkdir()
    started_s = time.perf_counter()
    moments = trial(out, {})
    took_s = time.perf_counter() - started_s
    assert state_of(out) == "complete"
    states: Counter[str] = Counter()
    for number in range(given.by_moment + given.by_time):
        out = given.folder / str(number) / "dumps"
        out.parent.mkdir()
        victims = VICTIMS[number % len(VICTIMS)]
        if number < given.by_moment:
            trial(out, {rank: drawn.randint(1, moments[rank]) for rank in victims})
        else:
            trial_by_time(out, victims, drawn.uniform(0, took_s))
        states[state_of(out)] += 1
        if number % 5 == 0:  # what was left is in nobody's way
            trial(out, {})
            assert state_of(out) == "complete"
            assert sorted(path.name for path in out.iterdir() if path.name[0] == ".") == []
    print(json.dumps(states))


if __name__ == "__main__":
    main()
