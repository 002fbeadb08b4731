"""Models whose products are taken in half precision, against the same in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.judging.basis import model_dtype
from padiff.comparer.result import Verdict
from padiff.dumpfile import Phase, open_dump
from tests.support.located import compare_dumps

if TYPE_CHECKING:
    from pathlib import Path


def trained(folder: Path, name: str, *, half: bool, eps: float = 1e-5, clip: float = 1.0) -> Path:
    """Train two steps with AdamW; under autocast norms, the loss and the weights stay float32."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 64),
        nn.LayerNorm(64, eps),
        nn.GELU(),
        nn.Linear(64, 64),
        nn.Linear(64, 4),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    given, labels = torch.randn(32, 16), torch.randint(0, 4, (32,))
    with padiff.record(model, name=name, out=folder, optimizer=optimizer) as recorder:
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                loss = nn.functional.cross_entropy(model(given), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
            recorder.step(loss=loss)
    return recorder.path


@pytest.mark.parametrize(("half", "dtype"), [(False, "float32"), (True, "bfloat16")])
def test_precision_of_a_model_is_that_of_its_products(
    half: bool, dtype: str, tmp_path: Path
) -> None:
    with open_dump(trained(tmp_path, "m", half=half)).open(0, 0) as step:
        assert model_dtype(step.index) == dtype


def test_training_under_autocast_matches_float32(tmp_path: Path) -> None:
    paths = [trained(tmp_path, str(half), half=half) for half in (False, True)]

    found = compare_dumps(*paths)

    assert found.verdict is Verdict.MATCH, found.reasons


@pytest.mark.parametrize(
    ("fault", "phase"), [({"eps": 0.1}, Phase.FORWARD), ({"clip": 0.2}, Phase.BACKWARD)]
)
def test_fault_under_autocast_is_found(fault: dict[str, Any], phase: Phase, tmp_path: Path) -> None:
    reference = trained(tmp_path, "reference", half=False)
    candidate = trained(tmp_path, "candidate", half=True, **fault)

    first = compare_dumps(reference, candidate).origins[0]

    end = first.pair.reference
    assert end is not None
    assert (end.address.step, first.phase) == (0, phase)
    assert end.address.module == {Phase.FORWARD: "1", Phase.BACKWARD: "4"}[phase]


def test_gradient_of_a_weight_that_runs_often_is_one_origin(tmp_path: Path) -> None:
    paths = []
    for name, factor in (("reference", 1.0), ("candidate", 2.0)):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            for given in torch.ones(3, 2, 4).unbind():
                model(given).sum().backward()
            assert model.weight.grad is not None
            model.weight.grad.mul_(factor)
        paths.append(recorder.path)

    found = compare_dumps(*paths)

    shown = [one.pair.reference for one in found.divergences]
    assert len(shown) == len(set(shown)) == 1
