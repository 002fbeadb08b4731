"""What a step leaves in buffers is recorded and judged, also where no optimizer ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.comparer import CompareSettings, Comparison, Kind, Verdict, compare
from padiff.dumpfile import Phase, Role, open_dump
from tests.support.paddle_lab import PaddleLab
from tests.support.torch_lab import TorchLab

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.recording import Lab, Thing

# Paddle says so at each training-mode BatchNorm whose track_running_stats was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")
LABS: tuple[Lab, ...] = (TorchLab(), PaddleLab())
IMAGE = np.random.default_rng(0).standard_normal((4, 3, 5, 5), np.float32)


def ran(lab: Lab, model: Thing, path: Path, name: str, *, training: bool = True) -> Path:
    """Record one forward pass."""
    model.train() if training else model.eval()
    with padiff.record(model, name=name, out=path) as recorder:
        model(lab.tensor(IMAGE))
    return recorder.path


def compared(tmp_path: Path, reference: Thing, candidate: Thing, **options: bool) -> Comparison:
    """Compare one forward pass of two torch models."""
    lab = TorchLab()
    return compare(
        ran(lab, reference, tmp_path, "reference", **options),
        ran(lab, candidate, tmp_path, "candidate", **options),
        CompareSettings(),
    )


def average(update: Callable[[Thing, Thing], Thing]) -> Thing:
    """Build a torch model that keeps an average of its inputs under the same name."""

    def forward(self: Thing, x: Thing) -> Thing:
        self.mean = update(self.mean, x.detach().mean())
        return self.scale(x)

    model = TorchLab().module(forward, scale=torch.nn.Conv2d(3, 3, 1))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    model.register_buffer("mean", torch.ones(()))
    return model


def right(mean: Thing, new: Thing) -> Thing:
    return 0.9 * mean + 0.1 * new


def wrong_sign(mean: Thing, new: Thing) -> Thing:
    return 0.9 * mean - 0.1 * new


def forgotten(mean: Thing, new: Thing) -> Thing:
    del new
    return mean


def first(comparison: Comparison) -> tuple[Phase, Role, str]:
    """Give phase, role and slot of the first divergence, which must be an origin."""
    found = comparison.first_divergence
    assert found is not None
    assert found.kind is Kind.ORIGIN
    end = found.pair.reference or found.pair.candidate
    assert end is not None
    return found.phase, end.address.role, end.address.slot


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fault", [wrong_sign, forgotten])
def test_average_that_is_updated_otherwise_diverges(
    tmp_path: Path, fault: Callable[[Thing, Thing], Thing], training: bool
) -> None:
    comparison = compared(tmp_path, average(right), average(fault), training=training)

    assert comparison.verdict is Verdict.DIVERGED
    assert first(comparison) == (Phase.UPDATE, Role.BUFFER, ".mean")


def test_average_that_a_port_in_another_tree_forgets_diverges(tmp_path: Path) -> None:
    port = average(forgotten)
    port.scale = torch.nn.Sequential(port.scale, torch.nn.Identity())

    comparison = compared(tmp_path, average(right), port, training=False)

    assert comparison.verdict is Verdict.DIVERGED
    assert not comparison.steps[0].same_structure


def test_buffer_that_only_one_side_records_again_is_the_same_if_it_stayed(tmp_path: Path) -> None:
    paths = [
        ran(TorchLab(), average(forgotten), tmp_path, f"training_{training}", training=training)
        for training in (True, False)
    ]

    comparison = compare(paths[0], paths[1], CompareSettings())

    assert comparison.verdict is Verdict.MATCH, comparison.reasons


@pytest.mark.parametrize("training", [True, False])
def test_average_that_is_updated_alike_matches(tmp_path: Path, training: bool) -> None:
    comparison = compared(tmp_path, average(right), average(right), training=training)

    assert comparison.verdict is Verdict.MATCH, comparison.reasons


def compared_norms(tmp_path: Path, momentum: float) -> Comparison:
    """Compare one training-mode forward pass of torch's BatchNorm and Paddle's."""
    paths = []
    layers = torch.nn.BatchNorm2d(3), paddle.nn.BatchNorm2D(3, momentum=momentum)
    for lab, layer in zip(LABS, layers, strict=True):
        model = lab.module(lambda self, x: self.norm(x), norm=layer)
        paths.append(ran(lab, model, tmp_path, lab.name))
    return compare(paths[0], paths[1], CompareSettings())


def test_momentum_of_a_batch_norm_is_seen_in_a_single_forward_pass(tmp_path: Path) -> None:
    comparison = compared_norms(tmp_path, 0.1)

    assert comparison.verdict is Verdict.DIVERGED
    assert first(comparison)[:2] == (Phase.UPDATE, Role.BUFFER)
    found = comparison.first_divergence
    assert found is not None
    assert "torch's 0.1 is paddle's 0.9" in " | ".join(found.evidence)


def test_right_batch_norm_matches_in_a_single_forward_pass(tmp_path: Path) -> None:
    comparison = compared_norms(tmp_path, 0.9)

    assert comparison.verdict is Verdict.MATCH, comparison.reasons


def test_buffers_that_inference_leaves_alone_are_recorded_once(tmp_path: Path) -> None:
    model = TorchLab().module(lambda self, x: self.norm(x), norm=torch.nn.BatchNorm2d(3))

    path = ran(TorchLab(), model, tmp_path, "still", training=False)

    with open_dump(path).open(0, 0) as step:
        phases = {record.phase for record in step.index.records if record.role is Role.BUFFER}
    assert phases == {Phase.FORWARD}
