"""Norms and branches folded into other layers: the same function, or one that is off."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Layer = Any


def _scale_and_shift(norm: Layer) -> tuple[torch.Tensor, torch.Tensor]:
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return scale.detach(), (norm.bias - norm.running_mean * scale).detach()


def _with(layer: Layer, weight: torch.Tensor, bias: torch.Tensor) -> Layer:
    """Return a copy of a layer that holds other weights."""
    made = copy.deepcopy(layer)
    made.weight, made.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
    return made


def _bias(layer: Layer) -> torch.Tensor | float:
    return 0.0 if layer.bias is None else layer.bias


def _behind(layer: Layer, norm: Layer) -> Layer:
    """Fold a norm into the layer before it."""
    scale, shift = _scale_and_shift(norm)
    weight, each = layer.weight, (-1, *[1] * (layer.weight.ndim - 1))
    if isinstance(layer, nn.ConvTranspose2d):
        by_group = weight.unflatten(0, (layer.groups, -1))
        weight = (by_group * scale.view(layer.groups, 1, -1, 1, 1)).flatten(0, 1)
    else:
        weight = weight * scale.view(each)
    return _with(layer, weight, _bias(layer) * scale + shift)


def _before(norm: Layer, layer: Layer) -> Layer:
    """Fold a norm into the layer behind it."""
    scale, shift = _scale_and_shift(norm)
    groups = getattr(layer, "groups", 1)
    axes = layer.weight.ndim - 2
    by_group = layer.weight.unflatten(0, (groups, -1))
    times, plus = (one.view(groups, 1, -1, *[1] * axes) for one in (scale, shift))
    added = (by_group * plus).flatten(2).sum(-1).flatten()
    return _with(layer, (by_group * times).flatten(0, 1), _bias(layer) + added)


class _Affine(nn.Module):
    """What a norm does in evaluation, with buffers."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, norm: Layer, axes: int) -> None:
        super().__init__()
        scale, shift = _scale_and_shift(norm)
        self.register_buffer("scale", scale.view(-1, *[1] * axes))
        self.register_buffer("shift", shift.view(-1, *[1] * axes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = x * self.scale + self.shift
        return made


class _Branches(nn.Module):
    """Two convolutions and the input itself, each with a norm, added up."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.small = nn.Conv2d(4, 4, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide, small, same = self.norms
        made: torch.Tensor = wide(self.wide(x)) + small(self.small(x)) + same(x)
        return made

    def folded(self) -> Layer:
        """Return the one convolution that does the same."""
        wide, small = _behind(self.wide, self.norms[0]), _behind(self.small, self.norms[1])
        scale, shift = _scale_and_shift(self.norms[2])
        middle = small.weight + torch.diag(scale)[..., None, None]
        weight = wide.weight + nn.functional.pad(middle, (1, 1, 1, 1))
        return _with(wide, weight, wide.bias + small.bias + shift)


def _net(*layers: Layer) -> Layer:
    """Return the layers behind each other, with norms that were trained, in evaluation."""
    model = nn.Sequential(*layers)
    for one in model.modules():
        if isinstance(one, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(one.weight, 0.5, 2.0)
            nn.init.normal_(one.bias)
            one.running_mean, one.running_var = (
                torch.randn(one.num_features),
                torch.rand(one.num_features) + 0.5,
            )
    return model.eval()


def _pair(plain: Layer, *folded: Layer) -> tuple[Layer, Layer]:
    return plain, nn.Sequential(*map(copy.deepcopy, folded)).eval()


def _after(layer: Layer, norm: Layer, last: Layer) -> tuple[Layer, Layer]:
    plain = _net(layer, norm, nn.ReLU(), last)
    return _pair(plain, _behind(plain[0], plain[1]), plain[2], plain[3])


def _ahead(norm: Layer, layer: Layer, last: Layer) -> tuple[Layer, Layer]:
    first = nn.Linear(6, 6) if isinstance(layer, nn.Linear) else nn.Conv2d(4, 4, 1)
    plain = _net(first, nn.ReLU(), norm, layer, nn.ReLU(), last)
    return _pair(plain, plain[0], plain[1], _before(plain[2], plain[3]), plain[4], plain[5])


def _kept(layer: Layer, norm: Layer, last: Layer) -> tuple[Layer, Layer]:
    plain = _net(layer, norm, nn.ReLU(), last)
    affine = _Affine(plain[1], plain[0].weight.ndim - 2)
    return _pair(plain, plain[0], affine, plain[2], plain[3])


class _Gated(nn.Module):
    """A norm, a gate, and a norm ahead of the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.up, self.gate = nn.RMSNorm(6), nn.Linear(6, 8), nn.Linear(6, 8)
        self.down, self.norm, self.last = nn.Linear(8, 6), nn.LayerNorm(6), nn.Linear(6, 3)
        for one in (self.first, self.norm):
            nn.init.uniform_(one.weight, 0.5, 2.0)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        x = x + self.down(nn.functional.silu(self.gate(hidden)) * self.up(hidden))
        made: torch.Tensor = self.last(self.norm(x))
        return made


class _GatedByHand(nn.Module):
    """The same by hand, what norms scale and shift by in the layers behind them."""

    def __init__(self, plain: Layer) -> None:
        super().__init__()
        gate, up, norm, last = plain.gate, plain.up, plain.norm, plain.last
        self.wi = nn.Parameter(torch.cat([gate.weight, up.weight]) * plain.first.weight)
        self.bi = nn.Parameter(torch.cat([gate.bias, up.bias]))
        self.wo, self.bo = copy.deepcopy(plain.down.weight), copy.deepcopy(plain.down.bias)
        self.wh = nn.Parameter(last.weight * norm.weight)
        self.bh = nn.Parameter(last.bias + last.weight @ norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps)
        gate, up = nn.functional.linear(hidden, self.wi, self.bi).chunk(2, -1)
        x = x + nn.functional.linear(nn.functional.silu(gate) * up, self.wo, self.bo)
        rest = x - x.mean(-1, keepdim=True)
        rest = rest * torch.rsqrt(rest.square().mean(-1, keepdim=True) + 1e-5)
        return nn.functional.linear(rest, self.wh, self.bh)


def _by_hand() -> tuple[Layer, Layer]:
    plain = _Gated()
    return plain, _GatedByHand(plain)


def _branches() -> tuple[Layer, Layer]:
    plain = _net(_Branches(), nn.ReLU(), _Branches(), nn.ReLU(), nn.Conv2d(4, 3, 1))
    one, two = plain[0].folded(), plain[2].folded()
    return _pair(plain, one, plain[1], two, plain[3], plain[4])


FORMS: dict[str, Callable[[], tuple[Layer, Layer]]] = {
    "linear": lambda: _after(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)),
    "depthwise": lambda: _after(
        nn.Conv2d(4, 4, 3, groups=4, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 1)
    ),
    "transposed": lambda: _after(
        nn.ConvTranspose2d(4, 6, 3, 2, 1, groups=2), nn.BatchNorm2d(6), nn.Conv2d(6, 3, 1)
    ),
    "ahead of linear": lambda: _ahead(nn.BatchNorm1d(6), nn.Linear(6, 8), nn.Linear(8, 3)),
    "ahead of groups": lambda: _ahead(
        nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, groups=2), nn.Conv2d(6, 3, 1)
    ),
    "buffers": lambda: _kept(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 3, 1)),
    "buffers of rows": lambda: _kept(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)),
    "branches": _branches,
    "inside norms by hand": _by_hand,
}


def _built(form: str) -> tuple[Layer, Layer]:
    torch.manual_seed(0)
    return FORMS[form]()


def _compared(folder: Path, reference: Layer, candidate: Layer) -> padiff.Comparison:
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    if not isinstance(next(iter(reference.children()), None), nn.Linear | nn.RMSNorm | type(None)):
        x = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(1))
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model, name=name, out=folder):
            model(x).square().mean().backward()
    return padiff.compare(folder / "reference", folder / "candidate")


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_folded_weights_are_the_same_function(form: str, is_turned: bool, tmp_path: Path) -> None:
    plain, folded = _built(form)

    result = _compared(tmp_path, *((folded, plain) if is_turned else (plain, folded)))

    (step,) = result.steps
    assert result.verdict is Verdict.MATCH, result.reasons
    assert step.executed is not None
    assert step.executed.function.tolerated == 0
    assert step.executed.function.answer.value == "same"


@pytest.mark.parametrize("form", FORMS)
def test_a_channel_that_was_folded_wrongly_diverges(form: str, tmp_path: Path) -> None:
    plain, folded = _built(form)
    held = [*folded.parameters(), *folded.buffers()]
    scaled = folded[1].scale if form.startswith("buffers") else max(held, key=torch.numel)
    with torch.no_grad():
        scaled[0] *= 1.0001

    result = _compared(tmp_path, plain, folded)

    assert result.verdict is Verdict.DIVERGED


def test_a_norm_ahead_of_a_padded_convolution_is_another_function(tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain, folded = _ahead(nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 3, 1))

    result = _compared(tmp_path, plain, folded)

    assert result.verdict is Verdict.DIVERGED


def test_a_fold_of_a_channel_that_these_inputs_do_not_reach_is_checked(tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain, folded = _ahead(nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3), nn.Conv2d(6, 3, 1))
    with torch.no_grad():
        for model in (plain, folded):
            model[0].bias[2] = -100.0  # never above zero
        folded[2].weight[:, 2] *= 1.5

    result = _compared(tmp_path, plain, folded)

    assert result.verdict is Verdict.DIVERGED


def test_weights_of_one_form_are_no_fold_however_little_they_differ(tmp_path: Path) -> None:
    plain, folded = _built("depthwise")
    other = copy.deepcopy(folded)
    with torch.no_grad():
        other[0].weight *= 1 + 1e-6

    result = _compared(tmp_path, folded, other)

    assert result.verdict is Verdict.DIVERGED
    assert _compared(tmp_path / "again", plain, copy.deepcopy(plain)).verdict is Verdict.MATCH


class _Normed(nn.Module):
    """A convolution, its norm and a head; the norm stays where it was folded."""

    def __init__(self, *, is_folded: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.last = _net(
            nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.Conv2d(6, 3, 1)
        )
        self.is_folded = is_folded
        if is_folded:
            self.conv = _behind(self.conv, self.norm)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.conv(x) if self.is_folded else self.norm(self.conv(x))
        made: torch.Tensor = self.last(hidden.relu())
        return made


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_norm_that_was_folded_may_still_be_there(is_turned: bool, tmp_path: Path) -> None:
    plain, folded = (_Normed(is_folded=one).eval() for one in (False, True))

    result = _compared(tmp_path, *((folded, plain) if is_turned else (plain, folded)))

    assert result.verdict is Verdict.MATCH, result.reasons
