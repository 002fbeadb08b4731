"""What the optimizers of both frameworks keep is paired by whatever name, and updates match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.facts.optimizers import Optimizers
from padiff.dumpfile import Phase, Role

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ours: Any = torch.optim
theirs: Any = paddle.optimizer
Pair = tuple["Callable[[Any], Any]", "Callable[[Any], Any]"]
KINDS: dict[str, Pair] = {
    "adagrad": (
        lambda p: ours.Adagrad(p, 0.1, eps=1e-6),
        lambda p: theirs.Adagrad(0.1, epsilon=1e-6, parameters=p),
    ),
    "adadelta": (
        lambda p: ours.Adadelta(p, 1.0, rho=0.95, eps=1e-6),
        lambda p: theirs.Adadelta(1.0, epsilon=1e-6, rho=0.95, parameters=p),
    ),
    "adamax": (lambda p: ours.Adamax(p, 0.01), lambda p: theirs.Adamax(0.01, parameters=p)),
    "nadam": (lambda p: ours.NAdam(p, 0.01), lambda p: theirs.NAdam(0.01, parameters=p)),
    "radam": (lambda p: ours.RAdam(p, 0.01), lambda p: theirs.RAdam(0.01, parameters=p)),
    "amsgrad": (
        lambda p: ours.Adam(p, 0.01, amsgrad=True),
        lambda p: theirs.Adam(0.01, parameters=p, amsgrad=True),
    ),
    "rmsprop": (
        lambda p: ours.RMSprop(p, 0.01, 0.95, 1e-12, momentum=0.9, centered=True),
        lambda p: theirs.RMSProp(0.01, 0.95, 1e-24, 0.9, centered=True, parameters=p),
    ),
    "groups": (
        lambda p: ours.AdamW(
            [{"params": p[:1], "lr": 0.02, "weight_decay": 0.2}, {"params": p[1:]}],
            lr=0.01,
            weight_decay=0.1,
        ),
        lambda p: theirs.AdamW(
            0.01,
            weight_decay=0.1,
            parameters=[
                {"params": p[:1], "learning_rate": 2.0, "weight_decay": 0.2},
                {"params": p[1:]},
            ],
        ),
    ),
}


def _trained(tmp_path: Path, kind: str, factor: float = 1.0) -> list[Path]:
    """Record five steps of both frameworks; the second one's loss is multiplied."""
    torch.manual_seed(0)
    module: Any = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    layer: Any = paddle.nn.Sequential(
        paddle.nn.Linear(6, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 3)
    )
    padiff.assign_weight(module, layer)
    random = np.random.default_rng(0)
    batches = [random.standard_normal((16, 6)).astype(np.float32) for _ in range(5)]
    paths = []
    for side, (model, make) in enumerate(zip((module, layer), KINDS[kind], strict=True)):
        optimizer = make(list(model.parameters()))
        with padiff.record(
            model, name=f"side{side}", out=tmp_path, optimizer=optimizer
        ) as recorder:
            for batch in batches:
                x: Any = torch.tensor(batch) if side == 0 else paddle.to_tensor(batch)
                loss = (model(x) ** 2).mean() * (factor if side else 1.0)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad() if side == 0 else optimizer.clear_grad()
                recorder.step(loss=loss)
        paths.append(recorder.path)
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_five_steps_of_an_optimizer_match(tmp_path: Path, kind: str) -> None:
    paths = _trained(tmp_path, kind)

    comparison = compare(paths[0], paths[1], CompareSettings())

    assert comparison.verdict is Verdict.MATCH, comparison.reasons
    kept = [
        pair.verdict
        for pair in comparison.steps[-1].pairs
        if pair.reference is not None and pair.reference.address.role is Role.OPTIMIZER_STATE
    ]
    assert Verdict.MATCH in kept


def test_options_that_are_no_numbers_are_left_out() -> None:
    told: dict[str, Any] = {"options": {"eps": [1e-8], "alpha": 0.9}, "weights": ["w", ["x"]]}
    settings: dict[str, Any] = {
        "optimizers": [3, {"groups": 4}, {"class": "a.B", "groups": [None, {"options": 1}, told]}]
    }

    read = Optimizers.read(settings, {"optimizers": "none"})

    assert {name: one.options for name, one in read.reference.items()}["w"] == {"alpha": 0.9}
    assert read.candidate == {}


def test_an_update_that_differs_by_design_is_no_origin_beside_a_fault(tmp_path: Path) -> None:
    paths = _trained(tmp_path, "adamax", factor=1.5)

    comparison = compare(paths[0], paths[1], CompareSettings())

    assert {one.phase for one in comparison.origins} == {Phase.FORWARD}
