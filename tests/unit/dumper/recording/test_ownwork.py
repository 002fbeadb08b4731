"""The lock of a recorder's state, and the context that goes with it."""

from __future__ import annotations

import threading

import pytest

from padiff.dumper.recording.ownwork import OwnWork


class Context:
    """Notes when it was entered and left."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __enter__(self) -> None:
        self.events.append("entered")

    def __exit__(self, *_: object) -> None:
        self.events.append("left")


def test_a_lock_that_is_taken_again_enters_its_context_once() -> None:
    context = Context()
    work = OwnWork(lambda: context)

    with work:
        with work:
            assert work.is_going_on()
            assert context.events == ["entered"]
        assert work.is_going_on()
        assert context.events == ["entered"]

    assert not work.is_going_on()
    assert context.events == ["entered", "left"]


def test_an_error_inside_lets_go_of_the_lock() -> None:
    context = Context()
    work = OwnWork(lambda: context)

    for _ in range(2):
        with pytest.raises(ValueError, match="inside"), work, work:
            raise ValueError("inside")
        assert not work.is_going_on()

    assert context.events == ["entered", "left"] * 2


def test_only_the_thread_that_holds_the_lock_does_the_work() -> None:
    work, asked = OwnWork(), threading.Event()
    found: list[bool] = []

    def ask() -> None:
        found.append(work.is_going_on())
        asked.set()
        with work:
            found.append(work.is_going_on())

    thread = threading.Thread(target=ask)
    with work:
        thread.start()
        asked.wait()
        assert found == [False]
    thread.join()

    assert found == [False, True]
