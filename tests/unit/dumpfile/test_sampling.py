"""The positions of a sample are fixed by the shape, spread over it, and shared by its layouts."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.dumpfile import (
    ConfigError,
    Content,
    DumpFormatError,
    DumpWriter,
    Keep,
    Phase,
    Role,
    Sample,
    digest_of,
    open_dump,
    sample_positions,
    statistics_of,
    validate,
)
from padiff.dumpfile.indexcodec import decode_index
from padiff.dumpfile.sampling import is_sampled
from tests.support.dumps import DumpBuilder, manifest
from tests.support.indexes import datasets_of, document_of, read_tables

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

shapes = st.lists(st.sampled_from([1, 2, 3, 7, 16, 40, 129]), min_size=1, max_size=5).map(tuple)
SMALL = 1 << 17  # elements that a test lays out in memory


@pytest.mark.parametrize(
    ("shape", "count", "size", "digest"),
    [
        ((100, 100), 64, 129, "6f9597c8"),
        ((2, 128, 28, 28), 4096, 8111, "72a4da76"),
        ((1, 50000), 4096, 7857, "da0f7095"),
        ((3, 3, 3, 3, 3, 3, 3, 3, 3), 100, 100, "a43badc2"),
    ],
)
def test_positions_never_change(shape: tuple[int, ...], count: int, size: int, digest: str) -> None:
    found = sample_positions(shape, count)

    assert found.size == size
    assert hashlib.sha256(found.astype("<i8").tobytes()).hexdigest()[:8] == digest


def test_positions_are_those_of_the_published_rule() -> None:
    """Work the rule of docs/format.md out with plain integers."""
    word = (1 << 64) - 1

    def mix(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & word
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & word
        return x ^ (x >> 31)

    def random(key: int, i: int) -> int:
        return mix((key + (i + 1) * 0x9E3779B97F4A7C15) & word)

    def draw(length: int, stream: int, batch: int, count: int) -> list[int]:
        parts = min(length, count)
        key = mix(mix(length) ^ (stream << 32) ^ batch)
        line: list[int] = []
        while len(line) < count:
            start = len(line)
            line += sorted(range(parts), key=lambda part: random(key, start + part))
        size, longer = divmod(length, parts)
        starts = [part * size + min(part, longer) for part in range(parts)]
        return [
            starts[part] + random(mix(key), d) % (size + (part < longer))
            for d, part in enumerate(line[:count])
        ]

    def family(lengths: list[int], strides: list[int], stream: int, count: int) -> set[int]:
        found: set[int] = set()
        batch = 0
        while len(found) < count:
            axes = [draw(n, stream + axis, batch, count) for axis, n in enumerate(lengths)]
            for coordinates in zip(*axes, strict=True):
                if len(found) < count:
                    found.add(sum(c * s for c, s in zip(coordinates, strides, strict=True)))
            batch += 1
        return found

    expected = family([40, 7, 3], [1, 40, 280], 0, 50) | family([840], [1], 64, 50)

    assert sample_positions((3, 1, 7, 40), 50).tolist() == sorted(expected)


@given(shapes, st.integers(1, 64), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_a_tensor_and_its_transpose_share_enough(
    shape: tuple[int, ...], count: int, random: object
) -> None:
    size = math.prod(shape)
    if not is_sampled(size, count) or size > SMALL:
        return
    order = list(range(len(shape)))
    random.shuffle(order)  # type: ignore[attr-defined]
    places = np.arange(size).reshape(shape).transpose(order)

    mine = set(sample_positions(shape, count).tolist())
    theirs = set(places.reshape(-1)[sample_positions(places.shape, count)].tolist())

    assert len(mine & theirs) >= count


@given(shapes, st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_a_tensor_and_its_reshape_share_enough(shape: tuple[int, ...], count: int) -> None:
    size = math.prod(shape)
    if not is_sampled(size, count):
        return

    mine, theirs = sample_positions(shape, count), sample_positions((size,), count)

    assert np.intersect1d(mine, theirs).size >= count
    assert count <= mine.size <= 2 * count + 120
    assert (mine >= 0).all()
    assert (mine < size).all()
    assert (np.diff(mine) > 0).all()


@pytest.mark.parametrize("shape", [(64, 3, 224, 224), (4096, 11008), (30522, 768), (8, 512, 2048)])
def test_every_index_of_every_axis_is_looked_at(shape: tuple[int, ...]) -> None:
    found = np.unravel_index(sample_positions(shape, 4096), shape)

    for indexes, length in zip(found, shape, strict=True):
        assert np.unique(indexes).size >= min(length, 4096)


@pytest.mark.parametrize("text", ["full", "stats", "digest", "sample=4096", "sample=7"])
def test_content_is_read_back_from_its_text(text: str) -> None:
    assert str(Keep.parse(text)) == text


def made(directory: Path, keep: Keep, *arrays: npt.NDArray[np.float32]) -> Path:
    """Write a dump of one module that takes these arrays."""
    with DumpWriter(directory, content=keep) as writer:
        with writer.step(0) as step:
            step.add_modules(DumpBuilder().module("", "Net").modules)
            for place, array in enumerate(arrays):
                step.add_record(
                    module=0, call=None, phase=Phase.FORWARD, role=Role.NAMED,
                    slot=f"[{place}]", order=0, shape=array.shape, value=step.store(array),
                )  # fmt: skip
        return writer.commit(manifest())


def test_sampled_elements_statistics_and_digest_are_in_the_file(tmp_path: Path) -> None:
    large = np.random.default_rng(0).standard_normal((60, 50)).astype(np.float32)
    small = np.arange(64, dtype=np.float32)
    path = made(tmp_path / "net", Keep.parse("sample=32"), large, small)

    with open_dump(path).open() as file:
        sampled, whole = file.index.values
        positions, elements = file.sample(sampled)
        assert sampled.content is Content.SAMPLE
        assert sampled.statistics == statistics_of(large)
        assert sampled.digest == digest_of(large)
        np.testing.assert_array_equal(positions, sample_positions((60, 50), 32))
        np.testing.assert_array_equal(elements, large.reshape(-1)[positions])
        assert whole.content is Content.FULL
        np.testing.assert_array_equal(file.value_array(whole), small)
        with pytest.raises(DumpFormatError, match="only a sample"):
            file.value_array(sampled)
    assert validate(path, deep=True) == []


def test_digests_alone_hold_nothing_else(tmp_path: Path) -> None:
    path = made(tmp_path / "net", Keep.parse("digest"), np.ones(5, np.float32))

    with open_dump(path).open() as file:
        value = file.index.values[0]
        assert value.digest == digest_of(np.ones(5, np.float32))
        assert (value.dataset, value.statistics.l2, value.statistics.zeros) == (None, None, 0)
    assert validate(path, deep=True) == []


def test_what_is_not_sampled_is_written_as_before(tmp_path: Path) -> None:
    path = made(tmp_path / "net", Keep(), np.ones((60, 50), np.float32))

    assert "samples" not in read_tables(path)


@pytest.mark.parametrize(
    ("rows", "loc"),
    [
        ([], "values[0]"),
        ([[0, 32, [60, 50]], [0, 32, [60, 50]]], "samples[1].value"),
        ([[1, 32, [60, 50]]], "samples[0].value"),
        ([[0, 32, [60, 51]]], "samples[0].shape"),
        ([[0, 2000, [60, 50]]], "samples[0].count"),
        ([[0, 0, [60, 50]]], "samples[0].count"),
        ([[0, 32, [60, -50]]], "samples[0].shape"),
    ],
)
def test_samples_that_fit_no_value_are_refused(
    rows: list[object], loc: str, tmp_path: Path
) -> None:
    path = made(tmp_path / "net", Keep.parse("sample=32"), np.ones((60, 50), np.float32))
    document = document_of(read_tables(path))
    document["samples"]["rows"] = rows

    index, problems = decode_index(datasets_of(document))

    assert index is None
    assert loc in [problem.loc for problem in problems]


def test_a_sample_that_is_too_short_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "net", Keep.parse("sample=32"), np.ones((60, 50), np.float32))

    with open_dump(path).open() as file:
        longer = replace(file.index.values[0], sample=Sample(count=1000, shape=(60, 50)))
        with pytest.raises(DumpFormatError, match="expected elements"):
            file.sample(longer)


def test_a_sample_without_number_is_the_default_one() -> None:
    assert Keep.parse("sample") == Keep(content=Content.SAMPLE, sample=4096)


@pytest.mark.parametrize(
    "text", ["", "all", "sample=", "sample=0", "sample=-1", "sample=1e3", "stats=3", "sample=²"]
)
def test_other_contents_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Keep.parse(text)
