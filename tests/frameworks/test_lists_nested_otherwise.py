"""Lists and classes that are cut otherwise: blocks, splines with what scales them, recurrences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from padiff import record
from padiff.comparer import CompareSettings, compare
from tests.support.carrying import carried

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIDTH, STAGES, INNER = 8, 2, 2
X = torch.tensor(np.random.default_rng(5).standard_normal((3, WIDTH)), dtype=torch.float32)


class _Before(nn.Module):
    """A norm, and what comes behind it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.fn, self.norm = inner, nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.fn(self.norm(x)) + x
        return found


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))


class _Nested(nn.Module):
    """As Perceiver's authors do: each stage lists a mixer, a network, and a list of such pairs."""

    def __init__(self) -> None:
        super().__init__()

        def pair(mix: Callable[[], nn.Module]) -> list[nn.Module]:
            return [_Before(mix()), _Before(_network())]

        self.layers = nn.ModuleList(
            nn.ModuleList([
                *pair(lambda: nn.Linear(WIDTH, WIDTH, bias=False)),
                nn.ModuleList(
                    nn.ModuleList(pair(lambda: nn.Linear(WIDTH, WIDTH))) for _ in range(INNER)
                ),
            ])
            for _ in range(STAGES)
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.layers.children():
            first, second, inner = stage.children()
            x = second(first(x))
            for pair in inner.children():
                mix, network = pair.children()
                x = network(mix(x))
        return x


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.w1, self.w2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = x + self.w2(functional.gelu(self.w1(self.norm(x))))
        return found


class _Block(nn.Module):
    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(WIDTH), _Network()
        self.mix = nn.Linear(WIDTH, WIDTH, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.mlp(x + self.mix(self.norm(x)))
        return found


class _ByKind(nn.Module):
    """The same with a list of first blocks and one of lists of later ones."""

    def __init__(self) -> None:
        super().__init__()
        self.cross = nn.ModuleList(_Block(bias=False) for _ in range(STAGES))
        self.selfs = nn.ModuleList(
            nn.ModuleList(_Block(bias=True) for _ in range(INNER)) for _ in range(STAGES)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, inner in zip(self.cross, self.selfs, strict=True):
            x = first(x)
            for block in inner.children():
                x = block(x)
        return x


class _Spline(nn.Module):
    """As authors of KANs do: a matrix, a stack, and what scales it, all in one class."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.base_weight = nn.Parameter(torch.empty(out, into))
        self.spline_weight = nn.Parameter(torch.empty(out, into, 3))
        self.spline_scaler = nn.Parameter(torch.empty(out, into))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        powers = torch.stack([x, x.square(), x.sin()], -1)
        scaled = self.spline_weight * self.spline_scaler[..., None]
        bent = torch.einsum("big,oig->bo", powers, scaled)
        return functional.linear(functional.silu(x), self.base_weight) + bent


class _Curve(nn.Module):
    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.coef = nn.Parameter(torch.empty(out, into, 3))
        self.scale = nn.Parameter(torch.empty(out, into))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        powers = torch.stack([x, x.square(), x.sin()], -1)
        return torch.einsum("big,oig->bo", powers, self.coef * self.scale[..., None])


class _Apart(nn.Module):
    """The matrix is a layer, the stack and its scale are another."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.base, self.spline = nn.Linear(into, out, bias=False), _Curve(into, out)
        self.activation: nn.Module = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.base(self.activation(x)) + self.spline(x)
        return found


class _Mixing(nn.Module):
    """As RWKV's authors do: mixtures and decays beside the layers of a block."""

    def __init__(self) -> None:
        super().__init__()
        self.decay, self.first = (nn.Parameter(torch.empty(WIDTH)) for _ in range(2))
        self.time_mix_k = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.time_mix_v = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key, value = self.key(x * self.time_mix_k), self.value(x * self.time_mix_v)
        return _carried_on(key[0], value[0], self.decay, self.first) + x


class _Recurrence(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.u, self.w = (nn.Parameter(torch.empty(WIDTH)) for _ in range(2))

    def forward(self, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return _carried_on(key, value, self.w, self.u)


class _MixingApart(nn.Module):
    """The recurrence is a class of its own, and names are short."""

    def __init__(self) -> None:
        super().__init__()
        self.mk, self.mv = (nn.Parameter(torch.empty(WIDTH)) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.wkv = _Recurrence()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.wkv(self.k(x * self.mk), self.v(x * self.mv)) + x
        return made


def _carried_on(
    key: torch.Tensor, value: torch.Tensor, decay: torch.Tensor, first: torch.Tensor
) -> torch.Tensor:
    found, state = [], torch.zeros(WIDTH)
    for one, two in zip(key, value, strict=True):
        found.append(state + torch.sigmoid(one + first) * two)
        state = torch.sigmoid(decay) * state + torch.sigmoid(one) * two
    return torch.stack(found)


def test_vectors_that_names_do_not_tell_are_told_by_a_run(tmp_path: Path) -> None:
    one = nn.Sequential(*(_Mixing() for _ in range(2)))
    two = nn.Sequential(*(_MixingApart() for _ in range(2)))

    plan, error = carried(tmp_path, one, two, X, mean=0.0, seed=1)

    assert error < 1e-5
    assert any("u = first, w = decay" in note for note in plan.notes)


def test_like_networks_of_two_lists_find_their_blocks(tmp_path: Path) -> None:
    _, error = carried(tmp_path, _Nested(), _ByKind(), X, mean=0.0, seed=1)

    assert error < 1e-5


def test_and_the_other_way_round(tmp_path: Path) -> None:
    _, error = carried(tmp_path, _ByKind(), _Nested(), X, mean=0.0, seed=1)

    assert error < 1e-5


def test_splines_and_the_matrix_beside_them_are_told_by_words_and_runs(tmp_path: Path) -> None:
    sizes = (WIDTH, 5), (5, 5), (5, 2)
    one = nn.Sequential(*(_Spline(*size) for size in sizes))
    two = nn.Sequential(*(_Apart(*size) for size in sizes))

    _, error = carried(tmp_path, one, two, X, mean=0.0, seed=1)

    assert error < 1e-5


def test_a_fault_is_named_at_the_container_of_what_the_other_side_has_in_one_class(
    tmp_path: Path,
) -> None:
    one, two = (nn.Sequential(*(net(5, 5) for _ in range(3))) for net in (_Spline, _Apart))
    numbers = torch.Generator().manual_seed(1)
    for mine, theirs in zip(one.children(), two.children(), strict=True):
        assert isinstance(mine, _Spline)
        assert isinstance(theirs, _Apart)
        for parameter in mine.parameters():
            nn.init.normal_(parameter, 0.0, 0.5, generator=numbers)
        theirs.base.weight.data.copy_(mine.base_weight)
        theirs.spline.coef.data.copy_(mine.spline_weight)
        theirs.spline.scale.data.copy_(mine.spline_scaler)
    faulty = list(two.children())[1]
    assert isinstance(faulty, _Apart)
    faulty.activation = nn.GELU()
    for name, model in (("one", one), ("two", two)):
        with record(model, name=name, out=tmp_path):
            model(X[:, :5]).square().mean().backward()

    result = compare(tmp_path / "one", tmp_path / "two", CompareSettings(atol=1e-5))

    named = {
        (origin.pair.reference.address.module, origin.pair.candidate.address.module)
        for origin in result.origins
        if origin.pair.reference and origin.pair.candidate
    }
    assert named == {("1", "1")}
