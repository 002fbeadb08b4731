"""Sharded runs against runs in one process, and against runs that are sharded otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from padiff.cli.output import NO_WIDTH
from padiff.comparer import CompareSettings, Comparison, compare
from padiff.comparer.auditing import audit_dump
from padiff.comparer.sharding.across import audit_ranks
from padiff.dumpfile import open_dump
from tests.support.command import run_python, run_ranks
from tests.support.pages import DOCS, run_page

SUPPORT = Path(__file__).parents[1] / "support"
ALONE = ("one", "one_dropout")
ON_TWO = (
    "tensor", "sequence", "distributed", "ddp", "fsdp", "hand", "hand_sequence", "hand_rows",
    "hand_dropout", "pipeline", "pipeline_2", "fault_unreduced", "fault_twice", "fault_order",
    "fault_replica", "fault_partial", "fault_offset", "fault_input_grad", "fault_seeds",
    "fault_norm_grad", "fault_summed", "fault_unreduced_rows",
)  # fmt: skip
ON_FOUR = ("grid", "hand", "tensor")
LONG = {"one", "tensor", "fsdp", "pipeline_2"}
"""Those that were trained for two steps."""
TERMS = "nothing tells whether these are terms of a sum"


def run(folder: Path, ranks: int, cases: tuple[str, ...]) -> Path:
    """Train cases; return where their dumps are."""
    folder.mkdir(parents=True, exist_ok=True)
    command: tuple[str | Path, ...] = (SUPPORT / "logical_torch.py", folder, *cases)
    environment = {"PADIFF_RANK_WAIT_S": "60", "PYTHONPATH": str(SUPPORT.parents[1])}
    if ranks == 1:
        done = run_python(*command, cwd=folder, environment=environment)
    else:
        done = run_ranks(*command, cwd=folder, environment=environment, count=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dumps"


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps of one and of two processes; of four below ``4``."""
    folder = tmp_path_factory.mktemp("logical")
    run(folder, 1, ALONE)
    run(folder / "4", 4, ON_FOUR)
    found = run(folder, 2, ON_TWO)
    (folder / "4" / "dumps").rename(found / "4")
    return found


def reasons(found: Comparison) -> set[str]:
    """Return why records were left out, those aside that are judged elsewhere."""
    pairs = (pair for step in found.steps for pair in step.pairs)
    return {pair.reason for pair in pairs if pair.verdict == "skipped" and not pair.covered}


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        *(("one", name) for name in ON_TWO if not name.startswith("fault") and "drop" not in name),
        ("one_dropout", "hand_dropout"),
        *(("one", f"4/{name}") for name in ON_FOUR),
        ("tensor", "one"),
        ("tensor", "4/tensor"),
        ("hand", "4/hand"),
        ("fsdp", "ddp"),
        ("ddp", "hand"),
        ("pipeline", "tensor"),
        ("hand_sequence", "sequence"),
    ],
)
def test_right_runs_match_however_they_are_sharded(
    dumps: Path, reference: str, candidate: str
) -> None:
    steps = None if {reference, candidate} <= LONG else (0,)

    found = compare(dumps / reference, dumps / candidate, CompareSettings(steps=steps))

    assert found.verdict == "match", found.reasons
    assert found.counts["missing"] == found.counts["incomparable"] == 0
    assert found.counts["match"] > 250 * len(found.steps)
    assert (found.scope.outputs, found.scope.weights, found.scope.gradients) == (1, 32, 32)
    # of a gradient that sequence parallelism by hand leaves in parts nothing is known
    assert all(TERMS in reason for reason in reasons(found))
    assert bool(reasons(found)) is ("hand_sequence" in {reference, candidate})


def test_ranks_that_were_asked_for_are_compared_with_each_other(dumps: Path) -> None:
    found = compare(dumps / "tensor", dumps / "tensor", CompareSettings(ranks=(1,)))

    assert [(step.step, step.rank) for step in found.steps] == [(0, 1), (1, 1)]
    assert not found.scope.logical
    assert found.verdict == "match"


@pytest.mark.parametrize(
    ("fault", "place", "words"),
    [
        ("unreduced", "blocks.1.out#0 output", "Partial(sum) over tp, not reduced: the sum of the"),
        ("partial", "blocks.1#0 output", "blocks.1.down output: P(sum), used as whole by add"),
        ("twice", "blocks.1.out#0 output", "2 times the reference on all 2 ranks of tp, but for"),
        ("order", "blocks.1.up#0 output", "weight.weight: shards of axis 0 lie in another order"),
        ("replica", "blocks.1.norm#0 output", "differ: rank 1 from rank 0 by 0.008"),
        ("offset", "embedding#0 output", "got the row -1 beside their own, or none"),
        ("input_grad", "blocks.1.up#0 grad_input[0]", "not reduced over tp: the sum of the 2"),
        ("seeds", "dropout#0 output", "drew other random numbers, from other seeds"),
        ("norm_grad", "blocks.1.norm weight_grad.weight", "not reduced over tp: the sum of the 2"),
        ("summed", "head weight_grad.weight", "all 2 ranks of dp: summed, not averaged over dp"),
        ("unreduced_rows", "head weight_grad.weight", "not reduced over dp: the mean of the 2"),
    ],
)
def test_fault_between_ranks_is_named_where_it_is(
    dumps: Path, fault: str, place: str, words: str
) -> None:
    reference = "one_dropout" if fault == "seeds" else "one"

    found = compare(dumps / reference, dumps / f"fault_{fault}", CompareSettings(steps=(0,)))

    assert found.verdict == "diverged"
    assert found.first is not None
    assert str(found.first.pair.end.address) == f"step 0 {place}"
    assert any(words in line for line in found.first.evidence), found.first.evidence
    if fault not in {"summed", "unreduced_rows"}:  # there every gradient of a weight is wrong
        assert len(found.origins) == 1


def test_fault_of_the_reference_is_named_as_well(dumps: Path) -> None:
    found = compare(dumps / "fault_unreduced", dumps / "one", CompareSettings(steps=(0,)))

    assert found.first is not None
    assert found.first.pair.end.address.module == "blocks.1.out"
    assert any("agrees with the candidate" in line for line in found.first.evidence)


CLEAN = [name for name in ON_TWO if not name.startswith("fault")]


@pytest.mark.parametrize("name", CLEAN)
def test_audit_finds_nothing_between_the_ranks_of_right_runs(dumps: Path, name: str) -> None:
    assert audit_ranks(open_dump(dumps / name), 0) == ()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("replica", "blocks.1.norm weight.weight: replicas over tp differ: rank 1 from rank 0 by"),
        ("unreduced", "blocks.1.out output: replicas over tp differ"),
        ("seeds", "dropout output: replicas over tp differ"),
        ("norm_grad", "blocks.1.norm weight_grad.weight: replicas over tp differ"),
        ("unreduced_rows", "embedding weight_grad.weight: replicas over dp differ"),
        ("partial", "blocks.1.down output: P(sum), used as whole by add of blocks.1 at "),
    ],
)
def test_audit_finds_faults_between_ranks_without_a_reference(
    dumps: Path, fault: str, words: str
) -> None:
    lines = audit_ranks(open_dump(dumps / f"fault_{fault}"), 0)

    if fault == "partial":
        assert any(line.startswith(words) for line in lines)
    else:
        assert lines[0].startswith(words)


def test_what_is_found_between_ranks_makes_the_step_unsound(dumps: Path) -> None:
    found = audit_dump(dumps / "fault_replica", step=0)

    assert list(found) == ["step 0", "step 0 rank 1"]
    assert [one.soundness for one in found.values()] == ["unsound", "sound"]
    assert found["step 0"].between_ranks


def test_every_command_of_the_page_works(
    dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "padiff_dump").symlink_to(dumps)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(NO_WIDTH))
    changed = {
        "padiff_dump/mine": "padiff_dump/hand --step 0",
        "wqkv weight=S(0;3)": "up weight=S(0)",
        "**.wo": "**.out",
        "audit padiff_dump/hand": "audit padiff_dump/fault_replica",
        "s3://bucket/dumps/one": "padiff_dump/one",
        "s3://": "memory://",
    }

    ran = run_page(DOCS / "sharded.md", tmp_path, capsys, changed=changed)

    assert ran == {"padiff compare", "padiff audit", "padiff push"}
