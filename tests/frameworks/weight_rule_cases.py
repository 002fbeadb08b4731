"""The single layers on which the weight rules are tested, one of each framework: section 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import paddle
import torch

__all__ = ["LAYERS", "Case", "Factory", "call", "evaluated", "first"]

Factory = Callable[[], Any]
tn, pn = torch.nn, paddle.nn


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer of both frameworks."""

    torch: Factory
    paddle: Factory
    shapes: tuple[tuple[int, ...], ...]
    high: int | None = None
    """For integer inputs: the number of rows of the table."""
    call: Callable[..., Any] | None = None
    """How to call the layer; both frameworks alike."""
    one_sided: tuple[str, ...] = (".num_batches_tracked",)
    """Slots of torch that Paddle does not keep."""


def _attention(**options: object) -> Factory:
    return lambda: tn.MultiheadAttention(8, 2, batch_first=True, **options)


def call(model: object, *inputs: object) -> Any:  # noqa: ANN401 - either framework's
    """Call a layer of either framework."""
    assert callable(model)
    return model(*inputs)


def _log_softmax(model: Any, one: Any) -> object:  # noqa: ANN401 - either framework's
    """All clusters take part: one label of each."""
    labels = np.array([0, 4, 5, 9, 10, 19])
    make = torch.tensor if isinstance(one, torch.Tensor) else paddle.to_tensor
    return model(one, make(labels))[0]


def _recurrent(name: str, *, layers: int, both: bool) -> Case:
    other = {"RNN": "SimpleRNN"}.get(name, name)
    direction = "bidirect" if both else "forward"
    return Case(
        torch=lambda: getattr(tn, name)(
            3, 4, num_layers=layers, bidirectional=both, batch_first=True
        ),
        paddle=lambda: getattr(pn, other)(3, 4, num_layers=layers, direction=direction),
        shapes=((2, 5, 3),),
        call=first,
    )


def _run_cells(name: str, *, both: bool) -> Case:
    cell = getattr(pn, {"RNN": "SimpleRNN"}.get(name, name) + "Cell")
    return Case(
        torch=lambda: getattr(tn, name)(3, 4, batch_first=True, bidirectional=both),
        paddle=lambda: pn.BiRNN(cell(3, 4), cell(3, 4)) if both else pn.RNN(cell(3, 4)),
        shapes=((2, 5, 3),),
        call=first,
    )


def evaluated(model: Any) -> object:  # noqa: ANN401 - either framework's
    """Power iteration would move the vectors that are to be compared."""
    model.eval()
    return model


def _batch_norm(library: object, name: str) -> object:
    return evaluated(getattr(library, name)(4))


def first(model: object, *inputs: object) -> object:
    found = call(model, *inputs)
    return found[0] if isinstance(found, tuple) else found


def _self(model: object, one: object) -> object:
    return first(model, one, one, one)


LAYERS = {
    "linear": Case(torch=lambda: tn.Linear(5, 3), paddle=lambda: pn.Linear(5, 3), shapes=((4, 5),)),
    "linear_square": Case(
        torch=lambda: tn.Linear(4, 4), paddle=lambda: pn.Linear(4, 4), shapes=((3, 4),)
    ),
    "linear_without_bias": Case(
        torch=lambda: tn.Linear(4, 4, bias=False),
        paddle=lambda: pn.Linear(4, 4, bias_attr=False),
        shapes=((3, 4),),
    ),
    "linear_compat": Case(
        torch=lambda: tn.Linear(4, 4),
        paddle=lambda: paddle.compat.nn.Linear(4, 4),
        shapes=((3, 4),),
    ),
    "quantizable_linear": Case(
        torch=lambda: tn.modules.linear.NonDynamicallyQuantizableLinear(4, 4),
        paddle=lambda: pn.Linear(4, 4),
        shapes=((3, 4),),
    ),
    "conv1d": Case(
        torch=lambda: tn.Conv1d(4, 6, 3, groups=2),
        paddle=lambda: pn.Conv1D(4, 6, 3, groups=2),
        shapes=((2, 4, 9),),
    ),
    "conv2d": Case(
        torch=lambda: tn.Conv2d(4, 4, 3), paddle=lambda: pn.Conv2D(4, 4, 3), shapes=((2, 4, 7, 7),)
    ),
    "conv3d": Case(
        torch=lambda: tn.Conv3d(2, 3, 2),
        paddle=lambda: pn.Conv3D(2, 3, 2),
        shapes=((1, 2, 4, 4, 4),),
    ),
    "conv_transpose1d": Case(
        torch=lambda: tn.ConvTranspose1d(4, 6, 3),
        paddle=lambda: pn.Conv1DTranspose(4, 6, 3),
        shapes=((2, 4, 5),),
    ),
    "conv_transpose2d": Case(
        torch=lambda: tn.ConvTranspose2d(4, 4, 3, groups=2),
        paddle=lambda: pn.Conv2DTranspose(4, 4, 3, groups=2),
        shapes=((2, 4, 5, 5),),
    ),
    "conv_transpose3d": Case(
        torch=lambda: tn.ConvTranspose3d(2, 3, 2),
        paddle=lambda: pn.Conv3DTranspose(2, 3, 2),
        shapes=((1, 2, 3, 3, 3),),
    ),
    "batch_norm1d": Case(
        torch=lambda: tn.BatchNorm1d(4), paddle=lambda: pn.BatchNorm1D(4), shapes=((5, 4),)
    ),
    "batch_norm2d": Case(
        torch=lambda: tn.BatchNorm2d(4), paddle=lambda: pn.BatchNorm2D(4), shapes=((2, 4, 3, 3),)
    ),
    "batch_norm3d": Case(
        torch=lambda: tn.BatchNorm3d(4), paddle=lambda: pn.BatchNorm3D(4), shapes=((2, 4, 2, 2, 2),)
    ),
    "batch_norm_old": Case(
        torch=lambda: tn.BatchNorm2d(4),
        paddle=lambda: pn.BatchNorm(4, dtype="float64"),
        shapes=((2, 4, 3, 3),),
    ),
    "batch_norm_plain": Case(
        torch=lambda: tn.BatchNorm2d(4, affine=False),
        paddle=lambda: pn.BatchNorm2D(4, weight_attr=False, bias_attr=False),
        shapes=((2, 4, 3, 3),),
    ),
    "layer_norm": Case(
        torch=lambda: tn.LayerNorm(6), paddle=lambda: pn.LayerNorm(6), shapes=((2, 6),)
    ),
    "layer_norm_of_two_axes": Case(
        torch=lambda: tn.LayerNorm((3, 4)),
        paddle=lambda: pn.LayerNorm((3, 4)),
        shapes=((2, 3, 4),),
    ),
    "group_norm": Case(
        torch=lambda: tn.GroupNorm(2, 6), paddle=lambda: pn.GroupNorm(2, 6), shapes=((2, 6, 5, 5),)
    ),
    "instance_norm1d": Case(
        torch=lambda: tn.InstanceNorm1d(4, affine=True),
        paddle=lambda: pn.InstanceNorm1D(4),
        shapes=((2, 4, 6),),
    ),
    "instance_norm2d": Case(
        torch=lambda: tn.InstanceNorm2d(4, affine=True),
        paddle=lambda: pn.InstanceNorm2D(4),
        shapes=((2, 4, 3, 3),),
    ),
    "instance_norm3d": Case(
        torch=lambda: tn.InstanceNorm3d(4, affine=True),
        paddle=lambda: pn.InstanceNorm3D(4),
        shapes=((2, 4, 2, 3, 3),),
    ),
    "embedding": Case(
        torch=lambda: tn.Embedding(7, 7),
        paddle=lambda: pn.Embedding(7, 7),
        shapes=((3, 4),),
        high=7,
    ),
    "prelu": Case(torch=lambda: tn.PReLU(4), paddle=lambda: pn.PReLU(4), shapes=((2, 4, 3),)),
    "adaptive_softmax": Case(
        torch=lambda: tn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0, head_bias=True),
        paddle=lambda: pn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0, head_bias=True),
        shapes=((6, 8),),
        call=_log_softmax,
    ),
    "bilinear": Case(
        torch=lambda: tn.Bilinear(3, 4, 5),
        paddle=lambda: pn.Bilinear(3, 4, 5),
        shapes=((2, 3), (2, 4)),
    ),
    **{
        f"{name.lower()}_{layers}_{'bi' if both else 'one'}": _recurrent(
            name, layers=layers, both=both
        )
        for name in ("LSTM", "GRU", "RNN")
        for layers in (1, 2)
        for both in (False, True)
    },
    "lstm_with_projection": Case(
        torch=lambda: tn.LSTM(3, 4, num_layers=2, proj_size=2, batch_first=True),
        paddle=lambda: pn.LSTM(3, 4, num_layers=2, proj_size=2),
        shapes=((2, 5, 3),),
        call=first,
    ),
    "lstm_as_cell_runner": Case(
        torch=lambda: tn.LSTM(3, 4, batch_first=True),
        paddle=lambda: pn.RNN(pn.LSTMCell(3, 4)),
        shapes=((2, 5, 3),),
        call=first,
    ),
    "lstm_as_two_cell_runners": Case(
        torch=lambda: tn.LSTM(3, 4, batch_first=True, bidirectional=True),
        paddle=lambda: pn.BiRNN(pn.LSTMCell(3, 4), pn.LSTMCell(3, 4)),
        shapes=((2, 5, 3),),
        call=first,
    ),
    "lstm_cell": Case(
        torch=lambda: tn.LSTMCell(3, 4),
        paddle=lambda: pn.LSTMCell(3, 4),
        shapes=((2, 3),),
        call=lambda m, x: m(x)[0],
    ),
    "gru_cell": Case(
        torch=lambda: tn.GRUCell(3, 4),
        paddle=lambda: pn.GRUCell(3, 4),
        shapes=((2, 3),),
        call=first,
    ),
    "rnn_cell": Case(
        torch=lambda: tn.RNNCell(3, 4),
        paddle=lambda: pn.SimpleRNNCell(3, 4),
        shapes=((2, 3),),
        call=first,
    ),
    "attention_packed": Case(
        torch=_attention(),
        paddle=lambda: pn.MultiHeadAttention(8, 2),
        shapes=((2, 5, 8),),
        call=_self,
    ),
    "attention_separate": Case(
        torch=_attention(kdim=6, vdim=4),
        paddle=lambda: pn.MultiHeadAttention(8, 2, kdim=6, vdim=4),
        shapes=((2, 5, 8), (2, 3, 6), (2, 3, 4)),
        call=first,
    ),
    "attention_without_bias": Case(
        torch=_attention(bias=False),
        paddle=lambda: pn.MultiHeadAttention(8, 2, bias_attr=False),
        shapes=((2, 5, 8),),
        call=_self,
    ),
    "attention_compat": Case(
        torch=_attention(),
        paddle=lambda: paddle.compat.nn.MultiheadAttention(8, 2, batch_first=True, dtype="float64"),
        shapes=((2, 5, 8),),
        call=_self,
    ),
    "attention_compat_separate": Case(
        torch=_attention(kdim=6, vdim=4),
        paddle=lambda: paddle.compat.nn.MultiheadAttention(
            8, 2, kdim=6, vdim=4, batch_first=True, dtype="float64"
        ),
        shapes=((2, 5, 8), (2, 3, 6), (2, 3, 4)),
        call=first,
    ),
    "linear_compat_oblong": Case(
        torch=lambda: tn.Linear(5, 3),
        paddle=lambda: paddle.compat.nn.Linear(5, 3),
        shapes=((4, 5),),
    ),
    "conv2d_without_bias": Case(
        torch=lambda: tn.Conv2d(4, 4, 3, bias=False),
        paddle=lambda: pn.Conv2D(4, 4, 3, bias_attr=False),
        shapes=((2, 4, 7, 7),),
    ),
    **{
        f"batch_norm{n}d_eval": Case(
            torch=partial(_batch_norm, tn, f"BatchNorm{n}d"),
            paddle=partial(_batch_norm, pn, f"BatchNorm{n}D"),
            shapes=((2, 4, *(3,) * n),),
        )
        for n in (1, 2, 3)
    },
    "batch_norm_old_eval": Case(
        torch=lambda: evaluated(tn.BatchNorm2d(4)),
        paddle=lambda: evaluated(pn.BatchNorm(4, dtype="float64")),
        shapes=((2, 4, 3, 3),),
    ),
    "batch_norm_plain_eval": Case(
        torch=lambda: evaluated(tn.BatchNorm2d(4, affine=False)),
        paddle=lambda: evaluated(pn.BatchNorm2D(4, weight_attr=False, bias_attr=False)),
        shapes=((2, 4, 3, 3),),
    ),
    "batch_norm_untracked": Case(
        torch=lambda: tn.BatchNorm2d(4, track_running_stats=False),
        paddle=lambda: pn.BatchNorm2D(4),
        shapes=((2, 4, 3, 3),),
    ),
    "instance_norm_tracked": Case(
        torch=lambda: tn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        paddle=lambda: pn.InstanceNorm2D(4),
        shapes=((2, 4, 3, 3),),
        one_sided=(".running_mean", ".running_var", ".num_batches_tracked"),
    ),
    "layer_norm_without_bias": Case(
        torch=lambda: tn.LayerNorm((3, 4), bias=False),
        paddle=lambda: pn.LayerNorm((3, 4), bias_attr=False),
        shapes=((2, 3, 4),),
    ),
    "prelu_of_one": Case(torch=tn.PReLU, paddle=pn.PReLU, shapes=((2, 4, 3),)),
    "bilinear_without_bias": Case(
        torch=lambda: tn.Bilinear(3, 4, 5, bias=False),
        paddle=lambda: pn.Bilinear(3, 4, 5, bias_attr=False),
        shapes=((2, 3), (2, 4)),
    ),
    "lstm_with_projection_bi": Case(
        torch=lambda: tn.LSTM(3, 4, 2, proj_size=2, batch_first=True, bidirectional=True),
        paddle=lambda: pn.LSTM(3, 4, 2, proj_size=2, direction="bidirect"),
        shapes=((2, 5, 3),),
        call=first,
    ),
    **{
        f"{name.lower()}_as_{'two_cell_runners' if both else 'cell_runner'}": _run_cells(
            name, both=both
        )
        for name in ("GRU", "RNN")
        for both in (False, True)
    },
}
