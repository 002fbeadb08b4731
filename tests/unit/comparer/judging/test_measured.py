"""Pairs are measured each once, in any number of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Tolerance, compare, measure
from padiff.comparer.judging.blocks import RELEASE_BYTES
from padiff.comparer.judging.measured import THREADED_FROM
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import ConfigError
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]
LAYERS = 7


def written(path: Path, change: float) -> Path:
    random = np.random.default_rng(0)
    built = DumpBuilder().module("", "Net")
    arrays = []
    for number in range(LAYERS):
        size = THREADED_FROM + number if number % 3 else 100
        arrays.append(random.standard_normal(size).astype(np.float32) * np.float32(1 + change))
        built.module(f"m{number}", "Layer")
    built.enter("", inputs=[np.ones(3, np.float32)])
    for number, array in enumerate(arrays):
        built.call(f"m{number}", inputs=[np.ones(3, np.float32)], outputs=[array])
    return built.leave(outputs=[arrays[-1]]).write(path)


def test_threads_change_nothing(tmp_path: Path) -> None:
    paths = written(tmp_path / "known", 0.0), written(tmp_path / "found", 1e-3)

    one, three = (to_json(compare(*paths, CompareSettings(jobs=jobs))) for jobs in (1, 3))

    assert one == three
    assert one["verdict"] == "diverged"


def test_less_than_one_thread_is_refused() -> None:
    with pytest.raises(ConfigError, match="threads"):
        CompareSettings(jobs=0)


def test_memory_is_given_back_within_one_large_pair() -> None:
    array = np.broadcast_to(np.float32(1), (1,)).copy()
    large = np.resize(array, 20 << 20)
    released: list[int] = []

    measure(large, large, Tolerance(atol=0, rtol=0), release=lambda: released.append(1))

    assert len(released) == 2 * large.nbytes // RELEASE_BYTES
