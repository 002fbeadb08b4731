"""Fused projections against split ones: a run of the candidate tells which rows are which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from padiff.dumpfile import ConfigError
from padiff.pairing.weights.fused import NOT_EMPTY
from tests.support.carrying import carried

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.pairing.weights.weight_plan import WeightPlan

WIDTH, HEADS = 16, 4
X = torch.tensor(np.random.default_rng(5).standard_normal((2, 5, WIDTH)), dtype=torch.float32)


@dataclass(frozen=True, kw_only=True)
class _Code:
    """How one author writes an attention."""

    fused: str | None = None
    """Name of the fused projection, None for three of their own."""
    order: str = "qkv"
    """Which rows its code takes for what."""
    lies: str = "blocks"
    """``blocks``, or ``heads`` where each head has its own three."""
    kv_heads: int = HEADS
    is_scaled: bool = True
    eps: float = 1e-5
    activation: str = "gelu"
    names: tuple[str, str, str] = ("query", "key", "value")
    has_key_bias: bool = True


class _Attention(nn.Module):
    def __init__(self, code: _Code) -> None:
        super().__init__()
        self.code, self.num_heads, self.kv_heads = code, HEADS, code.kv_heads
        self.size = WIDTH // HEADS
        rows = {"q": HEADS * self.size, "k": code.kv_heads * self.size}
        rows["v"] = rows["k"]
        self.rows = rows
        if code.fused is None:
            for name, role in zip(code.names, "qkv", strict=True):
                bias = role != "k" or code.has_key_bias
                setattr(self, name, nn.Linear(WIDTH, rows[role], bias=bias))
        else:
            setattr(self, code.fused, nn.Linear(WIDTH, sum(rows.values())))
        self.out = nn.Linear(WIDTH, WIDTH)

    def _split(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        code = self.code
        if code.fused is None:
            made = [getattr(self, name)(x) for name in code.names]
            return dict(zip("qkv", made, strict=True))
        y = getattr(self, code.fused)(x)
        if code.lies == "blocks":
            parts = y.split([self.rows[role] for role in code.order], -1)
        else:
            y = y.reshape(*y.shape[:-1], code.kv_heads, -1)
            sizes = [self.rows[role] // code.kv_heads for role in code.order]
            parts = tuple(part.flatten(-2) for part in y.split(sizes, -1))
        return dict(zip(code.order, parts, strict=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self._split(x)
        q, k, v = (
            made[role].reshape(*x.shape[:-1], -1, self.size).transpose(1, 2) for role in "qkv"
        )
        k, v = (t.repeat_interleave(HEADS // self.code.kv_heads, 1) for t in (k, v))
        scale = self.size**-0.5 if self.code.is_scaled else 1.0
        weights = (q @ k.mT * scale).softmax(-1)
        found: torch.Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return found


class _Block(nn.Module):
    def __init__(self, code: _Code) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(WIDTH, eps=code.eps), _Attention(code)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.activation = code.activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm(x))
        found: torch.Tensor = x + self.down(getattr(functional, self.activation)(self.up(x)))
        return found


class _Net(nn.Module):
    def __init__(self, code: _Code) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(code) for _ in range(2))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        found: torch.Tensor = self.head(x)
        return found


class _Listed(nn.Module):
    """Attentions and networks one after the other in one list."""

    def __init__(self, code: _Code) -> None:
        super().__init__()
        blocks = [_Block(code) for _ in range(2)]
        self.parts = nn.ModuleList(
            part
            for block in blocks
            for part in (
                _Residual(block.norm, block.attn),
                _Residual(block.up, nn.GELU(), block.down),
            )
        )
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        found: torch.Tensor = self.head(x)
        return found


class _Residual(nn.Module):
    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = x + self.inner(x)
        return found


def _carried(
    folder: Path, reference: nn.Module, candidate: nn.Module, x: torch.Tensor = X
) -> tuple[WeightPlan, float]:
    return carried(folder, reference, candidate, x, mean=0.2, seed=0)


@pytest.mark.parametrize("name", ["qkv", "c_attn", "query_key_value", "W_pack"])
@pytest.mark.parametrize("lies", ["blocks", "heads"])
@pytest.mark.parametrize("is_join", [True, False])
def test_rows_of_a_fused_attention_are_told_by_a_run(
    tmp_path: Path, name: str, lies: str, *, is_join: bool
) -> None:
    split, fused = _Net(_Code()), _Net(_Code(fused=name, lies=lies))

    plan, error = _carried(tmp_path, *((split, fused) if is_join else (fused, split)))

    assert error < 1e-5
    assert min(pair.confidence for pair in plan.pairs if pair.note) == 1.0
    assert any("only so the model agrees" in note for note in plan.notes)


@pytest.mark.parametrize("lies", ["blocks", "heads"])
def test_a_key_without_bias_is_zeros_in_a_fused_one(tmp_path: Path, lies: str) -> None:
    split, fused = _Net(_Code(has_key_bias=False)), _Net(_Code(fused="qkv", lies=lies))

    plan, error = _carried(tmp_path, split, fused)

    assert error < 1e-5
    assert sum("has no bias, unlike what is fused with it" in note for note in plan.notes) == 1


def test_a_fused_bias_is_refused_whose_part_for_a_key_without_bias_is_not_zero(
    tmp_path: Path,
) -> None:
    fused, split = _Net(_Code(fused="qkv")), _Net(_Code(has_key_bias=False))

    with pytest.raises(ConfigError) as caught:
        _carried(tmp_path, fused, split)

    assert NOT_EMPTY in str(caught.value)
    assert "weight (16, 16): no partner" not in str(caught.value)


@pytest.mark.parametrize("is_join", [True, False])
def test_blocks_against_one_list_of_attentions_and_networks(
    tmp_path: Path, *, is_join: bool
) -> None:
    codes = _Code(fused="c_attn"), _Code()
    reference, candidate = _Net(codes[is_join]), _Listed(codes[not is_join])

    _, error = _carried(tmp_path, reference, candidate)

    assert error < 1e-5


@pytest.mark.parametrize("lies", ["blocks", "heads"])
def test_fewer_heads_of_keys_than_of_queries_are_told(tmp_path: Path, lies: str) -> None:
    split = _Net(_Code(kv_heads=2))
    fused = _Net(_Code(fused="qkv_proj", lies=lies, kv_heads=2))

    _, error = _carried(tmp_path, split, fused)

    assert error < 1e-5


def test_an_order_against_the_name_is_refused_although_it_fits(tmp_path: Path) -> None:
    split, faulty = _Net(_Code()), _Net(_Code(fused="qkv", order="kqv"))
    before = {name: tensor.clone() for name, tensor in faulty.state_dict().items()}

    with pytest.raises(ConfigError, match="cannot load") as caught:
        _carried(tmp_path, split, faulty)

    assert "agrees with the reference only with key, query, value in blocks" in str(caught.value)
    for name, tensor in faulty.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_fault_behind_the_first_attention_does_not_hide_the_order(tmp_path: Path) -> None:
    split, faulty = _Net(_Code()), _Net(_Code(fused="c_attn", activation="relu"))

    plan, error = _carried(tmp_path, split, faulty)

    assert error > 1e-3
    assert not plan.ambiguous
    right = _Net(_Code(fused="c_attn"))
    right.load_state_dict(faulty.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(right(X), split(X), rtol=1e-4, atol=1e-4)


def test_a_fault_before_the_first_attention_does_not_hide_the_order(tmp_path: Path) -> None:
    split, faulty = _Net(_Code()), _Net(_Code(fused="c_attn", lies="heads", eps=0.3))

    plan, error = _carried(tmp_path, split, faulty)

    assert error > 1e-3
    assert not plan.ambiguous
    right = _Net(_Code(fused="c_attn", lies="heads"))
    right.load_state_dict(faulty.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(right(X), split(X), rtol=1e-4, atol=1e-4)


def test_a_spelled_order_is_assumed_where_no_run_agrees(tmp_path: Path) -> None:
    split, faulty = _Net(_Code()), _Net(_Code(fused="qkv", is_scaled=False))

    plan, error = _carried(tmp_path, split, faulty)

    assert error > 1e-3
    assert any("query, key, value in blocks: assumed" in note for note in plan.notes)


def test_an_order_that_nothing_spells_and_no_run_tells_is_refused(tmp_path: Path) -> None:
    split, faulty = _Net(_Code()), _Net(_Code(fused="c_attn", is_scaled=False))

    with pytest.raises(ConfigError, match=r"c_attn \(2 blocks\) is ambiguous"):
        _carried(tmp_path, split, faulty)
