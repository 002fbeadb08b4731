"""Tests of the queue between the recorder and the writer's thread."""

from __future__ import annotations

import threading

from padiff.dumpfile.valuestore import ByteQueue


def test_items_are_worked_off_in_order() -> None:
    seen: list[int] = []
    queue: ByteQueue[int] = ByteQueue(seen.append, limit_bytes=100, name="test")

    for number in range(1000):
        queue.put(number, 10)
    queue.close()

    assert seen == list(range(1000))
    assert queue.error is None


def test_waiting_items_never_exceed_the_limit() -> None:
    lock = threading.Lock()
    waiting = 0
    most = 0

    def work(size: int) -> None:
        nonlocal waiting
        with lock:
            waiting -= size

    queue: ByteQueue[int] = ByteQueue(work, limit_bytes=3 << 20, name="test")
    for _ in range(50):
        queue.put(1 << 20, 1 << 20)
        with lock:
            waiting += 1 << 20
            most = max(most, waiting)
    queue.close()

    assert most <= 4 << 20  # the limit, and the one item that is being worked on


def test_one_item_larger_than_the_limit_is_let_through() -> None:
    seen: list[str] = []
    queue: ByteQueue[str] = ByteQueue(seen.append, limit_bytes=1, name="test")

    queue.put("large", 1000)
    queue.drain()

    assert seen == ["large"]
    queue.close()


def test_an_error_of_the_thread_is_kept_and_nobody_waits_for_ever() -> None:
    def work(number: int) -> None:
        raise KeyError(number)

    queue: ByteQueue[int] = ByteQueue(work, limit_bytes=1, name="test")
    for number in range(5):
        queue.put(number, 10)
    queue.drain()
    queue.close()

    assert isinstance(queue.error, KeyError)


def test_little_work_waits_until_it_is_asked_for() -> None:
    threads: list[str] = []
    queue: ByteQueue[int] = ByteQueue(
        lambda _: threads.append(threading.current_thread().name), limit_bytes=8 << 20, name="test"
    )
    for number in range(100):
        queue.put(number, 100)
    before = len(threads)
    queue.drain()

    assert before == 0
    assert threads == ["test"] * 100
    queue.close()


def test_much_work_is_begun_without_asking() -> None:
    begun = threading.Event()
    queue: ByteQueue[int] = ByteQueue(lambda _: begun.set(), limit_bytes=8 << 20, name="test")

    queue.put(0, 4 << 20)

    assert begun.wait(60)
    queue.close()
