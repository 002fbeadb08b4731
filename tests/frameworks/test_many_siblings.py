"""More layers that are given one value than there are orders to try: heads of a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from padiff.dumpfile import ConfigError
from tests.support.carrying import carried

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WIDTH = 6
X = torch.tensor(np.random.default_rng(5).standard_normal((3, WIDTH)), dtype=torch.float32)
WORDS = ("red", "green", "blue", "cyan", "pink", "grey")
OTHERS = ("one", "two", "three", "four", "five", "six")


class _Heads(nn.Module):
    """Layers behind one other, each with a value of its own or all in one sum."""

    def __init__(self, names: Sequence[str], defined: Sequence[int], *, is_sum: bool) -> None:
        super().__init__()
        self.body = nn.Linear(WIDTH, WIDTH)
        for place in defined:
            setattr(self, names[place], nn.Linear(WIDTH, WIDTH))
        self.names, self.is_sum = names, is_sum

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor] | torch.Tensor:
        x = self.body(x).tanh()
        made = [getattr(self, name)(x) for name in self.names]
        if self.is_sum:
            return torch.stack(made).sum(0)
        return {f"task{number}": y.sigmoid() for number, y in enumerate(made)}


def _carried(folder: Path, *, is_sum: bool, has_program: bool = True) -> float:
    reference = _Heads(WORDS, range(6), is_sum=is_sum)
    candidate = _Heads(OTHERS, (3, 1, 5, 0, 4, 2), is_sum=is_sum)
    plan, error = carried(
        folder, reference, candidate, X, mean=0.2, seed=0, has_program=has_program
    )
    assert not plan.ambiguous
    return error


@pytest.mark.parametrize("has_program", [False, True])
def test_heads_are_told_each_by_the_value_that_it_alone_changes(
    tmp_path: Path, *, has_program: bool
) -> None:
    assert _carried(tmp_path, is_sum=False, has_program=has_program) < 1e-5


def test_terms_of_a_sum_that_nothing_tells_apart_stay_ambiguous(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ambiguous"):
        _carried(tmp_path, is_sum=True, has_program=False)


def test_terms_of_a_sum_are_told_by_their_place_in_it(tmp_path: Path) -> None:
    assert _carried(tmp_path, is_sum=True) < 1e-5
