"""Tests of storing tensors in their own memory's time."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import Content, DumpWriter, Phase, Role, open_dump, validate
from padiff.dumpfile.arena import Arena
from padiff.dumpfile.stepwriter import StepWriter
from tests.support.dumps import DumpBuilder, manifest

if TYPE_CHECKING:
    from pathlib import Path

SIZES = (0, 3, 20_000, 3_000_000, 9_000_000)
"""Elements: of an empty tensor, on a page, a dataset of its own, and more than the arena holds."""


def add(step: StepWriter, array: np.ndarray, content: Content | None = None) -> None:
    step.add_record(
        module=0,
        call=None,
        phase=Phase.FORWARD,
        role=Role.NAMED,
        slot="['x']",
        order=0,
        shape=array.shape,
        value=step.store(array, content=content),
    )


def changing(size: int) -> np.ndarray:
    return np.arange(size, dtype=np.float32)


@pytest.mark.parametrize("compression", [None, 1])
def test_tensors_may_change_as_soon_as_they_are_stored(
    compression: int | None, tmp_path: Path
) -> None:
    with DumpWriter(tmp_path / "net", compression=compression) as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            for size in SIZES:
                array = changing(size)
                add(step, array)
                array[:] = -1.0
        path = writer.commit(manifest())

    assert validate(path, deep=True) == []
    with open_dump(path).open() as file:
        for size, record in zip(SIZES, file.index.records, strict=True):
            np.testing.assert_array_equal(file.array(record), changing(size))


@pytest.mark.parametrize("content", [Content.STATS, Content.SAMPLE])
def test_statistics_are_those_of_the_moment_of_storing(content: Content, tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            array = changing(20_000)
            add(step, array, content)
            array[:] = -1.0
        path = writer.commit(manifest())

    assert validate(path, deep=True) == []
    with open_dump(path).open() as file:
        assert file.index.values[0].statistics.maximum == 19_999.0


@pytest.mark.parametrize("content", list(Content))
def test_memory_of_a_stored_tensor_is_not_held(content: Content, tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        step = writer.step(0)
        array = changing(100_000)
        lives = weakref.ref(array)
        step.store(array, content=content)

        del array

        assert lives() is None


def test_a_tensor_that_is_known_is_handed_over_once(tmp_path: Path) -> None:
    with DumpWriter(tmp_path / "net") as writer:
        step = writer.step(0)
        array = changing(20_000)

        assert step.store(array) is step.store(array.copy().reshape(2, -1))


def test_more_of_a_value_than_before_is_kept_when_that_is_wanted(tmp_path: Path) -> None:
    contents = (Content.DIGEST, Content.FULL, Content.STATS)
    with DumpWriter(tmp_path / "net") as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            for content in contents:
                add(step, changing(20_000), content)
        path = writer.commit(manifest())

    with open_dump(path).open() as file:
        values = [file.index.values[record.value or 0] for record in file.index.records]
        assert [value.content for value in values] == [Content.FULL] * 3
        assert len(file.index.values) == 1


def test_memory_is_room_again_after_a_step_that_was_given_up(tmp_path: Path) -> None:
    arena = Arena(1 << 20)
    for step in range(3):
        made = StepWriter(
            tmp_path / str(step) / "rank_0000.h5", relative="x", step=step, rank=0, arena=arena
        )
        for number in range(40):
            made.store(np.full(5_000, number, np.float32))
        made.abandon()

        piece = arena.take(1 << 20, None)
        assert piece is not None
        arena.give_back(piece)


def test_many_threads_store_into_files_of_one_arena(tmp_path: Path) -> None:
    def fill(writer: DumpWriter, rank: int) -> None:
        with writer.step(0, rank) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            for number in range(60):
                add(step, np.full(200_000, 100 * rank + number, np.float32))

    with DumpWriter(tmp_path / "net") as writer:
        threads = [threading.Thread(target=fill, args=(writer, rank)) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        path = writer.commit(manifest())

    assert validate(path, deep=True) == []


def test_small_values_keep_the_content_that_was_wanted_last(tmp_path: Path) -> None:
    arrays = [np.arange(size, dtype=np.float32) + 1 for size in (1, 2, 3)]
    with DumpWriter(tmp_path / "net") as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            stored = [step.store(array, content=Content.STATS) for array in arrays]
            is_settled = step.deepen(stored[1], Content.FULL)
            step.flush()
            is_settled_late = step.deepen(stored[2], Content.FULL)
            step.store(arrays[2], content=Content.FULL)
        path = writer.commit(manifest())

    assert (is_settled, is_settled_late) == (True, False)
    with open_dump(path).open() as file:
        values = file.index.values
        assert [one.content for one in values] == [Content.STATS, Content.FULL, Content.FULL]
        assert file.value_array(values[1]).tolist() == [1.0, 2.0]
        assert file.value_array(values[2]).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("content", list(Content))
def test_bytes_are_stored_as_their_array_is(tmp_path: Path, content: Content) -> None:
    array = np.arange(12_000, dtype=np.float32).reshape(3, 4000)
    with DumpWriter(tmp_path / "net") as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            first = step.store_bytes(array.tobytes(), "float32", array.shape, content)
            again = step.store(array, content=content)
        path = writer.commit(manifest())

    assert again.info == first.info
    assert validate(path, deep=True) == []
    with open_dump(path).open() as file:
        assert [(one.content, one.size) for one in file.index.values] == [(content, array.size)]
