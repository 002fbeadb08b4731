"""Training that is spread over two processes: recording changes nothing, and holds each part."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.comparer import compare
from padiff.dumpfile import LEAF_KINDS, LeafKind, Mesh, Phase, Role, open_dump
from tests.support.command import run_python, run_ranks

SUPPORT = Path(__file__).parents[1] / "support"
BROKEN = "tensor:broken"
CASES = (
    "ddp", "distributed", "fsdp", "fsdp_mixed", "interleaved", "megatron", "pipeline",
    "pipeline_1f1b", "sequence", "tensor",
)  # fmt: skip
SPREAD = ("distributed", "fsdp", "fsdp_mixed", "sequence", "tensor")
"""Those of which torch knows how tensors lie."""
RANKS = (0, 1)
GRID_RANKS = (0, 1, 2, 3)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What a launcher left."""

    folder: Path
    ranks: tuple[dict[str, Any], ...]
    said: str


def launch(
    folder: Path, module: str, script: str, *words: str, ranks: tuple[int, ...] = RANKS
) -> Runs:
    """Run a script of tests.support on all ranks, by a launching module if it needs one."""
    command = [*module.split(), str(SUPPORT / script), str(folder), *words]
    environment = {"PADIFF_RANK_WAIT_S": "60", "PYTHONPATH": str(SUPPORT.parents[1])}
    if module:
        done = run_python("-m", *command, cwd=folder, environment=environment)
    else:
        done = run_ranks(*command, cwd=folder, environment=environment, count=len(ranks))
    logs = "".join(path.read_text() for path in folder.glob("log/workerlog.*"))
    said = logs or done.stdout + done.stderr
    assert done.returncode == 0, said
    found = tuple(json.loads((folder / f"{rank}.json").read_text()) for rank in ranks)
    return Runs(folder=folder, ranks=found, said=said)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("torch")
    return launch(folder, "", "sharded_torch.py", *CASES, BROKEN)


@pytest.fixture(scope="module")
def grid_run(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("grid")
    return launch(folder, "", "sharded_torch.py", "grid", ranks=GRID_RANKS)


@pytest.fixture(scope="module")
def paddle_run(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    launcher = "paddle.distributed.launch --nproc_per_node 2 --backend gloo"
    return launch(tmp_path_factory.mktemp("paddle"), launcher, "sharded_paddle.py")


def parts(
    runs: Runs,
    case: str,
    name: str,
    *,
    step: int = 0,
    role: Role = Role.WEIGHT,
    ranks: tuple[int, ...] = RANKS,
) -> list[tuple[Array, tuple[str, ...]]]:
    """Give what each rank recorded of a weight, and its placements."""
    path, _, slot = name.rpartition(".")
    found = []
    for rank in ranks:
        with open_dump(runs.folder / "dumps" / case).open(step, rank) as file:
            modules = {module.id: module.path for module in file.index.modules}
            record = next(
                one
                for one in file.index.records
                if (modules[one.module], one.role, one.slot) == (path, role, f".{slot}")
                and one.phase is not Phase.UPDATE
            )
            placements = () if record.layout is None else record.layout.placements
            found.append((file.array(record).copy(), placements))
    return found


def outputs(
    runs: Runs, case: str, path: str, role: Role = Role.OUTPUT
) -> list[tuple[Array, tuple[str, ...]]]:
    """Give what each rank recorded as a module's first output or input, and its placements."""
    found = []
    for rank in RANKS:
        with open_dump(runs.folder / "dumps" / case).open(0, rank) as file:
            modules = {module.path: module.id for module in file.index.modules}
            record = next(
                one
                for one in file.index.records
                if one.module == modules[path] and one.role is role
            )
            placements = () if record.layout is None else record.layout.placements
            found.append((file.array(record).copy(), placements))
    return found


@pytest.mark.parametrize("case", [*CASES, BROKEN])
def test_losses_are_bit_equal_with_and_without_recording(runs: Runs, case: str) -> None:
    for rank in runs.ranks:
        assert len(rank[case]["plain"]["losses"]) == 3
        assert rank[case]["plain"]["losses"] == rank[case]["recorded"]["losses"]


@pytest.mark.parametrize("case", [*CASES, BROKEN])
def test_recording_starts_no_collective(runs: Runs, case: str) -> None:
    for rank in runs.ranks:
        assert rank[case]["plain"]["collectives"] > 0
        assert rank[case]["plain"]["collectives"] == rank[case]["recorded"]["collectives"]


@pytest.mark.parametrize("case", CASES)
def test_all_steps_of_both_ranks_are_there_and_whole(runs: Runs, case: str) -> None:
    dump = open_dump(runs.folder / "dumps" / case)

    assert [(info.step, info.rank) for info in dump.files] == [
        (step, rank) for step in range(3) for rank in RANKS
    ]
    assert dump.problems() == []
    assert dump.manifest.phase is Phase.UPDATE


@pytest.mark.parametrize("case", CASES)
def test_program_has_no_hole_and_every_value_is_accounted_for(runs: Runs, case: str) -> None:
    hole = LEAF_KINDS.index(LeafKind.HOLE)
    for rank in RANKS:
        with open_dump(runs.folder / "dumps" / case).open(0, rank) as file:
            program = file.program()
        assert program is not None
        assert not (program.value_kind == hole).any()


@pytest.mark.parametrize("case", ["fsdp", "distributed", "tensor", "sequence"])
@pytest.mark.parametrize("role", [Role.WEIGHT, Role.WEIGHT_GRAD])
def test_parts_of_a_weight_make_the_whole(runs: Runs, case: str, role: Role) -> None:
    whole = parts(runs, "ddp", "blocks.0.up.weight", role=role)[0][0]

    found = parts(runs, case, "blocks.0.up.weight", role=role)

    assert whole.shape == (16, 8)
    if found[0][1] == ("S(0)",):
        joined = np.concatenate([array for array, _ in found])
    else:  # a gradient may lie otherwise than its weight
        assert role is Role.WEIGHT_GRAD
        assert found[0][1] in (("R",), ("P(sum)",))
        joined = found[0][0] if found[0][1] == ("R",) else found[0][0] + found[1][0]
    if role is Role.WEIGHT:
        np.testing.assert_array_equal(joined, whole)
    else:
        np.testing.assert_allclose(joined, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", SPREAD)
def test_weights_are_recorded_while_they_are_shards_in_each_step(runs: Runs, case: str) -> None:
    for step in range(3):
        found = parts(runs, case, "head.weight", step=step)
        assert [placements for _, placements in found] == [("S(0)",)] * 2
        assert [array.shape for array, _ in found] == [(6, 8)] * 2


@pytest.mark.parametrize("case", SPREAD)
def test_meshes_stand_in_the_manifest(runs: Runs, case: str) -> None:
    name = "fsdp" if case.startswith("fsdp") else "tp"

    meshes = open_dump(runs.folder / "dumps" / case).manifest.meshes

    assert meshes == (Mesh(dims=(name,), sizes=(2,), ranks=(0, 1)),)


def test_activations_that_are_distributed_say_how_they_lie(runs: Runs) -> None:
    placements = set()
    with open_dump(runs.folder / "dumps" / "distributed").open(0, 1) as file:
        for record in file.index.records:
            if record.role is Role.OUTPUT and record.layout is not None:
                placements.add(record.layout.placements)
                assert len(record.layout.shape) == len(record.shape)

    assert {("R",), ("S(2)",)} <= placements


def test_reduced_activations_have_arrived_when_they_are_recorded(runs: Runs) -> None:
    terms = outputs(runs, "tensor", "blocks.0.down")
    after = outputs(runs, "tensor", "blocks.0")
    whole = outputs(runs, "distributed", "blocks.0")

    assert [placements for _, placements in terms] == [("P(sum)",)] * 2
    assert not np.array_equal(terms[0][0], terms[1][0])
    np.testing.assert_array_equal(after[0][0], after[1][0])
    joined = np.concatenate([array for array, _ in whole], axis=2)
    np.testing.assert_allclose(after[0][0], joined, rtol=0, atol=1e-5)


def test_gathered_inputs_have_arrived_when_they_are_recorded(runs: Runs) -> None:
    before = outputs(runs, "sequence", "blocks.0.norm")

    gathered = outputs(runs, "sequence", "blocks.0.query", Role.INPUT)

    assert [placements for _, placements in before] == [("S(1)",)] * 2
    assert [placements for _, placements in gathered] == [("R",)] * 2
    joined = np.concatenate([array for array, _ in before], axis=1)
    for array, _ in gathered:
        np.testing.assert_array_equal(array, joined)


def test_mesh_of_two_dimensions(runs: Runs, grid_run: Runs) -> None:
    for case in (rank["grid"] for rank in grid_run.ranks):
        assert case["plain"]["losses"] == case["recorded"]["losses"]
        assert case["plain"]["collectives"] == case["recorded"]["collectives"]
    dump = open_dump(grid_run.folder / "dumps" / "grid")
    assert dump.problems() == []
    meshes = set(dump.manifest.meshes)
    assert Mesh(dims=("dp", "tp"), sizes=(2, 2), ranks=GRID_RANKS) in meshes
    assert Mesh(dims=("tp",), sizes=(2,), ranks=(2, 3)) in meshes  # known to ranks 2 and 3 alone
    whole = parts(runs, "ddp", "blocks.0.query.weight")[0][0]

    found = parts(grid_run, "grid", "blocks.0.query.weight", ranks=GRID_RANKS)

    for rank, (array, placements) in enumerate(found):
        data, tensor = divmod(rank, 2)
        assert placements == ("S(0;2)", "S(0)")
        start = 4 * tensor + 2 * data  # of two runs of four rows, the data rank's part of each
        np.testing.assert_array_equal(array, whole[start : start + 2])


@pytest.mark.parametrize(
    ("case", "stages"), [("interleaved", 2), ("pipeline", 1), ("pipeline_1f1b", 1)]
)
def test_calls_that_only_find_shapes_out_are_left_out(runs: Runs, case: str, stages: int) -> None:
    for rank in RANKS:
        counts = []
        for step in range(3):
            with open_dump(runs.folder / "dumps" / case).open(step, rank) as file:
                counts.append(sum(call.parent is None for call in file.index.calls))
        assert counts == [2 * stages] * 3  # two microbatches


@pytest.mark.parametrize(
    ("case", "rank", "expected"),
    [
        ("megatron", 0, "torch.distributed.all_reduce"),
        ("tensor", 1, "_c10d_functional.all_reduce"),
        ("sequence", 0, "_c10d_functional.reduce_scatter_tensor"),
        ("sequence", 1, "_c10d_functional.all_gather_into_tensor"),
        ("fsdp", 0, "torch.distributed.fsdp.all_gather"),
        ("pipeline", 0, "torch.distributed.isend"),
        ("pipeline", 1, "torch.distributed.irecv"),
    ],
)
def test_collectives_are_operators(runs: Runs, case: str, rank: int, expected: str) -> None:
    with open_dump(runs.folder / "dumps" / case).open(0, rank) as file:
        program = file.program()

    assert program is not None
    names = [program.strings[name] for name in program.operator_name]
    assert expected in names
    assert not any("overwrite" in name for name in names)  # nothing changed unseen


def test_value_of_a_reduction_by_hand_is_what_comes_out(runs: Runs) -> None:
    with open_dump(runs.folder / "dumps" / "megatron").open(0, 0) as file:
        program = file.program()
        assert program is not None
        names = [program.strings[name] for name in program.operator_name]
        first = names.index("torch.distributed.all_reduce")
        made = int(program.outputs[program.operator_outputs[:first].sum()])
        content = int(program.value_content[made])
        outputs = {
            record.value
            for record in file.index.records
            if record.role is Role.OUTPUT
            and file.index.modules[record.module].class_name == "MegatronMlp"
        }

    assert content in outputs


@pytest.mark.parametrize(("case", "expected"), [("ddp", 1), ("megatron", 1), ("fsdp", 0)])
def test_norm_of_parts_of_gradients_is_not_recorded(runs: Runs, case: str, expected: int) -> None:
    with open_dump(runs.folder / "dumps" / case).open(0, 0) as file:
        found = [one for one in file.index.records if "gradient_norm" in one.slot]

    assert len(found) == expected


def test_sharded_modules_keep_their_class(runs: Runs) -> None:
    with open_dump(runs.folder / "dumps" / "fsdp").open(0, 0) as file:
        names = {module.class_name for module in file.index.modules}

    assert {"Net", "Block"} <= names
    assert not any(name.startswith("FSDP") for name in names)


def test_error_in_recording_ends_the_recording_and_says_so(runs: Runs) -> None:
    assert not (runs.folder / "dumps" / "tensorbroken").exists()
    for rank in runs.ranks:
        assert rank[BROKEN]["recorded"]["dump"].startswith("none: cannot name the dump")
    assert runs.said.count("padiff: the recording of 'tensorbroken' has ended") == 2
    assert "ZeroDivisionError: planted" in runs.said


def test_show_prints_meshes_and_layouts(
    runs: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    dump = str(runs.folder / "dumps" / "fsdp")

    assert main(["show", dump, "--step", "0", "--rank", "0", "--records", "--max-rows", "0"]) == 0

    shown = capsys.readouterr().out
    assert "fsdp 2, ranks 0 1" in shown
    assert "(6, 8) of (12, 8) fsdp S(0)" in shown


@pytest.mark.parametrize("case", ["fsdp", "megatron", "sequence"])
def test_audit_finds_nothing_unsound(
    runs: Runs, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = str(runs.folder / "dumps" / case)

    assert main(["audit", dump, "--step", "0"]) == 0, capsys.readouterr().out


def test_paddle_losses_are_bit_equal_with_and_without_recording(paddle_run: Runs) -> None:
    for rank in paddle_run.ranks:
        assert len(rank["plain"]) == 3
        assert rank["plain"] == rank["recorded"]


def test_paddle_parts_say_how_they_lie(paddle_run: Runs) -> None:
    dump = open_dump(paddle_run.folder / "dumps" / "tensor")
    up, down = (parts(paddle_run, "tensor", f"{name}.weight") for name in ("up", "down"))

    assert dump.problems() == []
    assert dump.manifest.meshes == (Mesh(dims=("tp",), sizes=(2,), ranks=(0, 1)),)
    assert [(array.shape, placements) for array, placements in up] == [((4, 4), ("S(1)",))] * 2
    assert [(array.shape, placements) for array, placements in down] == [((4, 4), ("S(0)",))] * 2
    assert not np.array_equal(up[0][0], up[1][0])


def test_paddle_parts_compare_with_a_run_in_one_process(paddle_run: Runs) -> None:
    done = run_python(
        *(SUPPORT / "sharded_paddle.py", paddle_run.folder, "alone"),
        cwd=paddle_run.folder,
        environment={"PYTHONPATH": str(SUPPORT.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    dumps = paddle_run.folder / "dumps"

    found = compare(dumps / "one", dumps / "tensor")

    assert found.verdict == "match", found.reasons
    assert found.counts["match"] == 153
    assert found.scope.logical[0].layouts["recorded"] > 40
