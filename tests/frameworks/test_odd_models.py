"""Odd models in one process: several inputs, in-place changes, dicts, wrappers, low precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff import auto_diff

if TYPE_CHECKING:
    from pathlib import Path


class Plain(torch.nn.Module):
    """A residual block and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.linear1 = torch.nn.Linear(100, 100)
        self.linear2 = torch.nn.Linear(100, 10)

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        return self.linear2(torch.relu(self.linear1(x)) + x)


class Odd(torch.nn.Module):
    """Takes several inputs, changes one of them, and gives a dict."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.table, self.linear = torch.nn.Embedding(10, width), torch.nn.Linear(width, width)

    def forward(self, ids: Any, scale: Any, *, mask: Any = None) -> dict[str, Any]:  # noqa: ANN401
        hidden = self.linear(self.table(ids)) * scale.add_(1.0)
        if mask is not None:
            hidden = hidden.masked_fill(mask, 0.0)
        return {"hidden": hidden, "ids": ids, "parts": [hidden.sum(), None]}


class OddLayer(paddle.nn.Layer):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.table, self.linear = paddle.nn.Embedding(10, width), paddle.nn.Linear(width, width)

    def forward(self, ids: Any, scale: Any, *, mask: Any = None) -> dict[str, Any]:  # noqa: ANN401
        hidden = self.linear(self.table(ids)) * scale.add_(paddle.to_tensor(1.0))
        if mask is not None:
            hidden = paddle.where(mask, paddle.zeros_like(hidden), hidden)
        return {"hidden": hidden, "ids": ids, "parts": [hidden.sum(), None]}


IDS = np.arange(6).reshape(2, 3)
SCALE = np.full((2, 3, 1), 1.5)


@pytest.mark.parametrize("kinds", [(Odd, OddLayer), (OddLayer, Odd), (Odd, Odd)])
@pytest.mark.parametrize("single_step", [False, True])
def test_models_with_several_integer_and_changed_inputs(
    kinds: tuple[type[Any], type[Any]],
    single_step: bool,
) -> None:
    mask = np.zeros((2, 3, 8), bool)
    mask[0, 0] = True
    inputs = {"ids": IDS, "scale": SCALE, "mask": mask}

    result = auto_diff(
        kinds[0](), kinds[1](), (inputs, dict(inputs)), single_step=single_step, quiet=True
    )

    assert result, result.reasons


def test_tensors_of_the_caller_stay_as_they_are() -> None:
    scale = torch.tensor(SCALE, dtype=torch.float32)
    positional = (torch.tensor(IDS), scale)

    assert auto_diff(Odd(), OddLayer(), (positional, positional), quiet=True)

    np.testing.assert_array_equal(scale.numpy(), SCALE)


def test_frozen_models_have_no_backward_pass() -> None:
    models = Plain(), Plain()
    for parameter in [*models[0].parameters(), *models[1].parameters()]:
        parameter.requires_grad = False
    x = {"x": torch.rand(100, 100)}

    result = auto_diff(*models, (x, x), quiet=True)

    assert result
    assert "no gradient" in " ".join(result.reference.notes)


def test_half_frozen_models_and_stale_gradients() -> None:
    models = Plain(), Plain()
    for model in models:
        model.linear1.weight.requires_grad = False
    x = {"x": torch.rand(100, 100)}
    models[1](**x).sum().backward()

    for _ in range(2):
        assert auto_diff(*models, (x, x), quiet=True)
    assert models[1].linear2.weight.grad is None


def test_bfloat16_models() -> None:  # Paddle's CPU build multiplies no bfloat16 matrices
    x = np.random.default_rng(0).random((4, 100)).astype(np.float32)

    result = auto_diff(Plain().bfloat16(), Plain().bfloat16(), ([x], [x]), quiet=True)

    assert result, result.reasons
    assert result.reference.dtype == "bfloat16"


def test_both_dumps_are_kept_where_they_are_wanted(tmp_path: Path) -> None:
    x = {"x": torch.rand(100, 100)}

    for _ in range(2):
        auto_diff(Plain(), Plain(), (x, x), out=tmp_path, quiet=True)

    assert padiff.open_dump(tmp_path / "reference").files
    assert padiff.open_dump(tmp_path / "candidate").files
