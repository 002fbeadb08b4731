"""Faults beside what only one side has: gradients, containers, fused layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumper.weights.weights import assign_weight

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 6
X = torch.tensor(np.random.default_rng(4).standard_normal((2, WIDTH, 9)), dtype=torch.float32)


class _Gated(nn.Module):
    """Two convolutions under weight_norm, one of which only looks at a condition."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.main, self.cond = (norm(nn.Conv1d(WIDTH, WIDTH, 1)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.tanh(self.main(x) + self.cond(x))
        return made


class _GatedOfPaddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        norm = paddle.nn.utils.weight_norm
        self.main, self.cond = (norm(paddle.nn.Conv1D(WIDTH, WIDTH, 1)) for _ in range(2))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return paddle.tanh(self.main(x))


def test_gradients_of_a_layer_that_is_never_called_are_missing_and_no_error(tmp_path: Path) -> None:
    """The lengths of the rows have three axes in torch and one in Paddle."""
    reference, candidate = _Gated(), _GatedOfPaddle()
    assign_weight(reference, candidate)
    with record(reference, name="one", out=tmp_path):
        reference(X).square().mean().backward()
    with record(candidate, name="two", out=tmp_path):
        candidate(paddle.to_tensor(X.numpy())).square().mean().backward()

    result = compare(tmp_path / "one", tmp_path / "two", CompareSettings(atol=1e-5))

    assert result.verdict is Verdict.DIVERGED
    assert [_place(result)] == [""]


class _Looking(nn.Module):
    """Keys and values of a normalised context, in one layer or in two."""

    def __init__(self, *, is_fused: bool, skips: bool = False) -> None:
        super().__init__()
        self.norm, self.query = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        if is_fused:
            self.kv = nn.Linear(WIDTH, 2 * WIDTH)
        else:
            self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.is_fused, self.skips = is_fused, skips

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.mT
        context = x * 0.5 if self.skips else self.norm(x) * 0.5
        if self.is_fused:
            key, value = self.kv(context).chunk(2, -1)
        else:
            key, value = self.key(context), self.value(context)
        made: torch.Tensor = (self.query(x) @ key.mT).softmax(-1) @ value
        return made


@pytest.mark.parametrize("turned", [False, True])
def test_code_before_a_fused_layer_is_not_blamed_on_it(tmp_path: Path, *, turned: bool) -> None:
    torch.manual_seed(0)
    one, two = _Looking(is_fused=not turned), _Looking(is_fused=turned, skips=True)
    fused, split = (two, one) if turned else (one, two)
    for name in ("weight", "bias"):
        parts = [getattr(layer, name).data for layer in (split.key, split.value)]
        getattr(fused.kv, name).data.copy_(torch.cat(parts))
    split.query.load_state_dict(fused.query.state_dict())

    assert _place(_compared(tmp_path, one, two)) in {"", "norm"}  # which is left out


class _Tail(nn.Module):
    """The end is a list of layers on one side, of which the first has no partner."""

    def __init__(self, *, is_other: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 1) for _ in range(3))
        norm = nn.utils.parametrizations.weight_norm
        ends = norm(nn.Conv1d(WIDTH, WIDTH, 1)), norm(nn.Conv1d(WIDTH, 2, 1))
        if is_other:
            self.first, self.second = ends
        else:
            self.last = nn.Sequential(nn.ReLU(), ends[0], nn.ReLU(), ends[1])
        self.is_other = is_other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x)
        for place, block in enumerate(self.blocks.children()):
            made = block(x + 1.0 if self.is_other and place == 1 else x).tanh()
            total = total + made
            x = x + made
        if self.is_other:
            found: torch.Tensor = self.second(torch.relu(self.first(torch.relu(total * 0.5))))
            return found
        return self.last(total * 0.5)  # type: ignore[no-any-return]


def test_a_container_of_one_side_is_no_further_origin(tmp_path: Path) -> None:
    torch.manual_seed(0)
    one, two = (_Tail(is_other=is_other) for is_other in (False, True))
    two.blocks.load_state_dict(one.blocks.state_dict())
    two.first.load_state_dict(one.last[1].state_dict())
    two.second.load_state_dict(one.last[3].state_dict())

    result = _compared(tmp_path, one, two)

    assert len(result.origins) == 1


class _Coupling(nn.Module):
    """Half of the channels tells what is made of the other; its network is a list or not."""

    def __init__(self, *, is_flat: bool, offset: float = 2.0) -> None:
        super().__init__()
        layers = nn.Conv1d(WIDTH // 2, WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        if is_flat:
            self.one, self.two = layers
        else:
            self.net = nn.Sequential(layers[0], nn.ReLU(), layers[1])
        self.is_flat, self.offset = is_flat, offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, moved = x.chunk(2, 1)
        made = self.two(torch.relu(self.one(kept))) if self.is_flat else self.net(kept)
        scale, shift = made.chunk(2, 1)
        return torch.cat([kept, (moved + shift) * torch.sigmoid(scale + self.offset)], 1)


def test_a_fault_in_code_is_named_at_the_container_that_is_given_the_same(tmp_path: Path) -> None:
    """Not at the list inside, which holds the same layers."""
    torch.manual_seed(0)
    one = nn.Sequential(*(_Coupling(is_flat=False) for _ in range(2)))
    two = nn.Sequential(_Coupling(is_flat=True), _Coupling(is_flat=True, offset=0.0))
    for mine, theirs in zip(one.parameters(), two.parameters(), strict=True):
        theirs.data.copy_(mine)

    assert _place(_compared(tmp_path, one, two)) == "1"


class _Network(nn.Module):
    """The activation is a module, or a function."""

    def __init__(self, *, is_module: bool, approximate: str = "none") -> None:
        super().__init__()
        self.up, self.down = nn.Conv1d(WIDTH, WIDTH, 1), nn.Conv1d(WIDTH, WIDTH, 1)
        self.act = nn.GELU() if is_module else None
        self.approximate = approximate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.up(x)
        if self.act is None:
            made = nn.functional.gelu(made, approximate=self.approximate)
        else:
            made = self.act(made)
        found: torch.Tensor = x + self.down(made)
        return found


def test_code_of_the_side_with_fewer_calls_is_described_by_its_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    one = nn.Sequential(*(_Network(is_module=True) for _ in range(6)))
    two = nn.Sequential(*(_Network(is_module=False) for _ in range(6)))
    two.load_state_dict(one.state_dict())
    list(two.children())[5].approximate = "tanh"  # type: ignore[assignment]
    _compared(tmp_path, one, two)

    result = compare(tmp_path / "one", tmp_path / "two", CompareSettings())

    assert _place(result) == "5"
    assert any("approximate of gelu" in line for line in evidence_of(result.origins[0]))


class _Spiking(nn.Module):
    """A neuron whose state begins without elements, as one number, or as zeros."""

    def __init__(self, *, begin: tuple[int, ...], name: str, decay: float = 0.9) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, 4)
        self.cells = nn.ModuleDict({name: _Cell(decay) if name == "lif" else _Leaky(decay)})
        self.begin, self.name = begin, name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, found = x.new_zeros(self.begin), []
        for step in range(5):
            spikes, state = self.cells[self.name](self.fc(x[..., step]), state)
            found.append(spikes + state)
        return torch.stack(found)


class _Cell(nn.Module):
    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state = x if state.numel() == 0 else self.decay * state + x
        return (state > 100.0).to(x.dtype), state


class _Leaky(_Cell):
    """Under another name."""


@pytest.mark.parametrize("begin", [(0,), (), (2, 4)])
@pytest.mark.parametrize("turned", [False, True])
def test_states_that_begin_otherwise_are_no_divergence(
    tmp_path: Path, *, begin: tuple[int, ...], turned: bool
) -> None:
    """No spike comes out: what goes in tells which neuron is which."""
    torch.manual_seed(0)
    one, two = _Spiking(begin=begin, name="lif"), _Spiking(begin=(2, 4), name="n")
    two.load_state_dict(one.state_dict())
    pair = (two, one) if turned else (one, two)

    result = _compared(tmp_path, *pair)

    assert result.verdict is Verdict.MATCH, result.reasons


def test_a_neuron_with_another_decay_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    one = _Spiking(begin=(0,), name="lif")
    two = _Spiking(begin=(2, 4), name="n", decay=0.95)
    two.load_state_dict(one.state_dict())

    assert _place(_compared(tmp_path, one, two)) == "cells.lif"


def _compared(tmp_path: Path, one: nn.Module, two: nn.Module) -> Comparison:
    for name, model in (("one", one), ("two", two)):
        with record(model, name=name, out=tmp_path):
            model(X.clone().requires_grad_()).square().mean().backward()
    return compare(tmp_path / "one", tmp_path / "two", CompareSettings(atol=1e-5))


def _place(result: Comparison) -> str | None:
    found = result.origins[0].pair.reference
    return None if found is None else found.address.module
