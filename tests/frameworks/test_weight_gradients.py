"""Scripts that clip, scale or forget to clear gradients: the right match, the rest is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.decided import ON_THE_WAY, OTHERWISE
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumper import adapters
from padiff.dumpfile import Phase, Role, open_dump
from padiff.program import LeafKind, read_program
from tests.support.paddle_lab import PaddleLab
from tests.support.torch_lab import TorchLab

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.recording import Lab

LIMIT = 0.05


@dataclass(frozen=True, kw_only=True)
class Script:
    """What a training script does with its gradients."""

    framework: str = "torch"
    clips: bool = False
    """In the loop, by ``clip_grad_norm_``."""
    optimizer_clips: bool = False
    """By Paddle's ``grad_clip``."""
    clears: bool = True
    scale: float = 1.0
    """Left on the gradients."""
    share: float = 1.0
    """Of the loss that is taken."""


def record(folder: Path, name: str, script: Script) -> Path:
    lab: Lab = TorchLab() if script.framework == "torch" else PaddleLab()
    model = lab.module(
        lambda self, x: self.b(self.a(x)), a=lab.nn.Linear(3, 4), b=lab.nn.Linear(4, 2)
    )
    random = np.random.default_rng(3)
    adapter = adapters.load(script.framework)
    for path, child in lab.modules(model):
        for parameter in (child.weight, child.bias) if path else ():
            size = tuple(parameter.shape)
            is_turned = script.framework == "paddle"
            array = random.standard_normal(size[::-1] if is_turned else size)
            adapter.assign(parameter, (array.T if is_turned else array).astype(np.float32))
    parameters = list(model.parameters())
    if script.framework == "torch":
        optimizer: Any = torch.optim.SGD(parameters, 0.1, momentum=0.9)
        clip: Any = torch.nn.utils.clip_grad_norm_
    else:
        inside = paddle.nn.ClipGradByGlobalNorm(LIMIT) if script.optimizer_clips else None
        optimizer = paddle.optimizer.Momentum(0.1, 0.9, parameters, grad_clip=inside)
        clip = paddle.nn.utils.clip_grad_norm_
    with padiff.record(model, name=name, out=folder, optimizer=optimizer) as recorder:
        for step in range(3):
            x = np.random.default_rng(step).standard_normal((5, 3)).astype(np.float32)
            loss = lab.mean(model(lab.tensor(x)) ** 2) * script.share
            loss.backward()
            if script.scale != 1.0:
                for parameter in parameters:
                    gradient = parameter.grad
                    adapter.assign(gradient, adapter.snapshot(gradient) * np.float32(script.scale))
            if script.clips:
                clip(parameters, LIMIT)
            optimizer.step()
            if script.clears:
                lab.clear_gradients(model)
            recorder.step(loss=loss)
    return recorder.path


def compared(folder: Path, reference: Script, candidate: Script) -> Comparison:
    known, found = record(folder, "known", reference), record(folder, "found", candidate)
    return compare(known, found, CompareSettings())


SCRIPT = Script(framework="torch", clips=True)
OPTIMIZER = Script(framework="paddle", optimizer_clips=True)


@pytest.mark.parametrize(
    ("reference", "candidate"), [(SCRIPT, OPTIMIZER), (OPTIMIZER, SCRIPT)], ids=["torch", "paddle"]
)
def test_clip_in_the_loop_is_the_clip_in_the_optimizer(
    tmp_path: Path, reference: Script, candidate: Script
) -> None:
    comparison = compared(tmp_path, reference, candidate)

    assert comparison.verdict is Verdict.MATCH, comparison.reasons
    assert comparison.scope.proven == 3
    skipped = [pair for pair in comparison.steps[0].pairs if pair.verdict is Verdict.SKIPPED]
    assert {pair.reason for pair in skipped} == {OTHERWISE}


@pytest.mark.parametrize("reference", ["torch", "paddle"])
def test_clips_by_two_formulas_match_where_what_they_leave_agrees(
    tmp_path: Path, reference: str
) -> None:
    """Torch adds 1e-6 to the norm, Paddle does not, which shows where the norm is small."""
    scripts = [replace(SCRIPT, share=0.1), replace(OPTIMIZER, share=0.1)]
    comparison = compared(tmp_path, *(scripts if reference == "torch" else scripts[::-1]))

    assert comparison.verdict is Verdict.MATCH, comparison.reasons
    assert comparison.scope.loosened == 3
    skipped = [pair for pair in comparison.steps[0].pairs if pair.verdict is Verdict.SKIPPED]
    assert {pair.reason for pair in skipped} == {ON_THE_WAY}


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (Script(), "proved: left out: _foreach_norm"),
        (Script(framework="paddle"), "another update: a.weight"),
        (Script(framework="paddle", clips=True, scale=0.001), "not the reference's: gradient a."),
    ],
    ids=["not clipped", "not clipped, in Paddle", "scaled"],
)
def test_what_was_done_to_all_gradients_is_told_once(
    tmp_path: Path, candidate: Script, said: str
) -> None:
    comparison = compared(tmp_path, SCRIPT, candidate)

    (origin,) = comparison.origins
    assert origin.pair.reference is not None
    address = origin.pair.reference.address
    assert (address.step, origin.phase, address.role) == (0, Phase.BACKWARD, Role.WEIGHT_GRAD)
    assert any(line.startswith(said) for line in evidence_of(origin))


@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_gradient_that_holds_that_of_the_step_before_is_told(tmp_path: Path, side: str) -> None:
    scripts = [Script(), Script(framework="paddle")]
    place = ["reference", "candidate"].index(side)
    scripts[place] = Script(framework=scripts[place].framework, clears=False)

    comparison = compared(tmp_path, *scripts)

    (origin,) = comparison.origins
    assert origin.pair.reference is not None
    assert origin.pair.reference.address.step == 1
    assert evidence_of(origin)[0].startswith("not the reference's: gradient a.weight")


def test_clipped_gradients_that_differ_stay_diverged(tmp_path: Path) -> None:
    comparison = compared(tmp_path, Script(clips=True, scale=0.001), OPTIMIZER)

    assert comparison.verdict is Verdict.DIVERGED


MICRO_BATCHES = 3


def accumulated(folder: Path, name: str, *, divisor: int, at_once: bool, is_told: bool) -> Path:
    """Record a step of several micro-batches.

    Args:
        folder: Where the dump goes.
        name: Of the dump.
        divisor: What their losses are divided by.
        at_once: Whether one backward pass is of the sum of all losses.
        is_told: Whether the mean of the losses is recorded.
    """
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    random = np.random.default_rng(0)
    with padiff.record(model, name=name, out=folder, optimizer=optimizer) as recorder:
        losses: list[Any] = []
        for _ in range(MICRO_BATCHES):
            x = torch.from_numpy(random.standard_normal((5, 4)).astype(np.float32))
            losses.append(model(x).square().mean())
            if not at_once:
                (losses[-1] / divisor).backward()
        total: Any = torch.stack(losses)
        if at_once:
            (total.sum() / divisor).backward()
        optimizer.step()
        recorder.step(loss=total.mean() if is_told else None)
    return recorder.path


def test_gradients_of_several_backward_passes_are_recorded_as_their_sum(tmp_path: Path) -> None:
    path = accumulated(tmp_path, "each", divisor=3, at_once=False, is_told=False)

    with open_dump(path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        records = (one for one in file.index.records if one.role is Role.WEIGHT_GRAD)
        rows = [one.value for one in records]
        values = [one.id for one in recorded.program.values if one.kind is LeafKind.PARAMETER]

    assert sorted(map(str, map(recorded.gradient_row, values))) == sorted(map(str, rows))


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not told"])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_losses_that_are_divided_otherwise_are_no_rounding(
    tmp_path: Path, *, at_once: bool, is_told: bool
) -> None:
    reference, right, wrong = (
        accumulated(tmp_path, name, divisor=divisor, at_once=one, is_told=is_told)
        for name, divisor, one in (("known", 3, False), ("right", 3, at_once), ("off", 4, at_once))
    )

    found = [compare(reference, other, CompareSettings()) for other in (right, wrong)]

    assert [one.verdict for one in found] == [Verdict.MATCH, Verdict.DIVERGED]
    counted = f"the reference has {MICRO_BATCHES} of them, the candidate 1"
    is_said = any(counted in note for note in found[0].steps[0].notes)
    assert is_said is (at_once and not is_told)
