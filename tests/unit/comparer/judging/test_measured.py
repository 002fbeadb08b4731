"""Pairs are measured each once, in any number of processes."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import spawn
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Tolerance, compare, measure
from padiff.comparer.executors import beside_this_task, local_pool
from padiff.comparer.judging import measured
from padiff.comparer.judging.blocks import RELEASE_BYTES
from padiff.comparer.judging.measured import measure_share, spread
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import VERSION, CompareError, ConfigError, DumpFormatError, StepFile
from tests.support.large_layers import write_large

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager
    from pathlib import Path

    from padiff.comparer import Metrics
    from padiff.comparer.judging.measured import Share

Array = npt.NDArray[Any]


def both_written(tmp_path: Path) -> tuple[Path, Path]:
    return write_large(tmp_path / "known", 0.0), write_large(tmp_path / "found", 1e-3)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let processes start however small the pairs are, and note how many."""
    counts: list[int] = []

    def noted(scheduler: str | None, count: int) -> AbstractContextManager[Executor]:
        counts.append(count)
        return beside_this_task(scheduler, count)

    monkeypatch.setattr(measured, "WORTH_BYTES", 0)
    monkeypatch.setattr(measured, "HEAD_START_BYTES", 0)
    monkeypatch.setattr(measured, "beside_this_task", noted)
    return counts


def compared(paths: tuple[Path, Path], jobs: int) -> dict[str, Any]:
    return to_json(compare(*paths, CompareSettings(jobs=jobs)))


def test_processes_change_nothing(tmp_path: Path, started: list[int]) -> None:
    paths = both_written(tmp_path)

    one, three = compared(paths, 1), compared(paths, 3)

    assert one == three
    assert one["verdict"] == "diverged"
    assert started == [2]


def compared_at_once(paths: tuple[Path, Path]) -> tuple[dict[str, Any], list[int]]:
    """Compare in three processes, whatever it is worth; return how many others measured, too."""
    counts: list[int] = []

    def noted(scheduler: str | None, count: int) -> AbstractContextManager[Executor]:
        counts.append(count)
        return beside_this_task(scheduler, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "WORTH_BYTES", 0)
        patch.setattr(measured, "HEAD_START_BYTES", 0)
        patch.setattr(measured, "beside_this_task", noted)
        return compared(paths, 3), counts


def test_a_process_that_compares_a_rank_shares_its_measuring(tmp_path: Path) -> None:
    paths = both_written(tmp_path)

    with local_pool(1) as pool:
        found = pool.submit(compared_at_once, paths).result()

    assert found == (compared(paths, 1), [2])


def test_few_bytes_are_not_worth_a_process(
    tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "WORTH_BYTES", 1 << 30)

    compared(both_written(tmp_path), 3)

    assert started == []


def killed(share: Share, version: str) -> list[tuple[int, Metrics]]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def test_what_a_process_does_not_give_back_is_measured_here(
    tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = both_written(tmp_path)
    one = compared(paths, 1)
    monkeypatch.setattr(measured, "measure_share", killed)

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


def shared_out(paths: tuple[Path, Path], jobs: int) -> list[Share]:
    """Return what other processes would measure."""
    sent: list[Share] = []

    def send(share: Share, version: str) -> list[tuple[int, Metrics]]:
        sent.append(share)
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "WORTH_BYTES", 0)
        patch.setattr(measured, "HEAD_START_BYTES", 0)
        patch.setattr(measured, "measure_share", send)
        patch.setattr(measured, "beside_this_task", lambda *_: ThreadPoolExecutor(1))
        compared(paths, jobs)
    return sent


def test_a_share_gives_what_measuring_gives(tmp_path: Path) -> None:
    paths = both_written(tmp_path)
    (share,) = shared_out(paths, 2)
    with StepFile(share.files[0]) as known, StepFile(share.files[1]) as found:
        alone = [
            measure(known.array(one.known[0]), found.array(one.record), one.tolerance)
            for one in share.requests
        ]

    assert measure_share(share, VERSION) == list(zip(share.places, alone, strict=True))
    with pytest.raises(CompareError, match="expected padiff"):
        measure_share(share, "0.0.9")


def test_a_file_that_was_replaced_is_not_measured(tmp_path: Path) -> None:
    (share,) = shared_out(both_written(tmp_path), 2)
    other = write_large(tmp_path / "other", 2e-3)
    share.files[1].write_bytes(
        (other / share.files[1].relative_to(tmp_path / "found")).read_bytes()
    )

    with pytest.raises(DumpFormatError, match="replaced"):
        measure_share(share, VERSION)


@pytest.mark.parametrize(("jobs", "loads"), [(1, [21]), (2, [11, 10]), (3, [7, 7, 7]), (9, None)])
def test_shares_cost_about_as_much(jobs: int, loads: list[int] | None) -> None:
    costs = {place: place + 1 for place in range(6)}

    shares = spread(costs, jobs, 0)

    assert sorted(place for share in shares for place in share) == list(costs)
    found = sorted((sum(costs[place] for place in share) for share in shares), reverse=True)
    assert found == (loads or [6, 5, 4, 3, 2, 1, 0, 0, 0])


def test_this_process_has_a_head_start() -> None:
    assert spread(dict.fromkeys(range(3), 1), 2, 1 << 30) == [[0, 1, 2], []]


def test_less_than_one_process_is_refused() -> None:
    with pytest.raises(ConfigError, match="processes"):
        CompareSettings(jobs=0)


def test_memory_is_given_back_within_one_large_pair() -> None:
    array = np.broadcast_to(np.float32(1), (1,)).copy()
    large = np.resize(array, 20 << 20)
    released: list[int] = []

    measure(large, large, Tolerance(atol=0, rtol=0), release=lambda: released.append(1))

    assert len(released) == 2 * large.nbytes // RELEASE_BYTES
