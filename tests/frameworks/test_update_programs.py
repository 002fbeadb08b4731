"""The update of the weights is recorded as operators, which compute what it left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.auditing import Soundness, audit_dump
from padiff.dumpfile import LeafKind, Phase, Role, open_dump
from padiff.program import TABLES, lower, read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from padiff.program import RecordedProgram

STEPS = 3
OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "Adam": (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True}),
    "AdamW": (torch.optim.AdamW, {}),
    "RMSprop": (torch.optim.RMSprop, {"centered": True, "momentum": 0.9}),
    "Adagrad": (torch.optim.Adagrad, {"lr_decay": 0.1}),
}
FORMS = {"single": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
TORCH = [
    (name, form)
    for name in OPTIMIZERS
    for form in FORMS
    if (name, form) != ("RMSprop", "fused")  # torch has none
]
PADDLE: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: paddle.optimizer.SGD(0.1, parameters=p, weight_decay=0.01),
    "momentum": lambda p: paddle.optimizer.Momentum(
        0.1, parameters=p, weight_decay=0.01, use_nesterov=True
    ),
    "Adam": lambda p: paddle.optimizer.Adam(0.1, parameters=p, weight_decay=0.01),
    "AdamW": lambda p: paddle.optimizer.AdamW(0.1, parameters=p, amsgrad=True),
    "merged momentum": lambda p: paddle.optimizer.Momentum(
        0.1, parameters=p, weight_decay=0.01, use_nesterov=True, use_multi_tensor=True
    ),
    "merged Adam": lambda p: paddle.optimizer.Adam(0.1, parameters=p, use_multi_tensor=True),
    "merged AMSGrad": lambda p: paddle.optimizer.Adam(
        0.1, parameters=p, use_multi_tensor=True, amsgrad=True
    ),
    "RMSProp": lambda p: paddle.optimizer.RMSProp(0.1, parameters=p, centered=True, momentum=0.9),
    "Adagrad": lambda p: paddle.optimizer.Adagrad(0.1, parameters=p),
    "clipped": lambda p: paddle.optimizer.SGD(
        paddle.optimizer.lr.StepDecay(0.1, 1), parameters=p,
        grad_clip=paddle.nn.ClipGradByGlobalNorm(0.01),
    ),
}  # fmt: skip


def torch_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def train_torch(
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    recorder: padiff.Recorder | None = None,
    between: Callable[[Any], None] | None = None,
) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(STEPS):
        loss = model(torch.randn(5, 4, generator=generator)).square().mean()
        loss.backward()
        if between is not None:
            between(model)
        optimizer.step()
        optimizer.zero_grad()
        if recorder is not None:
            recorder.step(loss=loss)


def recorded_torch(
    out: Path,
    name: str = "AdamW",
    form: str = "single",
    between: Callable[[Any], None] | None = None,
) -> tuple[Path, nn.Module]:
    model = torch_model()
    kind, options = OPTIMIZERS[name]
    optimizer = kind(model.parameters(), lr=0.01, **options, **FORMS[form])
    with padiff.record(model, name="model", out=out, optimizer=optimizer) as recorder:
        train_torch(optimizer, model, recorder, between)
    assert recorder.path is not None
    return recorder.path, model


def recorded_paddle(out: Path, make: Callable[[Any], Any], between: Any = None) -> Path:  # noqa: ANN401
    paddle.seed(0)
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.Tanh(), paddle.nn.Linear(3, 1))
    optimizer = make(model.parameters())
    random = np.random.default_rng(0)
    with padiff.record(model, name="model", out=out, optimizer=optimizer) as recorder:
        for _ in range(STEPS):
            loss = model(paddle.to_tensor(random.random((5, 4), np.float32))).square().mean()
            loss.backward()
            if between is not None:
                between(model)
            optimizer.step()
            optimizer.clear_grad()
            recorder.step(loss=loss)
    assert recorder.path is not None
    return recorder.path


def programs(path: Path) -> Iterator[RecordedProgram]:
    """Read the program of each step, with the file open."""
    dump = open_dump(path)
    for step in range(STEPS):
        with dump.open(step, 0) as file:
            program = read_program(file)
            assert program is not None
            yield program


def left(program: RecordedProgram) -> dict[str, int]:
    """Return the values that an update left, by role and place of their records."""
    return {
        f"{record.role} {record.module}{record.slot}": value
        for number, value in program.borders.items()
        if (record := program.index.records[number]).phase is Phase.UPDATE
    }


def assert_is_whole(path: Path) -> None:
    """Check that each weight after each step is made by operators that have rules."""
    for program in programs(path):
        lowered = lower(
            program.program, TABLES[program.program.framework], contents=program.elements
        )
        opaque = (program.program.operators[one] for one in lowered.opaque)
        names = {one.name for one in opaque if one.phase is Phase.UPDATE}
        assert names <= {"torch.empty_like"}  # which nothing reads
        weights = [record for record in program.index.records if record.role is Role.WEIGHT]
        after = [one for one in weights if one.phase is Phase.UPDATE]
        values = [program.borders[one.id] for one in after]
        assert len(after) == 4
        for value in values:
            producer = program.program.values[value].producer
            assert producer is not None
            assert program.program.operators[producer].phase is Phase.UPDATE
    for audited in audit_dump(path).values():
        assert audited.soundness is Soundness.SOUND
        assert sum(one.soundness is Soundness.SOUND for one in audited.values) >= 8


@pytest.mark.parametrize(("name", "form"), TORCH)
def test_what_torchs_optimizers_leave_is_what_their_operators_compute(
    name: str, form: str, tmp_path: Path
) -> None:
    path, model = recorded_torch(tmp_path, name, form)

    assert_is_whole(path)
    plain = torch_model()
    kind, options = OPTIMIZERS[name]
    train_torch(kind(plain.parameters(), lr=0.01, **options, **FORMS[form]), plain)
    for one, two in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("name", PADDLE)
def test_what_paddles_optimizers_leave_is_what_their_operators_compute(
    name: str, tmp_path: Path
) -> None:
    assert_is_whole(recorded_paddle(tmp_path, PADDLE[name]))


@pytest.mark.parametrize("foreach", [False, True])
def test_clipping_belongs_to_the_update(foreach: bool, tmp_path: Path) -> None:
    def clip(model: nn.Module) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=foreach)

    path, _ = recorded_torch(tmp_path, between=clip)

    assert_is_whole(path)
    for program in programs(path):
        names = [one.name for one in program.program.operators if one.phase is Phase.UPDATE]
        assert "torch.clamp" in names


def test_paddles_clipping_changes_the_gradient_that_the_optimizer_takes(tmp_path: Path) -> None:
    def clip(model: Any) -> None:  # noqa: ANN401
        paddle.nn.utils.clip_grad_norm_(model.parameters(), 0.01)

    path = recorded_paddle(tmp_path, PADDLE["AdamW"], clip)

    assert_is_whole(path)
    for program in programs(path):
        leaves = [one for one in program.program.values if one.kind is LeafKind.GRADIENT]
        assert len(leaves) == 4


def test_an_update_takes_gradients_and_moments_by_the_weights_names(tmp_path: Path) -> None:
    path, _ = recorded_torch(tmp_path)

    kinds = [
        {(one.kind, one.name) for one in program.program.values if one.kind is not None}
        for program in programs(path)
    ]

    for found in kinds:
        assert (LeafKind.GRADIENT, "2.bias") in found
    assert (LeafKind.STATE, "0.weight['exp_avg']") not in kinds[0]
    for name in ("exp_avg", "exp_avg_sq", "step"):
        assert (LeafKind.STATE, f"0.weight[{name!r}]") in kinds[1]


def test_what_a_script_does_beside_the_update_is_no_part_of_it(tmp_path: Path) -> None:
    def look(model: nn.Module) -> None:
        del model
        torch.randn(3).softmax(0).sum().item()

    plain, _ = recorded_torch(tmp_path / "plain")
    looking, _ = recorded_torch(tmp_path / "looking", between=look)

    counts = [
        [len(program.program.operators) for program in programs(path)] for path in (plain, looking)
    ]
    assert counts[0] == counts[1]


def test_an_update_of_a_weight_that_was_changed_unseen_is_unsound(tmp_path: Path) -> None:
    def change(model: Any) -> None:  # noqa: ANN401
        model[0].weight.numpy(force=True).fill(1)

    path, _ = recorded_torch(tmp_path, between=change)

    assert {one.soundness for one in audit_dump(path).values()} == {Soundness.UNSOUND}


def test_an_update_takes_little_of_the_program(tmp_path: Path) -> None:
    """Nothing is stored of what optimizers compute on the way."""
    path, _ = recorded_torch(tmp_path)

    for program in programs(path):
        ends = set(left(program).values())
        for operator in program.program.operators:
            if operator.phase is Phase.UPDATE:
                for value in set(operator.outputs) - ends:
                    assert program.info(value) is None
