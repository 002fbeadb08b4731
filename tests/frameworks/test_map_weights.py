"""Map files decide which weights go where, in a live model too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch

from padiff.dumper.weights.weights import assign_weight
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class _Torch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = torch.nn.Linear(4, 4, bias=False)
        self.right = torch.nn.Linear(4, 4, bias=False)


class _Paddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.gate = paddle.nn.Linear(4, 4, bias_attr=False)
        self.value = paddle.nn.Linear(4, 4, bias_attr=False)


def _map(folder: Path, *entries: str) -> Path:
    path = folder / "map.toml"
    path.write_text("".join(entries))
    return path


def _pair(reference: str, candidate: str) -> str:
    return f'[[pair]]\nreference = "{reference}"\ncandidate = "{candidate}"\n'


def test_pairs_of_the_map_say_where_weights_go(tmp_path: Path) -> None:
    reference, candidate = _Torch(), _Paddle()
    path = _map(tmp_path, _pair("left", "value"), _pair("right", "gate"))

    assign_weight(reference, candidate, map=path)

    left, right = (one.weight.detach().numpy().T for one in (reference.left, reference.right))
    np.testing.assert_array_equal(candidate.value.weight.numpy(), left)
    np.testing.assert_array_equal(candidate.gate.weight.numpy(), right)


def test_a_map_that_names_nothing_changes_no_weight(tmp_path: Path) -> None:
    candidate = _Paddle()
    before = candidate.gate.weight.numpy().copy()

    with pytest.raises(ConfigError, match=r"\[\[pair\]\] 2"):
        assign_weight(
            _Torch(), candidate, map=_map(tmp_path, _pair("left", "value"), _pair("up", "gate"))
        )

    np.testing.assert_array_equal(candidate.gate.weight.numpy(), before)
