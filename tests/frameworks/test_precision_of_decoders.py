"""A coarser dtype is told from a fault in what a decoder gives beside its scores, too."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import padiff

if TYPE_CHECKING:
    from pathlib import Path


class _Cache:
    """No container that a framework knows: its attributes are results."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.keys, self.values, self.is_full = keys, values, False


@dataclass
class _Given:
    scores: torch.Tensor
    cache: _Cache


class _Gelu(torch.autograd.Function):
    """Has a backward pass of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - torch's
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x * 1.5)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        (x,) = ctx.saved_tensors
        sigmoid = torch.sigmoid(x * 1.5)
        made: torch.Tensor = gradient * (sigmoid + 1.5 * x * sigmoid * (1 - sigmoid))
        return made


_gelu: Any = _Gelu.apply


class _Decoder(nn.Module):
    """Attention with weights as peaked as trained ones are, and a function of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.mix, self.out = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 11)
        with torch.no_grad():
            self.mix.weight.mul_(6)

    def forward(self, ids: torch.Tensor) -> _Given:
        hidden = self.words(ids)
        query, key, value = self.mix(hidden).chunk(3, -1)
        mixed = torch.softmax(query @ key.mT, -1) @ value
        scores = self.out(_gelu(mixed))
        return _Given(scores, _Cache(torch.cat([key, key]) * 3, value * 0.1))


def _record(model: nn.Module, folder: Path, name: str) -> Path:
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    with padiff.record(model, name=name, out=folder) as recorder:
        scores = model(ids).scores
        loss = nn.functional.cross_entropy(scores.float().reshape(8, 11), ids.reshape(8))
        torch.autograd.backward(loss)
    return recorder.path


def test_another_dtype_is_a_match(tmp_path: Path) -> None:
    model = _Decoder()
    known = _record(copy.deepcopy(model), tmp_path, "float32")
    found = _record(model.bfloat16(), tmp_path, "bfloat16")

    assert padiff.compare(known, found).report().startswith("MATCH")


@pytest.mark.parametrize("place", ["keys", "values"])
def test_a_fault_in_what_is_given_beside_the_scores_is_found(place: str, tmp_path: Path) -> None:
    class Wrong(_Decoder):
        def forward(self, ids: torch.Tensor) -> _Given:
            given = super().forward(ids)
            setattr(given.cache, place, getattr(given.cache, place) * 1.001)
            return given

    known = _record(_Decoder(), tmp_path, "float32")
    found = _record(Wrong().bfloat16(), tmp_path, "bfloat16")

    assert padiff.compare(known, found).report().startswith("DIVERGED")


def test_a_path_that_hands_no_gradient_on_is_found(tmp_path: Path) -> None:
    class Cut(_Decoder):
        def forward(self, ids: torch.Tensor) -> _Given:
            given = super().forward(ids)
            with torch.no_grad():
                own = self.out.bias * 0.5
            return _Given(given.scores + own, given.cache)

    class Whole(_Decoder):
        def forward(self, ids: torch.Tensor) -> _Given:
            given = super().forward(ids)
            return _Given(given.scores + self.out.bias * 0.5, given.cache)

    known = _record(Whole(), tmp_path, "float32")
    found = _record(Cut().bfloat16(), tmp_path, "bfloat16")

    assert padiff.compare(known, found).report().startswith("DIVERGED")


class _Routed(nn.Module):
    """Sends each row to one of two experts, sorted by expert: most rows are equal there."""

    def __init__(self, sort: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.act, self.out, self.sort = nn.SiLU(), nn.Linear(8, 8), sort

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice = torch.arange(len(x)) % 3 // 2
        if self.sort == "argsort":
            order = choice.argsort()
        elif self.sort == "topk":
            order = choice.topk(len(x)).indices.flip(0)
        else:
            order = torch.sort(choice).indices
        many = int((choice == 0).sum())
        rows = x[order]
        made = [
            one(part) for one, part in zip(self.experts, (rows[:many], rows[many:]), strict=True)
        ]
        given: torch.Tensor = self.out(self.act(torch.cat(made)[order.argsort()]))
        return given


@pytest.mark.parametrize("sort", ["sort", "argsort", "topk"])
def test_what_rests_on_the_order_of_equal_elements_is_audited(sort: str, tmp_path: Path) -> None:
    paths = []
    for dtype in (torch.float32, torch.bfloat16):
        model = _Routed(sort).to(dtype)
        x = torch.linspace(-3, 3, 96).reshape(12, 8).sin().bfloat16().to(dtype)
        with padiff.record(model, name=str(dtype)[6:], out=tmp_path) as recorder:
            torch.autograd.backward(model(x).float().square().mean())
        paths.append(recorder.path)

    found = padiff.audit(paths[0])["step 0"]
    rests = [one for one in found.values if one.soundness.value != "sound" and one.dtype != "int64"]
    assert [one for one in rests if "no elements" not in one.reason.value] == []
    assert padiff.compare(paths[0], paths[1]).report().startswith("MATCH")
