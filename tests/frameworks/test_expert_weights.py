"""Mixtures of experts: the stacks of transformers against lists of Linears, in both frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from transformers import GptOssConfig, MixtralConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
from transformers.models.mixtral.modeling_mixtral import MixtralExperts

from padiff.dumper.weights.weights import assign_weight
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

EXPERTS, TOKENS = 3, 7
TOLERANCE = 1e-10


class _Expert(paddle.nn.Layer):
    """One expert, as a port writes it."""

    def __init__(self, hidden: int, wide: int, *, has_bias: bool) -> None:
        super().__init__()
        bias = None if has_bias else False
        self.gate_proj = paddle.nn.Linear(hidden, wide, bias_attr=bias)
        self.up_proj = paddle.nn.Linear(hidden, wide, bias_attr=bias)
        self.down_proj = paddle.nn.Linear(wide, hidden, bias_attr=bias)


class _Port(paddle.nn.Layer):
    def __init__(self, hidden: int, wide: int, *, is_oss: bool) -> None:
        super().__init__()
        self.is_oss = is_oss
        self.experts = paddle.nn.LayerList(
            [_Expert(hidden, wide, has_bias=is_oss) for _ in range(EXPERTS)]
        )

    def forward(self, x: Any, chosen: Any, shares: Any) -> Any:  # noqa: ANN401 - untyped framework
        found = paddle.zeros_like(x)
        for number, expert in enumerate(self.experts):
            share = (shares * (chosen == number).astype(shares.dtype)).sum(-1, keepdim=True)
            gate, up = expert.gate_proj(x), expert.up_proj(x)
            if self.is_oss:
                gate, up = gate.clip(max=7.0), up.clip(-7.0, 7.0)
                inner = (up + 1) * gate * paddle.nn.functional.sigmoid(gate * 1.702)
            else:
                inner = paddle.nn.functional.silu(gate) * up
            found = found + share * expert.down_proj(inner)
        return found


def _oss(hidden: int, wide: int) -> Any:  # noqa: ANN401 - untyped library
    config = GptOssConfig(hidden_size=hidden, intermediate_size=wide, num_local_experts=EXPERTS)
    kind: Any = GptOssExperts
    return kind(config)


def _mixtral(hidden: int, wide: int) -> Any:  # noqa: ANN401 - untyped library
    config = MixtralConfig(hidden_size=hidden, intermediate_size=wide, num_local_experts=EXPERTS)
    config._experts_implementation = "eager"
    return MixtralExperts(config)


STACKS: dict[str, Callable[[int, int], Any]] = {"gpt_oss": _oss, "mixtral": _mixtral}


class _Reference(torch.nn.Module):
    def __init__(self, experts: Any) -> None:  # noqa: ANN401 - untyped library
        super().__init__()
        self.experts = experts

    def forward(self, *inputs: Any) -> Any:  # noqa: ANN401 - untyped library
        return self.experts(*inputs)


def _pair(name: str, hidden: int, wide: int) -> tuple[Any, Any]:
    torch.manual_seed(1)
    reference = _Reference(STACKS[name](hidden, wide)).double()
    with torch.no_grad():
        for weight in reference.parameters():
            weight.normal_(0.0, 0.5)
    return reference, _Port(hidden, wide, is_oss=name == "gpt_oss").to(dtype="float64")


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize(("hidden", "wide"), [(8, 6), (8, 8), (8, 4)])
def test_stack_of_experts_fills_a_list_and_both_agree(name: str, hidden: int, wide: int) -> None:
    """Square experts too: the stack states in attributes how it lies."""
    reference, candidate = _pair(name, hidden, wide)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(TOKENS, hidden))
    chosen = np.stack([rng.permutation(EXPERTS)[:2] for _ in range(TOKENS)])
    shares = rng.uniform(0.2, 0.8, size=(TOKENS, 2))

    plan = assign_weight(reference, candidate)

    assert not plan.ambiguous
    inputs = torch.tensor(x), torch.tensor(chosen), torch.tensor(shares)
    expected = reference(*inputs).detach().numpy()
    found = candidate(*map(paddle.to_tensor, (x, chosen, shares))).numpy()
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", STACKS)
def test_list_of_experts_fills_a_stack_and_gives_every_bit_back(name: str) -> None:
    reference, between = _pair(name, 8, 8)
    last, _ = _pair(name, 8, 8)
    with torch.no_grad():
        for weight in last.parameters():
            weight.zero_()

    assign_weight(reference, between)
    assign_weight(between, last)

    for one, two in zip(reference.parameters(), last.parameters(), strict=True):
        assert torch.equal(one, two)


def test_experts_that_state_nothing_and_have_biases_are_not_guessed() -> None:
    reference, candidate = _pair("gpt_oss", 8, 6)
    del reference.experts.is_concatenated

    with pytest.raises(ConfigError, match="gate_proj") as caught:
        assign_weight(reference, candidate)

    assert any("groups 6 0/2" in detail for detail in caught.value.details)
