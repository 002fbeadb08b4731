"""What other threads compute within a recorded step is part of the program."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch
import torch._dynamo

import padiff
from padiff.dumpfile import LeafKind
from tests.support.programs import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Thing = Any
TASKS = 4


class _Branches(torch.nn.Module):
    """Runs its branches by a function, and adds what they give."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.branches = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(TASKS))
        self.run = run

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        return sum(self.run(lambda branch: branch(x.exp()).tanh(), self.branches))


class _PaddleBranches(paddle.nn.Layer):
    """The same of Paddle."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.branches = paddle.nn.LayerList([paddle.nn.Linear(4, 4) for _ in range(TASKS)])
        self.run = run

    def forward(self, x: paddle.Tensor) -> Any:  # noqa: ANN401
        return sum(self.run(lambda branch: branch(x.exp()).tanh(), self.branches))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Have threads that run before a step begins."""
    with ThreadPoolExecutor(2) as made:
        list(made.map(str, range(2)))
        yield made


def _threads(task: Callable[..., Any], parts: Thing) -> list[Any]:
    """Run a task in threads of its own, one for each part."""
    found: dict[int, Any] = {}

    def work(place: int, part: object) -> None:
        found[place] = task(part)

    threads = [threading.Thread(target=work, args=each) for each in enumerate(parts)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return [found[place] for place in range(len(threads))]


def _new_pool(task: Callable[..., Any], parts: Thing) -> list[Any]:
    with ThreadPoolExecutor(2) as made:
        return list(made.map(task, parts))


def _tasks(task: Callable[..., Any], parts: Thing) -> list[Any]:
    with ThreadPool(2) as made:
        first = [made.apply_async(task, (part,)).get() for part in parts[:1]]
        return first + made.map(task, parts[1:2]) + list(made.imap(task, parts[2:]))


RUNS = {"threads": _threads, "new pool": _new_pool, "multiprocessing": _tasks}


def recorded(model: Thing, x: Thing, folder: Path) -> Recorded:
    with padiff.record(model, name="model", out=folder) as recorder:
        model(x).mean().backward()
    return Recorded.read(recorder.path)


def _check(found: Recorded, names: set[str]) -> None:
    """Expect all operators of all branches, each in the call that it belongs to."""
    assert found.leaves(LeafKind.HOLE) == []
    counted = Counter(found.names)
    assert {name: counted[name] for name in names} == dict.fromkeys(names, TASKS)
    root = [call.id for call in found.index.calls if call.parent is None]
    assert len(root) == 1
    assert [call.parent for call in found.index.calls if call.id not in root] == root * TASKS
    calls = found.program.operator_call.tolist()
    places = [at for at, name in enumerate(found.names) if name in ("exp", "tanh")]
    assert {calls[at] for at in places} == set(root)
    linears = [calls[at] for at, name in enumerate(found.names) if name == "linear"]
    assert sorted(linears) == [call.id for call in found.index.calls if call.id not in root]


@pytest.mark.parametrize("name", RUNS)
def test_operators_of_threads_belong_to_the_call_that_started_them(
    name: str, tmp_path: Path
) -> None:
    found = recorded(_Branches(RUNS[name]), torch.randn(2, 4), tmp_path)

    _check(found, {"exp", "linear", "tanh"})


def test_tasks_of_a_pool_that_is_there_are_seen(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    found = recorded(_Branches(pool.map), torch.randn(2, 4), tmp_path)

    _check(found, {"exp", "linear", "tanh"})


@pytest.mark.parametrize("name", RUNS)
def test_operators_of_threads_are_seen_in_paddle(name: str, tmp_path: Path) -> None:
    found = recorded(_PaddleBranches(RUNS[name]), paddle.randn([2, 4]), tmp_path)

    _check(found, {"exp", "linear", "tanh"})


def test_a_model_that_a_thread_calls_is_seen_and_what_others_do_is_not(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    model, x = torch.nn.Linear(4, 4), torch.randn(2, 4)
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        pool.submit(lambda: torch.ones(3).cos()).result()
        pool.submit(lambda: model(x).sin().mean().backward()).result()

    assert Recorded.read(recorder.path).names == ["linear", "sin", "mean"]


def test_nothing_stays_in_threads(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    before = threading.Thread.start, ThreadPoolExecutor.submit, vars(ThreadPool).get("imap")

    recorded(_Branches(pool.map), torch.randn(2, 4), tmp_path)

    after = threading.Thread.start, ThreadPoolExecutor.submit, vars(ThreadPool).get("imap")
    assert after == before
    count = torch._C._len_torch_function_stack
    assert [pool.submit(count).result() for _ in range(4)] == [0] * 4


def test_recordings_that_end_in_another_order_leave_nothing(tmp_path: Path) -> None:
    stance = torch._dynamo.eval_frame._stance
    before = threading.Thread.start
    models, x = (torch.nn.Linear(4, 4), _Branches(_threads)), torch.randn(2, 4)
    first, second = (
        padiff.record(model, name=f"model{place}", out=tmp_path)
        for place, model in enumerate(models)
    )

    first.__enter__()
    models[0](x)
    second.__enter__()
    first.__exit__(None, None, None)
    models[1](x)
    second.__exit__(None, None, None)

    assert threading.Thread.start is before
    assert torch._dynamo.eval_frame._stance == stance
