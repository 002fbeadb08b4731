"""The layers on which the weight rules are tested: one of each framework, and how to call it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
import torch

__all__ = ["CASES", "Case", "call"]

Factory = Callable[[], Any]
tn, pn = torch.nn, paddle.nn
norms = tn.utils.parametrizations

_WHOLE: Any = None
"""One norm for the whole weight; the frameworks' stubs do not know it."""


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
        call=_first,
    )


def _eval(model: Any) -> object:  # noqa: ANN401 - either framework's
    """Power iteration would move the vectors that are to be compared."""
    model.eval()
    return model


def _first(model: object, *inputs: object) -> object:
    found = call(model, *inputs)
    return found[0] if isinstance(found, tuple) else found


def _self(model: object, one: object) -> object:
    return _first(model, one, one, one)


CASES = {
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
        call=_first,
    ),
    "lstm_as_cell_runner": Case(
        torch=lambda: tn.LSTM(3, 4, batch_first=True),
        paddle=lambda: pn.RNN(pn.LSTMCell(3, 4)),
        shapes=((2, 5, 3),),
        call=_first,
    ),
    "lstm_as_two_cell_runners": Case(
        torch=lambda: tn.LSTM(3, 4, batch_first=True, bidirectional=True),
        paddle=lambda: pn.BiRNN(pn.LSTMCell(3, 4), pn.LSTMCell(3, 4)),
        shapes=((2, 5, 3),),
        call=_first,
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
        call=_first,
    ),
    "rnn_cell": Case(
        torch=lambda: tn.RNNCell(3, 4),
        paddle=lambda: pn.SimpleRNNCell(3, 4),
        shapes=((2, 3),),
        call=_first,
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
        call=_first,
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
    "encoder_layer": Case(
        torch=lambda: tn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        paddle=lambda: pn.TransformerEncoderLayer(8, 2, 16, dropout=0.0),
        shapes=((2, 5, 8),),
    ),
    "decoder_layer": Case(
        torch=lambda: tn.TransformerDecoderLayer(8, 2, 8, dropout=0.0, batch_first=True),
        paddle=lambda: pn.TransformerDecoderLayer(8, 2, 8, dropout=0.0),
        shapes=((2, 5, 8), (2, 3, 8)),
    ),
    "transformer": Case(
        torch=lambda: tn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True),
        paddle=lambda: pn.Transformer(8, 2, 2, 2, 16, dropout=0.0),
        shapes=((2, 5, 8), (2, 3, 8)),
    ),
    "containers": Case(
        torch=lambda: tn.Sequential(tn.Linear(4, 4), tn.ReLU(), tn.Linear(4, 4), tn.LayerNorm(4)),
        paddle=lambda: pn.Sequential(pn.Linear(4, 4), pn.ReLU(), pn.Linear(4, 4), pn.LayerNorm(4)),
        shapes=((3, 4),),
    ),
    "weight_norm_conv": Case(
        torch=lambda: norms.weight_norm(tn.Conv2d(3, 4, 3)),
        paddle=lambda: pn.utils.weight_norm(pn.Conv2D(3, 4, 3)),
        shapes=((2, 3, 5, 5),),
    ),
    "weight_norm_conv_transpose": Case(
        torch=lambda: norms.weight_norm(tn.ConvTranspose2d(3, 4, 3)),
        paddle=lambda: pn.utils.weight_norm(pn.Conv2DTranspose(3, 4, 3)),
        shapes=((2, 3, 5, 5),),
    ),
    "weight_norm_linear": Case(
        torch=lambda: norms.weight_norm(tn.Linear(5, 3)),
        paddle=lambda: pn.utils.weight_norm(pn.Linear(5, 3), dim=1),
        shapes=((2, 5),),
    ),
    "weight_norm_linear_columns": Case(
        torch=lambda: norms.weight_norm(tn.Linear(5, 3), dim=1),
        paddle=lambda: pn.utils.weight_norm(pn.Linear(5, 3), dim=0),
        shapes=((2, 5),),
    ),
    "weight_norm_whole": Case(
        torch=lambda: norms.weight_norm(tn.Conv2d(3, 4, 3), dim=_WHOLE),
        paddle=lambda: pn.utils.weight_norm(pn.Conv2D(3, 4, 3), dim=_WHOLE),
        shapes=((2, 3, 5, 5),),
    ),
    "spectral_norm_conv": Case(
        torch=lambda: _eval(norms.spectral_norm(tn.Conv2d(3, 4, 3))),
        paddle=lambda: _eval(pn.utils.spectral_norm(pn.Conv2D(3, 4, 3))),
        shapes=((2, 3, 5, 5),),
    ),
    "spectral_norm_linear": Case(
        torch=lambda: _eval(norms.spectral_norm(tn.Linear(4, 4))),
        paddle=lambda: _eval(pn.utils.spectral_norm(pn.Linear(4, 4))),
        shapes=((2, 4),),
    ),
    "spectral_norm_by_hooks": Case(
        torch=lambda: _eval(tn.utils.spectral_norm(tn.Linear(4, 4))),
        paddle=lambda: _eval(pn.utils.spectral_norm(pn.Linear(4, 4))),
        shapes=((2, 4),),
    ),
    "weight_norm_by_hooks": Case(
        torch=lambda: tn.utils.weight_norm(tn.Conv1d(3, 4, 3)),
        paddle=lambda: pn.utils.weight_norm(pn.Conv1D(3, 4, 3)),
        shapes=((2, 3, 5),),
    ),
}
