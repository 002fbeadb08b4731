"""PaDiff's own functions, by two dumps and one comparison."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.dumpfile import ConfigError, Phase

if TYPE_CHECKING:
    from padiff.comparing import Comparison


class SimpleLayer(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear1, self.linear2 = paddle.nn.Linear(20, 20), paddle.nn.Linear(20, 10)
        self.act = paddle.nn.ReLU()

    def forward(self, x: paddle.Tensor) -> Any:  # noqa: ANN401
        return self.linear2(self.act(self.linear1(x)) + x)


class SimpleModule(torch.nn.Module):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.linear1, self.linear2 = torch.nn.Linear(20, 20), torch.nn.Linear(20, 10)
        self.act = torch.nn.ReLU()

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        return self.linear2(self.act(self.linear1(x)) + x * self.scale)


def diff(*models: Any, **options: Any) -> Comparison:  # noqa: ANN401
    x = np.random.default_rng(0).standard_normal((8, 20)).astype(np.float32)
    inputs = [
        {"x": torch.as_tensor(x) if isinstance(model, torch.nn.Module) else paddle.to_tensor(x)}
        for model in models
    ]
    reference, candidate = models
    return padiff.auto_diff(reference, candidate, inputs, quiet=True, **options)


@pytest.mark.parametrize(
    "kinds",
    [
        (SimpleLayer, SimpleModule),
        (SimpleModule, SimpleLayer),
        (SimpleModule, SimpleModule),
        (SimpleLayer, SimpleLayer),
    ],
)
@pytest.mark.parametrize("mode", ["strict", "mean"])
def test_equal_models_match(kinds: tuple[type[Any], type[Any]], mode: str) -> None:
    assert diff(kinds[0](), kinds[1](), compare_mode=mode)


def test_other_models_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    result = diff(SimpleLayer(), SimpleModule(scale=1.1))

    assert not result
    assert result.first_divergence is not None
    assert capsys.readouterr().out == ""


def test_report_is_printed_unless_it_is_unwanted(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(2, 20)

    padiff.auto_diff(SimpleModule(), SimpleModule(), ({"x": x}, {"x": x}))

    assert capsys.readouterr().out.startswith("MATCH")


def test_options_may_come_by_their_old_names_in_a_dict() -> None:
    losses = [
        partial(lambda out, label: ((out - paddle.to_tensor(label)) ** 2).mean(), label=[0.5]),
        partial(lambda out, label: ((out - torch.tensor(label)) ** 2).mean(), label=[0.5]),
    ]

    assert diff(
        SimpleLayer(),
        SimpleModule(),
        auto_weights=True,
        options={"atol": 1e-4, "rtol": 0.0, "compare_mode": "strict", "single_step": False},
        loss_fn=losses,
    )


def test_optimizers_run_several_steps() -> None:
    layer, module = SimpleLayer(), SimpleModule()

    result = diff(
        layer,
        module,
        steps=3,
        optimizers=[
            paddle.optimizer.Adam(0.001, parameters=layer.parameters()),
            torch.optim.Adam(module.parameters(), 0.001),
        ],
    )

    assert result
    assert [step.step for step in result.steps] == [0, 1, 2]


def test_functions_may_update_the_weights() -> None:
    models = SimpleModule(), SimpleModule()
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]

    def update(optimizer: torch.optim.Optimizer) -> None:
        optimizer.step()
        optimizer.zero_grad()

    result = diff(*models, steps=2, optimizers=[partial(update, one) for one in optimizers])

    assert result
    assert result.reference.phase is Phase.UPDATE


@pytest.mark.parametrize("phase", ["forward", "backward", "both"])
@pytest.mark.parametrize("mode", ["strict", "mean"])
def test_single_step_judges_each_module_by_itself(phase: str, mode: str) -> None:
    options = {"single_step": True, "diff_phase": phase, "compare_mode": mode}

    assert diff(SimpleLayer(), SimpleModule(), **options)
    other = diff(SimpleLayer(), SimpleModule(scale=1.1), **options)
    assert not other
    assert "fed" in " ".join(other.candidate.notes)


def test_phase_forward_runs_no_backward() -> None:
    result = diff(SimpleLayer(), SimpleModule(), diff_phase="forward")

    assert result
    assert result.reference.phase is Phase.FORWARD


def test_without_auto_init_the_weights_stay() -> None:
    assert not diff(SimpleLayer(), SimpleModule(), auto_init=False)


@pytest.mark.parametrize(
    "options",
    [{"atoll": 1.0}, {"compare_mode": "loose"}, {"steps": 0}, {"loss_fns": [None]}],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        diff(SimpleLayer(), SimpleModule(), **options)


def test_create_model_gives_the_model() -> None:
    model = SimpleModule()

    assert padiff.create_model(model, name="m") is model


def test_loaders_that_differ_are_found() -> None:
    one = [[paddle.ones([2, 3]), np.arange(2)], [paddle.zeros([2, 3]), np.arange(2)]]
    two = [[torch.ones(2, 3), np.arange(2)], [torch.zeros(2, 3), np.arange(2)]]

    assert padiff.check_dataloader(one, two, quiet=True)
    assert not padiff.check_dataloader(one, two[:1], quiet=True)
    other = padiff.check_dataloader(one, [two[0], two[0]], quiet=True)
    assert other.first_divergence is not None
    assert other.first_divergence.pair.reference is not None
    assert other.first_divergence.pair.reference.address.step == 1


@pytest.mark.parametrize(
    ("counts", "short", "long"),
    [((3, 2), "candidate", "reference"), ((2, 5), "reference", "candidate")],
)
def test_loader_that_ends_early_is_named_with_its_batch(
    counts: tuple[int, int], short: str, long: str, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = [np.ones((2, 3), np.float32), np.arange(2)]
    reference, candidate = ([batch] * count for count in counts)

    found = padiff.check_dataloader(reference, candidate)

    reason = f"the {short}'s loader ended before batch 2, which the {long}'s gave"
    assert str(found.reasons[0]) == reason
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert (first, second.strip()) == (
        "DIVERGED: no difference in 4 arrays, but not all is on both sides",
        reason,
    )


def test_seed_reaches_all_generators() -> None:
    def draw() -> list[float]:
        padiff.seed_everything(5, deterministic=False)
        drawn = [float(torch.rand(())), float(paddle.rand([]))]
        return [random.random(), float(np.random.rand()), *drawn]  # noqa: NPY002

    assert draw() == draw()
    with pytest.raises(ConfigError):
        padiff.seed_everything(-1)
