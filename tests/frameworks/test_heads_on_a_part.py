"""A head that looks at all tokens, of which one counts, against one that looks at that one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 8
TOKENS = torch.tensor(np.random.default_rng(4).standard_normal((2, 5, WIDTH)))


class _Net(nn.Module):
    def __init__(self, *, is_whole: bool, token: int = -1, eps: float = 1e-5) -> None:
        super().__init__()
        self.body, self.dense = nn.GRU(WIDTH, WIDTH, batch_first=True), nn.Linear(WIDTH, WIDTH)
        self.norm, self.out = nn.LayerNorm(WIDTH, eps=eps), nn.Linear(WIDTH, 3)
        self.is_whole, self.token = is_whole, token

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)[0]
        x = x if self.is_whole else x[:, self.token]
        x = self.out(self.norm(torch.tanh(self.dense(x))))
        return x[:, self.token] if self.is_whole else x


def compared(tmp_path: Path, known: _Net, found: _Net, *, backward: bool = True) -> Comparison:
    torch.manual_seed(1)
    for parameter in known.parameters():
        nn.init.normal_(parameter, std=0.4)
    found.load_state_dict(known.state_dict())
    for name, model in (("known", known), ("found", found)):
        model.double()
        with record(model, name=name, out=tmp_path):
            made = model(TOKENS.clone().requires_grad_())
            if backward:
                (made**2).sum().backward()
    return compare(tmp_path / "known", tmp_path / "found", CompareSettings(atol=1e-6))


def named(result: Comparison) -> list[str]:
    return [one.pair.reference.address.module for one in result.origins if one.pair.reference]


@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_computed_and_not_used_is_left_out(
    tmp_path: Path, *, turned: bool, backward: bool
) -> None:
    known, found = _Net(is_whole=not turned), _Net(is_whole=turned)

    result = compared(tmp_path, known, found, backward=backward)

    assert result.verdict is Verdict.MATCH, result.reasons
    judged = {one.reference.address.module for one in result.steps[0].pairs if one.reference}
    assert {"dense", "norm", "out"} <= judged


@pytest.mark.parametrize("turned", [False, True])
def test_another_token_is_named_at_the_code_that_takes_it(tmp_path: Path, *, turned: bool) -> None:
    models = _Net(is_whole=True), _Net(is_whole=False, token=-2)

    result = compared(tmp_path, *(models[::-1] if turned else models))

    assert named(result) == [""]


@pytest.mark.parametrize("turned", [False, True])
def test_a_layer_that_is_wrong_is_named(tmp_path: Path, *, turned: bool) -> None:
    models = _Net(is_whole=True), _Net(is_whole=False, eps=0.1)

    result = compared(tmp_path, *(models[::-1] if turned else models))

    assert named(result) == ["norm"]
