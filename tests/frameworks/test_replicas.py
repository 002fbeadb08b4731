"""Four gloo processes of data parallelism, of which one alone keeps elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.cli.main import main
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.sharding.across import audit_ranks
from padiff.dumpfile import Content, Role, open_dump, validate
from tests.support.command import run_python, run_ranks

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = """
import sys, torch, padiff
import torch.distributed as dist
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256), nn.Linear(256, 4))

def train(name, model, rows, **options):
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    batches = [torch.randn(8, 16)[rows] for step in range(2)]  # equal on all ranks before the cut
    with padiff.record(model, name=name, out="dumps", optimizer=optimizer, **options) as recorder:
        for x in batches:
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.step(loss=loss)
    assert padiff.open_dump(recorder.path).files

if sys.argv[1:] == ["one"]:
    train("one", net(), slice(None))
else:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rows = slice(2 * rank, 2 * rank + 2)
    train("all", nn.parallel.DistributedDataParallel(net()), rows)
    train("few", nn.parallel.DistributedDataParallel(net()), rows, replicas="1-")
    model = nn.parallel.DistributedDataParallel(net())
    if rank == 2:
        with torch.no_grad():
            model.module[2].weight[3, 5] += 0.01
    train("wrong", model, rows, replicas=[1, 2, 3])
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train in one process, and in four with and without replicas."""
    folder = tmp_path_factory.mktemp("replicas")
    (folder / "train.py").write_text(TRAIN)
    alone = run_python("train.py", "one", cwd=folder)
    for done in (alone, run_ranks("train.py", cwd=folder, count=4)):
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dumps"


def size_bytes(dump: Path, *ranks: int) -> int:
    return sum(info.size_bytes for info in open_dump(dump).files if info.rank in ranks)


def test_four_ranks_take_little_more_than_one(dumps: Path) -> None:
    assert size_bytes(dumps / "few", 0, 1, 2, 3) <= 1.4 * size_bytes(dumps / "few", 0)
    assert size_bytes(dumps / "few", 0) == size_bytes(dumps / "all", 0)


def test_replicas_keep_digests_and_inputs(dumps: Path) -> None:
    dump = open_dump(dumps / "few")

    assert not validate(dump.path, deep=True)
    assert dump.manifest.settings["replicas"] == [1, 2, 3]
    for rank in (1, 2, 3):
        with dump.open(0, rank) as file, open_dump(dumps / "all").open(0, rank) as whole:
            assert [one.role for one in file.index.records] == [
                one.role for one in whole.index.records
            ]
            for one, other in zip(file.index.records, whole.index.records, strict=True):
                kept, full = (
                    side.values[record.value or 0]
                    for side, record in ((file.index, one), (whole.index, other))
                )
                assert kept.digest == full.digest
                if one.role is Role.WEIGHT and kept.size > 16:
                    assert kept.content is Content.STATS
                if one.role is Role.INPUT and one.module == 0:
                    assert kept.content is Content.FULL


@pytest.mark.parametrize(
    ("reference", "candidate"), [("one", "few"), ("few", "one"), ("all", "few"), ("few", "few")]
)
def test_weights_and_gradients_are_judged_by_the_rank_that_has_them(
    dumps: Path, reference: str, candidate: str
) -> None:
    found = compare(dumps / reference, dumps / candidate, CompareSettings())

    assert found.verdict is Verdict.MATCH, found.reasons
    judged = {
        pair.candidate.address.role
        for step in found.steps
        for pair in step.pairs
        if pair.candidate is not None and pair.verdict is Verdict.MATCH
    }
    assert {Role.WEIGHT, Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE} <= judged


def test_a_replica_that_differs_is_named_without_a_reference(dumps: Path) -> None:
    assert main(["audit", str(dumps / "few")]) == 0
    assert main(["audit", str(dumps / "wrong")]) == 1

    lines = audit_ranks(open_dump(dumps / "wrong"), 0)

    assert lines[0].startswith("2 weight.weight: replicas over dp differ: rank 2 from rank 0")


def test_a_replica_that_differs_diverges(dumps: Path) -> None:
    found = compare(dumps / "one", dumps / "wrong", CompareSettings())

    assert found.verdict is Verdict.DIVERGED
    first = found.origins[0]
    assert first.pair.candidate is not None
    assert first.pair.candidate.address.module == "2"
    assert "rank 2 from rank 0" in first.pair.reason
