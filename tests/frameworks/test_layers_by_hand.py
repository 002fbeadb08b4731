"""Layers of one kind, of which each side calls one and writes the other one by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

import padiff
from padiff.comparer import Verdict

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 8


class _Net(nn.Module):
    def __init__(self, *, is_first_called: bool) -> None:
        super().__init__()
        self.first, self.second = (nn.LayerNorm(WIDTH) for _ in range(2))
        self.last = nn.Linear(WIDTH, WIDTH)
        self.is_first_called = is_first_called

    def _normed(self, norm: nn.LayerNorm, x: torch.Tensor) -> torch.Tensor:
        if (norm is self.first) is self.is_first_called:
            return torch.as_tensor(norm(x))
        rest = x - x.mean(-1, keepdim=True)
        scale = torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + norm.eps)
        return rest / scale * norm.weight + norm.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self._normed(self.first, x)) + x
        return torch.as_tensor(self.last(self._normed(self.second, x)))


def _compared(tmp_path: Path, candidate: _Net) -> padiff.Comparison:
    reference = _Net(is_first_called=True)
    draws = torch.Generator().manual_seed(0)
    for weight in reference.parameters():
        weight.data = torch.randn(weight.shape, generator=draws)
    candidate.load_state_dict(reference.state_dict())
    paths = []
    for name, net in (("reference", reference), ("candidate", candidate)):
        with padiff.record(net, name=name, out=tmp_path) as recorder:
            net(torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))).sum().backward()
        paths.append(recorder.path)
    return padiff.compare(paths[0], paths[1])


def test_a_layer_is_paired_with_the_one_that_holds_its_weights_though_no_call_runs_it(
    tmp_path: Path,
) -> None:
    result = _compared(tmp_path, _Net(is_first_called=False))

    assert result.verdict is Verdict.MATCH
    assert result.origins == ()
    paths = {(row.reference, row.candidate) for row in result.steps[0].tree}
    assert not {("first", "second"), ("second", "first")} & paths
