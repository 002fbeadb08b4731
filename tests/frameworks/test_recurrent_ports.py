"""A recurrent layer against a loop over cells, and against cells that an author wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch
from paddle import nn as pn
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumper.weights.weights import assign_weight
from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

INPUT, HIDDEN = 5, 6
DATA = np.random.default_rng(0).standard_normal((2, 4, INPUT)).astype(np.float32)


class TorchLayer(nn.Module):
    """Run a recurrent layer of torch and a head."""

    def __init__(self, layer: nn.Module, width: int = HIDDEN) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.layer(x)[0])
        return made


class PaddleLayer(pn.Layer):
    """Run a recurrent layer of Paddle and a head."""

    def __init__(self, layer: pn.Layer, width: int = HIDDEN) -> None:
        super().__init__()
        self.runner = layer
        self.out = pn.Linear(width, 3)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.out(self.runner(x)[0])
        return made


class PaddleLoop(pn.Layer):
    """Step through cells of Paddle, layer by layer."""

    def __init__(self, cells: Sequence[pn.Layer]) -> None:
        super().__init__()
        self.cells = pn.LayerList(cells)
        self.out = pn.Linear(HIDDEN, 3)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        rows = [x[:, place] for place in range(x.shape[1])]
        for cell in self.cells:
            state, made = None, []
            for row in rows:
                given, state = cell(row, state)
                made.append(given)
            rows = made
        stacked: paddle.Tensor = self.out(paddle.stack(rows, axis=1))
        return stacked


class TorchLoop(nn.Module):
    """Step through cells of torch, layer by layer."""

    def __init__(self, cells: Sequence[nn.Module]) -> None:
        super().__init__()
        self.steps = nn.ModuleList(cells)
        self.head = nn.Linear(HIDDEN, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = list(x.unbind(1))
        for cell in self.steps:
            state, given = None, []
            for row in rows:
                state = cell(row, state)
                given.append(state[0] if isinstance(state, tuple) else state)
            rows = given
        made: torch.Tensor = self.head(torch.stack(rows, 1))
        return made


class OwnGru(pn.Layer):
    """Write a GRU cell out with two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.x2h = pn.Linear(INPUT, 3 * HIDDEN)
        self.h2h = pn.Linear(HIDDEN, 3 * HIDDEN)

    def forward(self, x: paddle.Tensor, state: paddle.Tensor | None) -> tuple[paddle.Tensor, ...]:
        state = paddle.zeros([x.shape[0], HIDDEN]) if state is None else state
        reset, update, new = paddle.chunk(self.x2h(x), 3, axis=-1)
        kept_reset, kept_update, kept_new = paddle.chunk(self.h2h(state), 3, axis=-1)
        gate = paddle.nn.functional.sigmoid(update + kept_update)
        made = paddle.tanh(new + paddle.nn.functional.sigmoid(reset + kept_reset) * kept_new)
        state = gate * state + (1 - gate) * made
        return state, state


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two models that compute the same."""

    torch: Callable[[], nn.Module]
    paddle: Callable[[], pn.Layer]


class PaddleStack(pn.Layer):
    """Run one recurrent layer of Paddle after the other, in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.out = pn.Linear(2 * HIDDEN, 3)
        self.rnn1 = pn.LSTM(INPUT, HIDDEN, direction="bidirect")
        self.rnn2 = pn.LSTM(2 * HIDDEN, HIDDEN, direction="bidirect")

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.out(self.rnn2(self.rnn1(x)[0])[0])
        return made


def torch_layer(name: str, count: int = 1) -> nn.Module:
    return TorchLayer(getattr(nn, name)(INPUT, HIDDEN, count, batch_first=True))


def paddle_cells(name: str, count: int = 1) -> list[pn.Layer]:
    return [getattr(pn, name)(INPUT if not n else HIDDEN, HIDDEN) for n in range(count)]


CASES = {
    "LSTM against cells": Case(
        torch=lambda: torch_layer("LSTM"), paddle=lambda: PaddleLoop(paddle_cells("LSTMCell"))
    ),
    "two layers against two cells": Case(
        torch=lambda: torch_layer("LSTM", 2),
        paddle=lambda: PaddleLoop(paddle_cells("LSTMCell", 2)),
    ),
    "two layers against two modules": Case(
        torch=lambda: TorchLayer(
            nn.LSTM(INPUT, HIDDEN, 2, batch_first=True, bidirectional=True), 2 * HIDDEN
        ),
        paddle=PaddleStack,
    ),
    "GRU against cells": Case(
        torch=lambda: torch_layer("GRU"), paddle=lambda: PaddleLoop(paddle_cells("GRUCell"))
    ),
    "RNN against cells": Case(
        torch=lambda: torch_layer("RNN"), paddle=lambda: PaddleLoop(paddle_cells("SimpleRNNCell"))
    ),
    "cells against Paddle's GRU": Case(
        torch=lambda: TorchLoop([nn.GRUCell(INPUT, HIDDEN), nn.GRUCell(HIDDEN, HIDDEN)]),
        paddle=lambda: PaddleLayer(pn.GRU(INPUT, HIDDEN, num_layers=2)),
    ),
    "cells against Paddle's runner": Case(
        torch=lambda: TorchLoop([nn.LSTMCell(INPUT, HIDDEN)]),
        paddle=lambda: PaddleLayer(pn.RNN(pn.LSTMCell(INPUT, HIDDEN))),
    ),
    "GRU against a cell of two linear layers": Case(
        torch=lambda: torch_layer("GRU"), paddle=lambda: PaddleLoop([OwnGru()])
    ),
}


@pytest.mark.parametrize("is_forward", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_weights_are_carried_over_and_the_models_agree(
    name: str, tmp_path: Path, *, is_forward: bool
) -> None:
    made = CASES[name].torch().eval(), CASES[name].paddle()
    made[1].eval()
    reference, candidate = made if is_forward else made[::-1]

    plan = assign_weight(reference, candidate)

    assert not plan.missing
    assert not plan.ambiguous
    for model, side in ((reference, "reference"), (candidate, "candidate")):
        with record(model, name=side, out=tmp_path):
            data = torch.tensor(DATA) if isinstance(model, nn.Module) else paddle.to_tensor(DATA)
            model(data)
    result = compare(tmp_path / "reference", tmp_path / "candidate", CompareSettings(atol=1e-5))
    weights = [
        pair
        for pair in result.steps[0].pairs
        if pair.candidate and pair.candidate.address.role is Role.WEIGHT
    ]
    assert result.verdict is Verdict.MATCH, result.reasons
    assert {pair.verdict for pair in weights} <= {Verdict.MATCH, Verdict.SKIPPED}
