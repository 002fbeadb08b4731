"""Composed layers on which the weight rules are tested: sections 2 and 3, reparametrisations."""

from __future__ import annotations

from typing import Any

import paddle
import torch

from tests.frameworks.weight_rule_cases import Case, evaluated

__all__ = ["COMPOSITES", "REPARAMETRISED", "SPECTRAL_LAYER"]

tn, pn = torch.nn, paddle.nn
norms = tn.utils.parametrizations

_WHOLE: Any = None
"""One norm for the whole weight; the frameworks' stubs do not know it."""


class _TorchOwn(tn.Module):
    """A user's own class: a parameter, children by key and by number, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = tn.Parameter(torch.empty(4, 4))
        self.by_key = tn.ModuleDict({"b": tn.Linear(4, 4), "a": tn.Linear(4, 4)})
        self.by_number = tn.ModuleList([tn.Linear(4, 4), tn.Linear(4, 4)])
        self.many = tn.ParameterList([torch.empty(4, 4), torch.empty(4, 4)])
        self.named = tn.ParameterDict({"y": torch.empty(4), "x": torch.empty(4)})
        self.register_buffer("scale", torch.empty(4))

    def forward(self, x: Any) -> object:  # noqa: ANN401 - either framework's
        return _own_forward(self, x)


class _PaddleOwn(pn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", paddle.empty([4]))
        self.named = pn.ParameterDict({key: self._made([4]) for key in ("x", "y")})
        self.many = pn.ParameterList([self._made([4, 4]), self._made([4, 4])])
        self.by_number = pn.LayerList([pn.Linear(4, 4), pn.Linear(4, 4)])
        self.by_key = pn.LayerDict({"a": pn.Linear(4, 4), "b": pn.Linear(4, 4)})
        self.shift = self._made([4, 4])

    def _made(self, shape: list[int]) -> Any:  # noqa: ANN401 - untyped framework
        return self.create_parameter(shape)

    def forward(self, x: Any) -> object:  # noqa: ANN401 - either framework's
        return _own_forward(self, x)


def _own_forward(model: Any, x: Any) -> object:  # noqa: ANN401 - either framework's
    x = model.by_key["b"](model.by_key["a"](x @ model.shift) * model.scale)
    x = model.by_number[1](model.by_number[0](x) ** 2) @ model.many[1] @ (model.many[0] * 2)
    return x * model.named["x"] + model.named["y"]


class _WithLayer(pn.Layer):
    """A convolution whose weight a layer beside it normalises."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pn.Conv2D(3, 4, 3)
        self.norm = pn.SpectralNorm([4, 3, 3, 3], power_iters=0, dtype="float64")

    def forward(self, x: Any) -> object:  # noqa: ANN401 - untyped framework
        return pn.functional.conv2d(x, self.norm(self.conv.weight), self.conv.bias)


COMPOSITES = {
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
    "encoder_layers_with_norm_first": Case(
        torch=lambda: tn.TransformerEncoder(
            tn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True),
            2,
            tn.LayerNorm(8),
            enable_nested_tensor=False,
        ),
        paddle=lambda: pn.TransformerEncoder(
            pn.TransformerEncoderLayer(8, 2, 16, 0.0, normalize_before=True), 2, pn.LayerNorm(8)
        ),
        shapes=((2, 5, 8),),
    ),
    "own_class": Case(torch=_TorchOwn, paddle=_PaddleOwn, shapes=((3, 4),)),
}
"""Layers made of layers."""

REPARAMETRISED = {
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
        torch=lambda: evaluated(norms.spectral_norm(tn.Conv2d(3, 4, 3))),
        paddle=lambda: evaluated(pn.utils.spectral_norm(pn.Conv2D(3, 4, 3))),
        shapes=((2, 3, 5, 5),),
    ),
    "spectral_norm_linear": Case(
        torch=lambda: evaluated(norms.spectral_norm(tn.Linear(4, 4))),
        paddle=lambda: evaluated(pn.utils.spectral_norm(pn.Linear(4, 4))),
        shapes=((2, 4),),
    ),
    "spectral_norm_by_hooks": Case(
        torch=lambda: evaluated(tn.utils.spectral_norm(tn.Linear(4, 4))),
        paddle=lambda: evaluated(pn.utils.spectral_norm(pn.Linear(4, 4))),
        shapes=((2, 4),),
    ),
    "weight_norm_by_hooks": Case(
        torch=lambda: tn.utils.weight_norm(tn.Conv1d(3, 4, 3)),
        paddle=lambda: pn.utils.weight_norm(pn.Conv1D(3, 4, 3)),
        shapes=((2, 3, 5),),
    ),
    "weight_norm_linear_whole": Case(
        torch=lambda: norms.weight_norm(tn.Linear(4, 4), dim=_WHOLE),
        paddle=lambda: pn.utils.weight_norm(pn.Linear(4, 4), dim=_WHOLE),
        shapes=((2, 4),),
    ),
    "weight_norm_linear_square": Case(
        torch=lambda: norms.weight_norm(tn.Linear(4, 4)),
        paddle=lambda: pn.utils.weight_norm(pn.Linear(4, 4), dim=1),
        shapes=((2, 4),),
    ),
    "spectral_norm_conv_transpose": Case(
        torch=lambda: evaluated(norms.spectral_norm(tn.ConvTranspose2d(3, 4, 3))),
        paddle=lambda: evaluated(pn.utils.spectral_norm(pn.Conv2DTranspose(3, 4, 3))),
        shapes=((2, 3, 5, 5),),
    ),
    "spectral_norm_training": Case(
        # The parametrization iterates u before v, so that it agrees only where both have settled.
        torch=lambda: tn.utils.spectral_norm(tn.Linear(4, 4)),
        paddle=lambda: pn.utils.spectral_norm(pn.Linear(4, 4)),
        shapes=((2, 4),),
    ),
}
"""Layers whose weight is made of others; in eval mode where power iteration would move them."""

SPECTRAL_LAYER = Case(
    torch=lambda: evaluated(norms.spectral_norm(tn.Conv2d(3, 4, 3))),
    paddle=_WithLayer,
    shapes=((2, 3, 5, 5),),
)
"""Forward alone: in Paddle 3.3 the layer's gradient is not that of what its forward computes."""
