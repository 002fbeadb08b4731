"""Operators of torch and Paddle in real processes: known defects are found, equal ones agree."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from padiff.ops.cases import Case, Fill, Tensor
from padiff.ops.judging import Kind, Side
from padiff.ops.reporting import program_of
from padiff.ops.searching import Pair, run_case, search
from padiff.ops.table import TABLE
from padiff.ops.workers import Request, Sent, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Worker("torch") as torch, Worker("paddle") as paddle:
        workers = {"torch": torch, "paddle": paddle}
        yield Pair(reference="torch", candidate="paddle", workers=workers)


@pytest.mark.parametrize(
    "name", ["add", "mul", "sqrt", "gelu", "sum", "mean", "bmm", "reshape", "cat"]
)
def test_equal_operators_agree(pair: Pair, name: str) -> None:
    found = search(TABLE[name], pair, examples=15, seed=5)

    assert found.cases == 15
    assert not found.rejected
    assert list(found.findings) == []


@pytest.mark.parametrize(
    ("name", "place", "examples"),
    [("relu", "output[0]", 150), ("prod", "gradient[input]", 150), ("hardshrink", "output[0]", 60)],
)
def test_a_known_defect_is_found_and_shrunk(
    pair: Pair, name: str, place: str, examples: int
) -> None:
    found = search(TABLE[name], pair, examples=examples, seed=1)

    [(case, finding)] = [each for bucket, each in found.findings.items() if bucket.place == place]
    assert (finding.bucket.kind, finding.bucket.side) == (Kind.WRONG, Side.CANDIDATE)
    assert sum(one.count for one in case.tensors) <= 4


def test_the_same_seed_draws_the_same_cases(pair: Pair) -> None:
    found = [search(TABLE["relu"], pair, examples=20, seed=2) for _ in range(2)]

    assert found[0].examples == found[1].examples
    assert list(found[0].findings) == list(found[1].findings)


def test_a_finding_is_a_program_that_shows_it(pair: Pair, tmp_path: Path) -> None:
    case = Case(operator="relu", arguments={"input": Tensor(shape=(), fill=Fill.SPECIAL, seed=2)})
    finding = run_case(TABLE["relu"], case, pair).finding
    assert finding is not None
    path = tmp_path / "relu.py"
    path.write_text(program_of(TABLE["relu"], case, finding, ("torch", "paddle")))

    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=True, timeout=120
    )

    assert "torch tensor(nan" in done.stdout
    assert "0." in done.stdout.partition("paddle Tensor")[2]
    assert "paddle gradient" in done.stdout


def test_a_worker_outlives_a_crash_and_a_call_that_hangs() -> None:
    def asked(name: str, *arguments: object) -> Request:
        return Request(name=name, keywords={}, positional=arguments, tensors=(), wrapped={})

    with Worker("torch", limit_s=2) as worker:
        worker.ask(asked("torch.os.abort"))
        crashed = worker.answer().crash
        worker.ask(asked("torch.os.read", 0, 1))
        late = worker.answer().crash
        array = TABLE_INPUT.array
        worker.ask(
            Request(
                name="torch.neg",
                keywords={"input": {"tensor": 0}},
                tensors=(TABLE_INPUT,),
                wrapped={},
            )
        )
        answered = worker.answer()

    assert crashed is not None
    assert crashed.name == "SIGABRT"
    assert late is not None
    assert late.is_late
    assert answered.outputs[0].tolist() == (-array.astype(float)).tolist()


TABLE_INPUT = Sent(array=Tensor(shape=(3,), fill=Fill.NORMAL).array())
