"""Gradients that a softmax leaves next to nothing of are rounding, and not blamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.auditing import Check, Soundness
from tests.frameworks.test_audit import audited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Attention(nn.Module):
    """Attention in one of several forms; the last module makes its result."""

    def __init__(self, form: str, *, sharpness: float, wrong: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.softmax, self.out = nn.Softmax(-1), nn.Linear(8, 8)
        self.form, self.sharpness, self.wrong = form, sharpness, wrong

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x) * self.sharpness, self.key(memory), self.value(memory)
        if self.wrong != 1:
            query.register_hook(lambda gradient: gradient * self.wrong)
        if self.form == "fused":
            mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        elif self.form == "causal":
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        elif self.form == "module":
            mixed = self.softmax(query @ key.mT) @ value
        elif self.form == "logarithm":
            mixed = torch.log_softmax(query @ key.mT, -1) @ value
        else:
            mixed = torch.softmax(query @ key.mT / 8**0.5, -1) @ value
        made: torch.Tensor = self.out(mixed)
        return made


def _inputs(keys: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {"x": torch.randn(2, 5, 8), "memory": torch.randn(2, keys, 8)}


@pytest.mark.parametrize(("keys", "sharpness"), [(1, 1.0), (1, 100.0), (4, 100.0), (4, 1e4)])
@pytest.mark.parametrize("form", ["fused", "causal", "written", "module", "logarithm"])
def test_next_to_nothing_is_not_blamed(
    form: str, keys: int, sharpness: float, tmp_path: Path
) -> None:
    model = _Attention(form, sharpness=sharpness)

    found = audited(model, tmp_path, _inputs(keys))

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.NOT_AUDITED) == 0


@pytest.mark.parametrize("form", ["fused", "causal", "written", "module", "logarithm"])
def test_a_wrong_gradient_before_a_softmax_is_found(form: str, tmp_path: Path) -> None:
    model = _Attention(form, sharpness=3.0, wrong=1.001)

    found = audited(model, tmp_path, _inputs(4))

    assert [one.module for one in found.unsound][:1] == ["query"]


class _Returning(nn.Module):
    """Attention that also returns the weights that it goes on with inside."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed, weights = self.attention(x, x, x, average_attn_weights=False)
        return torch.cat([mixed.flatten(), 3.0 * weights.flatten()])


class _Steps(nn.Module):
    """A cell whose second state is also what its first one is made of: that is one tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.LSTMCell(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for step in x:
            state = self.cell(step, state)
        return torch.cat(state or ())


class _Shares(nn.Module):
    """Members whose shares add up to one, whatever their weights: no gradient is left."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.members = nn.Parameter(torch.randn(3, 12, 8) * 0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.stack([torch.tanh(x @ one.T) for one in self.members])
        return made.softmax(0).mean(0)[:, :2]


def test_nothing_at_all_is_not_blamed(tmp_path: Path) -> None:
    found = audited(_Shares(), tmp_path, {"x": _inputs(4)["x"]})

    assert found.unsound == ()


@pytest.mark.parametrize("model", [_Returning, _Steps])
def test_gradients_of_two_results_of_one_operator_are_not_blamed(
    model: Callable[[], nn.Module], tmp_path: Path
) -> None:
    draw = torch.Generator().manual_seed(1)
    found = audited(model(), tmp_path, {"x": torch.randn(5, 2, 8, generator=draw)})

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.NOT_AUDITED) == 0


@pytest.mark.parametrize("form", ["fused", "written", "module"])
def test_tokens_that_are_all_the_same_round_alike_and_are_not_blamed(
    form: str, tmp_path: Path
) -> None:
    model = _Attention(form, sharpness=1.0)
    token = torch.linspace(-1, 1, 8).sin()
    inputs = {"x": token.expand(2, 5, 8), "memory": token.expand(2, 600, 8)}

    found = audited(model, tmp_path, inputs)

    assert [one.module for one in found.unsound] == []


class _PaddleAttention(paddle.nn.Layer):
    """Attention of one layer, which may return its weights."""

    def __init__(self, *, sharpness: float = 1.0) -> None:
        super().__init__()
        self.attention = paddle.nn.MultiHeadAttention(8, 2, need_weights=True)
        self.sharpness = sharpness

    def forward(self, x: paddle.Tensor, keep: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        mixed, weights = self.attention(self.sharpness * x, x, x, keep.unsqueeze([1, 2]))
        return mixed, weights


class _TorchAttention(nn.Module):
    """The same of torch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mixed, weights = self.attention(x, x, x, ~keep, average_attn_weights=False)
        return mixed, weights


def test_weights_of_masked_keys_that_a_kernel_does_not_let_be_zero_match() -> None:
    x, keep = torch.randn(2, 5, 8), torch.arange(5) < torch.tensor([[5], [3]])
    own = paddle.to_tensor(x.numpy()), paddle.to_tensor(keep.numpy())

    found = padiff.auto_diff(_TorchAttention(), _PaddleAttention(), ((x, keep), own), quiet=True)

    assert found.verdict is Verdict.MATCH, found.report()


def test_next_to_nothing_behind_a_least_exponent_is_not_blamed(tmp_path: Path) -> None:
    paddle.seed(0)
    model, x = _PaddleAttention(sharpness=3e3), paddle.randn([2, 5, 8])

    with padiff.record(model, name="model", out=tmp_path) as recorder:
        model(x, paddle.ones([2, 5], "bool"))[0].square().mean().backward()
    found = padiff.audit(recorder.path)["step 0"]

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.NOT_AUDITED) == 0
