"""Run the chunks of the corpus in two processes of one thread each."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from multiprocessing import get_context
from typing import TYPE_CHECKING

from .case import Outcome, VerdictRank
from .run import run_named

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from .case import Case

__all__ = ["run_all"]

SINGLE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
QUIET = {"GLOG_minloglevel": "2", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}


def run_all(cases: Sequence[Case], *, jobs: int) -> Iterator[Outcome]:
    """Run cases, a chunk at a time in each process; a process that dies takes its chunk along.

    Args:
        cases: In any order; those of one chunk run together.
        jobs: Number of processes.
    """
    os.environ.update(dict.fromkeys(SINGLE, "1") | QUIET)
    chunks: dict[str, list[Case]] = {}
    for case in cases:
        chunks.setdefault(case.chunk, []).append(case)
    waiting = sorted(chunks.values(), key=len, reverse=True)
    died = yield from _run(waiting, jobs=jobs)
    for chunk in died:
        gone = yield from _run([chunk], jobs=1)
        for case in chain.from_iterable(gone):
            yield Outcome(
                case=case.name,
                group=str(case.group),
                family=str(case.family or ""),
                verdict=VerdictRank.CRASHED,
                detail="the process died",
            )


def _run(chunks: list[list[Case]], *, jobs: int) -> Generator[Outcome, None, list[list[Case]]]:
    """Run chunks, and return those that no process came back from."""
    died = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run_named, [case.name for case in chunk]): chunk for chunk in chunks}
        for future in as_completed(futures):
            try:
                yield from future.result()
            except BrokenProcessPool:
                died.append(futures[future])
    return died
