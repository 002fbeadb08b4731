"""Recording scripts that know nothing of padiff: what only torch has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import padiff
from padiff.comparer import Verdict
from padiff.dumpfile import LeafKind, Phase, Role, open_dump
from padiff.program import read_program
from tests.support.recording import Recorded
from tests.support.scripts import recorded, script

if TYPE_CHECKING:
    from pathlib import Path

SCALED = """
model = Net()
optimizer = sgd(model)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for step in range(3):
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(ones(4, 3)).float().mean()
    scaler.scale(loss).backward()
    if step == 1:
        model.b.weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def test_scaler_that_skips_an_update_ends_the_step_all_the_same(tmp_path: Path) -> None:
    path = recorded(script(tmp_path, "torch", SCALED))

    assert [info.step for info in open_dump(path).files] == [0, 1, 2]
    notes = open_dump(path).manifest.notes
    assert any(note.startswith("step 1: the optimizer changed nothing") for note in notes)
    got = Recorded.read(path, 2)
    assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)
    mean = got.array(Role.OUTPUT).astype(np.float32).mean()
    assert got.array(Role.LOSS) == pytest.approx(mean, rel=1e-2)


MOMENTS = """
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for step in range(2):
    model(ones(4, 3)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_what_an_optimizer_keeps_is_known_where_the_script_makes_it(tmp_path: Path) -> None:
    path = recorded(script(tmp_path, "torch", MOMENTS))

    with open_dump(path).open(1) as step:
        found = read_program(step)
    assert found is not None
    values = found.program.values
    update = [one for one in found.program.operators if one.phase is Phase.UPDATE]
    taken = {values[one].kind for operator in update for one in operator.taken}
    assert LeafKind.STATE in taken
    assert LeafKind.CONSTANT not in taken
    assert sum(one.name == "torch.Tensor.mul_" for one in update) == 2 * sum(
        one.name == "torch.Tensor.lerp_" for one in update
    )


SCHEDULED = """
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
def closure():
    optimizer.zero_grad()
    loss = model(ones(4, 3)).mean()
    loss.backward()
    return loss
for step in range(3):
    UPDATE
    schedule.step()
"""


def test_an_update_that_calls_the_model_is_recorded_as_one_that_comes_after(tmp_path: Path) -> None:
    dumps: list[Path] = []
    for update in ("closure(); optimizer.step()", "optimizer.step(closure)"):
        body = SCHEDULED.replace("UPDATE", update)
        dumps.append(recorded(script(tmp_path, "torch", body), name=f"m{len(dumps)}"))

    found = padiff.compare(dumps[0], dumps[1])

    assert found.verdict is Verdict.MATCH
    rates = [[Recorded.read(dump, step).array(Role.LR) for step in range(3)] for dump in dumps]
    assert rates[0] == rates[1] == [1e-3, 5e-4, 2.5e-4]
    for step in range(3):
        after, around = (
            [(one.role, one.slot) for one in Recorded.read(dump, step).index.records]
            for dump in dumps
        )
        assert sorted(after) == sorted(around)


WRAPPED = """
import warnings
model = Net()
whole = WRAP
optimizer = sgd(model)
for step in range(2):
    whole(ones(4, 3)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    "wrap",
    [
        "nn.DataParallel(model)",
        "torch.compile(model, backend='eager')",
        "torch.compile(nn.DataParallel(model), backend='aot_eager')",
    ],
)
def test_wrapped_model_is_looked_through(tmp_path: Path, wrap: str) -> None:
    path = recorded(script(tmp_path, "torch", WRAPPED.replace("WRAP", wrap)))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    assert open_dump(path).manifest.model_class == "__main__.Net"
    for number in range(2):
        got = Recorded.read(path, number)
        assert got.calls() == ["#0", "a#0", "b#0"]
        assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)


def test_model_compiled_in_place_runs_compiled_outside_recorded_steps(tmp_path: Path) -> None:
    body = f"""
import torch._dynamo
model = Net()
model.compile(backend="eager")
optimizer = sgd(model)
for step in range(3):
    model(ones(4, 3)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    note({str(tmp_path / "seen")!r}, str(torch._dynamo.utils.counters["frames"]["ok"]) + " ")
"""
    path = recorded(script(tmp_path, "torch", body), steps=(1,))

    assert Recorded.read(path, 1).calls() == ["#0", "a#0", "b#0"]
    first, second, third = (int(word) for word in (tmp_path / "seen").read_text().split())
    assert first > 0
    assert second == first <= third


def test_closure_that_an_optimizer_calls_is_one_step(tmp_path: Path) -> None:
    body = """
model = Net()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
for step in range(2):
    def closure():
        optimizer.zero_grad()
        loss = model(ones(4, 3)).pow(2).mean()
        loss.backward()
        return loss
    optimizer.step(closure)
    optimizer.zero_grad()
"""
    path = recorded(script(tmp_path, "torch", body))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    got = Recorded.read(path, 1)
    assert len([call for call in got.calls() if call.startswith("#")]) >= 3
    assert np.any(got.array(Role.WEIGHT_GRAD, "b", ".bias"))
    assert got.manifest.phase is Phase.UPDATE
