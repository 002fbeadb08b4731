"""Weights that hold the reference's elements in another way: transposed, reordered, scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.proving import Made, Making

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZE = 8


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv1d(SIZE, SIZE, 3, padding=1)
        self.query = nn.Linear(SIZE, SIZE)
        self.lstm = nn.LSTM(SIZE, SIZE, batch_first=True)
        self.norm = nn.LayerNorm(SIZE)
        nn.init.normal_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401 - of torch
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.norm(self.lstm(self.query(x))[0])


def _kernel(net: Any) -> None:  # noqa: ANN401 - a _Net
    net.conv.weight.data = net.conv.weight.data.flip(2)


def _gates(net: Any) -> None:  # noqa: ANN401 - a _Net
    i, f, g, o = net.lstm.weight_hh_l0.data.chunk(4)
    net.lstm.weight_hh_l0.data = torch.cat([i, f, o, g])


def _heads(net: Any) -> None:  # noqa: ANN401 - a _Net
    weight = net.query.weight.data.reshape(2, 2, 2, SIZE)
    net.query.weight.data = weight.transpose(1, 2).reshape(SIZE, SIZE)


def _turned(net: Any) -> None:  # noqa: ANN401 - a _Net
    net.query.weight.data = net.query.weight.data.T.contiguous()


def _less(net: Any) -> None:  # noqa: ANN401 - a _Net
    net.norm.weight.data = net.norm.weight.data - 1


def _scaled(net: Any) -> None:  # noqa: ANN401 - a _Net
    net.query.weight.data = net.query.weight.data * 0.3


def _forgotten(net: Any) -> None:  # noqa: ANN401 - a _Net
    nn.init.ones_(net.norm.weight)


FAULTS: dict[str, Callable[[Any], None]] = {
    "parameter conv.weight: reversed along axis 2": _kernel,
    "parameter lstm.weight_hh_l0: equal blocks along axis 0 in the order 0, 1, 3, 2": _gates,
    "parameter query.weight: equal blocks along axis 0 in the order 0, 2, 1, 3, 4, 6, 5, 7": _heads,
    "parameter query.weight: transposed": _turned,
    "parameter query.weight: each element times 0.3": _scaled,
    "parameter norm.weight: each element 1 less": _less,
    "parameter norm.weight: each element is 1": _forgotten,
}


def _recorded(folder: Path, name: str, change: Callable[[Any], None] = lambda _: None) -> Path:
    net = _Net()
    change(net)
    with padiff.record(net, name=name, out=folder) as recorder:
        net(torch.arange(2.0 * 5 * SIZE).reshape(2, 5, SIZE).sin())
    return recorder.path


@pytest.mark.parametrize("words", FAULTS)
def test_a_report_says_how_a_weight_was_made(words: str, tmp_path: Path) -> None:
    reference = _recorded(tmp_path, "reference")
    candidate = _recorded(tmp_path, "candidate", FAULTS[words])

    found = padiff.compare(reference, candidate)

    assert f"not the reference's: {words} (" in str(found).partition("\n")[0]


class _Port(paddle.nn.Layer):
    """The second layer as it should be, the first with the matrix as torch has it."""

    def __init__(self, net: Any) -> None:  # noqa: ANN401 - a Sequential
        super().__init__()
        self.first = paddle.nn.Linear(SIZE, SIZE)
        self.second = paddle.nn.Linear(SIZE, SIZE)
        for layer, known, turned in ((self.first, net[0], False), (self.second, net[1], True)):
            weight = known.weight.detach().numpy()
            layer.weight.set_value(weight.T if turned else weight)
            layer.bias.set_value(known.bias.detach().numpy())

    def forward(self, x: Any) -> Any:  # noqa: ANN401 - of paddle
        return self.second(self.first(x))


def test_a_matrix_of_torch_that_paddle_got_as_it_is_names_the_rule(tmp_path: Path) -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE))
    port = _Port(net)
    data = np.random.default_rng(0).standard_normal((4, SIZE)).astype(np.float32)
    with padiff.record(net, name="reference", out=tmp_path) as reference:
        net(torch.from_numpy(data))
    with padiff.record(port, name="candidate", out=tmp_path) as candidate:
        port(paddle.to_tensor(data))

    found = padiff.compare(reference.path, candidate.path)

    executed = found.steps[0].executed
    assert executed is not None
    (difference,) = executed.function.differences
    assert difference.made == Made(kind=Making.PLAIN, rule="transpose")
    assert "as it lies in the reference, without the rule 'transpose'" in str(found)
