"""BatchNorms whose settings differ: each is an origin, and the settings say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import CompareSettings, Comparison, compare
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from pathlib import Path


def compared(tmp_path: Path, momentum: float, *, eps: float = 1e-5, steps: int = 1) -> Comparison:
    """Train two nets alike of which both norms are set otherwise."""
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    for name, own, epsilon in (("reference", 0.1, 1e-5), ("candidate", momentum, eps)):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=own, eps=epsilon), nn.ReLU(),
            nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4, momentum=own), nn.Flatten(),
        )  # fmt: skip
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with padiff.record(model, name=name, out=tmp_path, optimizer=optimizer) as recorder:
            for _ in range(steps):
                optimizer.zero_grad()
                model(images).square().mean().backward()
                optimizer.step()
                recorder.step()
    return compare(tmp_path / "reference", tmp_path / "candidate", CompareSettings())


def origins(found: Comparison) -> list[tuple[Phase, str]]:
    ends = [(one.phase, one.pair.reference) for one in found.origins]
    return [(phase, end.address.module) for phase, end in ends if end is not None]


def test_each_norm_with_another_momentum_is_an_origin(tmp_path: Path) -> None:
    found = compared(tmp_path, 0.9)

    assert origins(found) == [(Phase.UPDATE, "1"), (Phase.UPDATE, "4")]
    for origin in found.origins:
        assert origin.evidence[0].startswith("attribute momentum: 0.1 on the reference, 0.9")
    assert not any("no origin" in note for note in found.steps[0].notes)


def test_statistics_of_what_diverged_are_no_origin(tmp_path: Path) -> None:
    found = compared(tmp_path, 0.1, eps=1e-2)

    assert origins(found) == [(Phase.FORWARD, "1")]


@pytest.mark.parametrize("momentum", [0.9, 0.5])
def test_no_scale_is_missing_where_the_momentum_differs(tmp_path: Path, momentum: float) -> None:
    found = compared(tmp_path, momentum, steps=2)

    said = [line for one in found.origins for line in one.evidence]
    assert said
    assert not [line for line in said if "times the reference" in line]


@pytest.mark.filterwarnings("ignore:When training")
def test_a_momentum_that_a_kernel_takes_in_float32_is_told_by_its_name(tmp_path: Path) -> None:
    net, port = nn.BatchNorm1d(4), paddle.nn.BatchNorm1D(4, momentum=0.1)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    pairs: list[tuple[str, Any, Any]] = [
        ("reference", net, x),
        ("candidate", port, paddle.to_tensor(x.numpy())),
    ]
    for name, model, data in pairs:
        with padiff.record(model, name=name, out=tmp_path):
            (model(data) * data).mean().backward()

    found = padiff.compare(tmp_path / "reference", tmp_path / "candidate")

    assert found.first is not None
    assert found.first.cause.startswith("proved: momentum of batch_norm: ")
