"""What a comparison and the data flow take grows with the dump, whatever it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, compare
from padiff.comparer.locating.dataflow import Flow
from tests.support.dumps import DumpBuilder
from tests.support.work import calls_made

if TYPE_CHECKING:
    from pathlib import Path

SHARED = np.arange(4, dtype=np.float32)


def sharing(calls: int, off: float = 0.0) -> DumpBuilder:
    """Build a model of which all calls take one value, and all but each second return it."""
    built = DumpBuilder().module("", "Net")
    for number in range(10):
        built.module(f"m{number}", "Act")
    built.enter("", inputs=[SHARED])
    for number in range(calls):
        built.call(f"m{number % 10}", inputs=[SHARED], outputs=[SHARED + number % 2 * (1 + off)])
    return built.leave(outputs=[SHARED])


def named(words: int, end: str) -> DumpBuilder:
    """Build a model of modules whose names are of so many words."""
    names = [
        "_".join(f"{chr(97 + place % 26)}{chr(97 + place // 26 % 26)}x" for place in range(words))
        + f"_{end}{chr(97 + number)}"
        for number in range(20)
    ]
    built = DumpBuilder().module("", "Net")
    for name in names:
        built.module(name, "Act")
    built.enter("", inputs=[SHARED])
    for number, name in enumerate(names):
        made = np.full(4, number + len(end), np.float32)
        built.call(name, inputs=[SHARED], outputs=[made])
    return built.leave(outputs=[SHARED])


def test_the_flow_of_calls_that_share_a_value_is_linear() -> None:
    few, many = (sharing(calls).side().index for calls in (250, 1000))

    took = [calls_made(lambda index=index: list(Flow(index).feeds())) for index in (few, many)]  # type: ignore[misc]

    assert took[1] < 6 * took[0]


def test_comparing_calls_that_share_a_value_is_linear(tmp_path: Path) -> None:
    took = []
    for calls in (100, 400):
        places = [tmp_path / f"{name}{calls}" for name in ("reference", "candidate")]
        sharing(calls).write(places[0])
        sharing(calls, off=0.5).write(places[1])
        compare(places[0], places[1], CompareSettings())  # what is read once is not counted
        took.append(calls_made(lambda: compare(places[0], places[1], CompareSettings())))  # noqa: B023

    assert took[1] < 6 * took[0]


def test_comparing_does_not_grow_with_the_length_of_names(tmp_path: Path) -> None:
    took = []
    for words in (10, 600, 6000):  # the first loads what is not loaded yet
        places = [tmp_path / f"{name}{words}" for name in ("reference", "candidate")]
        for place, end in zip(places, ("q", "rs"), strict=True):
            named(words, end).write(place)
        took.append(calls_made(lambda: compare(places[0], places[1], CompareSettings())))  # noqa: B023

    assert took[2] < 1.5 * took[1]
