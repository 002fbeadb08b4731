"""Pairs are measured each once, in any number of processes."""

from __future__ import annotations

import os
import signal
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Tolerance, compare, measure
from padiff.comparer.executors import local_pool
from padiff.comparer.judging import largepairs
from padiff.comparer.judging.blocks import RELEASE_BYTES
from padiff.comparer.judging.measured import LARGE_FROM
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import ConfigError
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager
    from pathlib import Path

    from padiff.comparer import Metrics
    from padiff.comparer.judging.largepairs import LargePair

Array = npt.NDArray[Any]
LAYERS = 7


def written(path: Path, change: float) -> Path:
    random = np.random.default_rng(0)
    built = DumpBuilder().module("", "Net")
    arrays = []
    for number in range(LAYERS):
        size = LARGE_FROM + number if number % 3 else 100
        arrays.append(random.standard_normal(size).astype(np.float32) * np.float32(1 + change))
        built.module(f"m{number}", "Layer")
    built.enter("", inputs=[np.ones(3, np.float32)])
    for number, array in enumerate(arrays):
        built.call(f"m{number}", inputs=[np.ones(3, np.float32)], outputs=[array])
    return built.leave(outputs=[arrays[-1]]).write(path)


def both_written(tmp_path: Path) -> tuple[Path, Path]:
    return written(tmp_path / "known", 0.0), written(tmp_path / "found", 1e-3)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let processes start however small the pairs are, and note how many."""
    counts: list[int] = []

    def noted(count: int) -> AbstractContextManager[Executor]:
        counts.append(count)
        return local_pool(count)

    monkeypatch.setattr(largepairs, "WORTH_BYTES", 0)
    monkeypatch.setattr(largepairs, "HEAD_START_BYTES", 0)
    monkeypatch.setattr(largepairs, "local_pool", noted)
    return counts


def compared(paths: tuple[Path, Path], jobs: int) -> dict[str, Any]:
    return to_json(compare(*paths, CompareSettings(jobs=jobs)))


def test_processes_change_nothing(tmp_path: Path, started: list[int]) -> None:
    paths = both_written(tmp_path)

    one, three = compared(paths, 1), compared(paths, 3)

    assert one == three
    assert one["verdict"] == "diverged"
    assert started == [2]


def test_few_bytes_are_not_worth_a_process(
    tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largepairs, "WORTH_BYTES", 1 << 30)

    compared(both_written(tmp_path), 3)

    assert started == []


def killed(share: Sequence[LargePair]) -> list[tuple[int, Metrics]]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def test_what_a_process_does_not_give_back_is_measured_here(
    tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = both_written(tmp_path)
    one = compared(paths, 1)
    monkeypatch.setattr(largepairs, "measure_share", killed)

    assert compared(paths, 2) == one
    assert started == [1]


def test_no_process_at_all_leaves_everything_here(
    tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = both_written(tmp_path)
    one = compared(paths, 1)
    monkeypatch.setattr(spawn, "get_executable", lambda: os.fsencode(tmp_path / "missing"))

    assert compared(paths, 2) == one
    assert started == [1]


def test_less_than_one_process_is_refused() -> None:
    with pytest.raises(ConfigError, match="processes"):
        CompareSettings(jobs=0)


def test_memory_is_given_back_within_one_large_pair() -> None:
    array = np.broadcast_to(np.float32(1), (1,)).copy()
    large = np.resize(array, 20 << 20)
    released: list[int] = []

    measure(large, large, Tolerance(atol=0, rtol=0), release=lambda: released.append(1))

    assert len(released) == 2 * large.nbytes // RELEASE_BYTES
