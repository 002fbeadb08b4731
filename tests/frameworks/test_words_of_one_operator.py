"""What is told of one operator more or less, beside others of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
import pytest
import torch
from torch import nn

import padiff

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Block(nn.Module):
    def __init__(self, form: Callable[[_Block, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.out = nn.Linear(8, 8), nn.Linear(8, 8)
        self.one, self.other = nn.LayerNorm(8), nn.LayerNorm(8)
        for norm in (self.one, self.other):
            nn.init.normal_(norm.weight)
        self.form = form

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.form(self, x)


_STEPS = torch.arange(8.0)


def _masked(scores: torch.Tensor, diagonal: int) -> torch.Tensor:
    later = torch.ones(scores.shape[-2:]).triu(diagonal)
    return torch.where(later.bool(), -1e9, scores).softmax(-1)


def _windows(x: torch.Tensor) -> list[torch.Tensor]:
    return [x * nn.functional.pad(x, (place, 6 - place))[..., 3:11] for place in range(6)]


def _gated(net: _Block, x: torch.Tensor, pool: Callable[..., torch.Tensor]) -> torch.Tensor:
    pairs = torch.cat([x, x.square()], -1)
    gated: torch.Tensor = pairs * net.query(pool(pairs)).sigmoid()
    return gated.mean(1)


def _warped(x: torch.Tensor, down: torch.Tensor, across: torch.Tensor) -> torch.Tensor:
    flow = 0.01 * x[:, None, :, None].expand(-1, 2, -1, 8)
    places = torch.stack([across + flow[:, 0], down + flow[:, 1] ** 2], -1) * 2 / 7 - 1
    picture = x[:, None, :, None] * _STEPS.cos()
    return nn.functional.grid_sample(picture, places, align_corners=True)


def _added(net: _Block, x: torch.Tensor, sign: float) -> torch.Tensor:
    for is_added in (True, False, True, True):
        change = net.query(net.one(x)).tanh()
        x = change if not is_added else x + change if sign > 0 else x - change
    return x


def _widened(x: torch.Tensor, *, align_corners: bool) -> torch.Tensor:
    picture = x.reshape(1, 1, 4, 4)
    return nn.functional.interpolate(
        picture, scale_factor=2, mode="bilinear", align_corners=align_corners
    )


FORMS: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "too much: mul, times 1.01;": (
        lambda net, x: net.query(x) * 0.25,
        lambda net, x: (net.query(x) * 1.01) * 0.25,
    ),
    "left out: mul, times 0.5;": (
        lambda net, x: (net.query(x) * 0.5) * 0.25,
        lambda net, x: net.query(x) * 0.25,
    ),
    "other of mul: 0.26 where the reference has 0.25;": (
        lambda net, x: net.query(x) * 0.25,
        lambda net, x: net.query(x) * 0.26,
    ),
    "cat reads its operands in another order;": (  # an axis may be counted from either end
        lambda net, x: torch.cat([net.query(x), net.one(x)], -1),
        lambda net, x: torch.cat([net.one(x), net.query(x)], x.ndim - 1),
    ),
    "alpha of add: 2 where the reference has 1;": (
        lambda net, x: torch.add(x, net.query(x)),
        lambda net, x: torch.add(x, net.query(x), alpha=2),
    ),
    "left out: layer_norm([8]);": (  # what another norm makes of the same value is common to both
        lambda net, x: net.query(net.one(x)) + net.out(net.other(x)),
        lambda net, x: net.query(x) + net.out(net.other(x)),
    ),
    "too much: layer_norm([8]);": (
        lambda net, x: net.query(x) + net.out(net.other(x)),
        lambda net, x: net.query(net.one(x)) + net.out(net.other(x)),
    ),
    "left out: mul, times 0.25 in scaled_dot_product_attention;": (
        lambda net, x: nn.functional.scaled_dot_product_attention(x, x, x, scale=0.25),
        lambda net, x: torch.softmax(x @ x.mT, -1) @ x,
    ),
    "hardtanh(0, 6) where the reference has relu;": (  # and no limit of 8, as of the norm
        lambda net, x: net.one(torch.relu(7.5 * torch.tanh(3 * x))),
        lambda net, x: net.one(nn.functional.hardtanh(7.5 * torch.tanh(3 * x), 0.0, 6.0)),
    ),
    "diagonal of triu: 2 where the reference has 1;": (  # the whole mask makes up for another one
        lambda net, x: _masked(net.query(x).mT @ x, 1) @ x.mT,
        lambda net, x: _masked(net.query(x).mT @ x, 2) @ x.mT,
    ),
    "add reads one.weight where the reference has other.weight;": (  # both add it
        lambda net, x: (x + net.one.weight) @ (x + net.other.weight).mT,
        lambda net, x: (x + net.one.weight) @ (x + net.one.weight).mT,
    ),
    "sum(1, True) where the reference has mean(1, True) (6 times);": (
        lambda net, x: torch.cat([one.mean(1, keepdim=True) for one in _windows(x)], 1),
        lambda net, x: torch.cat([one.sum(1, keepdim=True) for one in _windows(x)], 1),
    ),
    "dim of mean: 0 where the reference has -1;": (  # what follows has another shape
        lambda net, x: net.one(x * (x.square().mean(-1, keepdim=True) + 0.5).rsqrt()),
        lambda net, x: net.one(x * (x.square().mean(0, keepdim=True) + 0.5).rsqrt()),
    ),
    "cos where the reference has sin;": (  # both programs have that cosine
        lambda net, x: net.one(x.cos() * 2) @ net.query((x.sin() * 2).tanh()).mT,
        lambda net, x: net.one(x.cos() * 2) @ net.query((x.cos() * 2).tanh()).mT,
    ),
    "dim of softmax left out: the reference has -1;": (  # of three axes it is the first then
        lambda net, x: nn.functional.softmax((net.query(x).mT @ x)[None], dim=-1) @ x.mT,
        lambda net, x: nn.functional.softmax((net.query(x).mT @ x)[None]) @ x.mT,
    ),
    "left out: transpose(1, 2), contiguous;": (  # and not what reads it as rows, too
        lambda net, x: net.one(x.view(2, 2, 4).softmax(-1).transpose(1, 2).contiguous().view(2, 8)),
        lambda net, x: net.one(x.view(2, 2, 4).softmax(-1).view(2, 8)),
    ),
    "left out: mean(1, True);": (  # the gate of it is computed as it was
        lambda net, x: _gated(net, x.view(2, 2, 4), lambda y: y.mean(1, keepdim=True)),
        lambda net, x: _gated(net, x.view(2, 2, 4), lambda y: y),
    ),
    "sub where the reference has add (3 times);": (  # the last is taken of what the third leaves
        lambda net, x: _added(net, x, 1.0),
        lambda net, x: _added(net, x, -1.0),
    ),
    "align_corners of interpolate: True where the reference has False;": (  # once, not three times
        lambda _net, x: _widened(x, align_corners=False),
        lambda _net, x: _widened(x, align_corners=True),
    ),
    "torch.meshgrid[1] of (root) and torch.meshgrid[0] of (root) exchanged;": (
        lambda net, x: _warped(net.query(x), *torch.meshgrid(_STEPS, _STEPS, indexing="ij")),
        lambda net, x: _warped(net.query(x), *torch.meshgrid(_STEPS, _STEPS, indexing="ij")[::-1]),
    ),
}


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("words", FORMS)
def test_an_operator_more_or_less_is_told_as_that(words: str, tmp_path: Path) -> None:
    paths = []
    for name, form in zip(("reference", "candidate"), FORMS[words], strict=True):
        net = _Block(form)
        with padiff.record(net, name=name, out=tmp_path) as recorder:
            net(torch.arange(16.0).reshape(2, 8).sin())
        paths.append(recorder.path)

    found = padiff.compare(paths[0], paths[1])

    assert f"proved: {words}" in str(found).partition("\n")[0]


class _Mixed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x)


class _PaddleMixed(paddle.nn.Layer):
    """The same without a scale."""

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        found: paddle.Tensor = paddle.nn.functional.softmax(x @ x.transpose([0, 2, 1])) @ x
        return found


def test_a_scale_that_lacks_ahead_of_another_softmax_is_told_alone() -> None:
    x = torch.arange(32.0).reshape(2, 4, 4).sin()
    inputs = x, paddle.to_tensor(x.numpy())

    found = padiff.auto_diff(_Mixed(), _PaddleMixed(), inputs, diff_phase="forward", quiet=True)

    words = "proved: left out: mul, times 0.5 in scaled_dot_product_attention;"
    assert words in str(found).partition("\n")[0]


class _Logarithm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1).log()


class _PaddleLogarithm(paddle.nn.Layer):
    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        found: paddle.Tensor = paddle.nn.functional.softmax(x, -1).log()
        return found


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "match"), (50.0, "diverged")])
def test_what_a_kernel_puts_in_the_place_of_small_exponentials_is_executed(
    factor: float, verdict: str
) -> None:
    x = factor * torch.arange(32.0).reshape(2, 4, 4).sin()  # to -100: Paddle's ends at -64
    inputs = x, paddle.to_tensor(x.numpy())

    found = padiff.auto_diff(
        _Logarithm(), _PaddleLogarithm(), inputs, diff_phase="forward", quiet=True
    )

    assert found.verdict == verdict
