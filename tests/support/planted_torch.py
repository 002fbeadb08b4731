"""Faults to plant in the bundled torch examples; each function changes a model in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


def behave(module: Any, **methods: Callable[..., Any]) -> None:  # noqa: ANN401
    """Give one module other methods without a trace in its name or attributes."""
    kind = type(module)
    module.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, **methods})


def with_gradient_of(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Give a value bit by bit, but let the gradient flow through another one."""
    return value.detach() + (other - other.detach())


# -- ResNet


def _block(model: Any, stage: int, place: int) -> Any:  # noqa: ANN401
    return model.resnet.encoder.stages[stage].layers[place]


def _epsilon(model: Any) -> None:  # noqa: ANN401
    _block(model, 2, 0).layer[1].normalization.eps = 1e-3


def _epsilon_backward(model: Any) -> None:  # noqa: ANN401
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        state = (self.running_mean, self.running_var, self.weight, self.bias, False, 0.1)
        right = functional.batch_norm(x, *state, 1e-5)
        return with_gradient_of(right, functional.batch_norm(x, *state, 1e-2))

    behave(_block(model, 2, 0).layer[1].normalization, forward=forward)


def _conv_weight(model: Any) -> None:  # noqa: ANN401
    _block(model, 1, 1).layer[0].convolution.weight.data[5, 3, 1, 1] += 0.05


def _padding(model: Any) -> None:  # noqa: ANN401
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return functional.conv2d(functional.pad(x, (0, 1, 0, 1)), self.weight, stride=2)

    behave(_block(model, 2, 0).layer[0].convolution, forward=forward)


def _stride(model: Any) -> None:  # noqa: ANN401
    first, second = _block(model, 2, 0).layer
    first.convolution.stride, second.convolution.stride = (1, 1), (2, 2)


def _detached_shortcut(model: Any) -> None:  # noqa: ANN401
    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        hidden = self.layer(x)
        hidden += self.shortcut(x).detach()
        result: torch.Tensor = self.activation(hidden)
        return result

    behave(_block(model, 1, 0), forward=forward)


# -- the encoder


def _norm_epsilon(model: Any) -> None:  # noqa: ANN401
    model.encoder.layers[1].norm1.eps = 1e-3


def _tanh_gelu(model: Any) -> None:  # noqa: ANN401
    def activation(hidden: torch.Tensor) -> torch.Tensor:
        return functional.gelu(hidden, approximate="tanh")

    model.encoder.layers[1].activation = activation


def _tanh_gelu_backward(model: Any) -> None:  # noqa: ANN401
    def activation(hidden: torch.Tensor) -> torch.Tensor:
        right = functional.gelu(hidden)
        return with_gradient_of(right, functional.gelu(hidden, approximate="tanh"))

    model.encoder.layers[1].activation = activation


def _linear_weight(model: Any) -> None:  # noqa: ANN401
    model.encoder.layers[0].linear2.weight.data[7, 11] += 0.05


def _attend(change: Callable[..., tuple[torch.Tensor, ...]]) -> Callable[..., Any]:
    """Make a self-attention that computes what torch's does, after a change to q, k and v."""

    def forward(self: Any, query: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:  # noqa: ANN401
        batch, length, width = query.shape
        fused = functional.linear(query, self.in_proj_weight, self.in_proj_bias)
        split = fused.reshape(batch, length, 3, self.num_heads, self.head_dim)
        q, k, v = change(*split.permute(2, 0, 3, 1, 4).unbind(0))
        mixed = torch.softmax(q @ k.transpose(2, 3) * self.head_dim**-0.5, dim=-1) @ v
        joined = mixed.transpose(1, 2).reshape(batch, length, width)
        return functional.linear(joined, self.out_proj.weight, self.out_proj.bias), None

    return forward


def _attention(layer: int, change: Callable[..., tuple[Any, ...]]) -> Callable[[Any], None]:
    def plant(model: Any) -> None:  # noqa: ANN401
        behave(model.encoder.layers[layer].self_attn, forward=_attend(change))

    return plant


def _detached_attention(model: Any) -> None:  # noqa: ANN401
    layer = model.encoder.layers[1]
    attend = type(layer)._sa_block

    def block(self: Any, *args: Any, **options: Any) -> torch.Tensor:  # noqa: ANN401
        result: torch.Tensor = attend(self, *args, **options)
        return result.detach()

    behave(layer, _sa_block=block)


FAULTS: dict[str, dict[str, Callable[[Any], None]]] = {
    "resnet": {
        "none": lambda _: None,
        "epsilon": _epsilon,
        "epsilon, backward only": _epsilon_backward,
        "weight": _conv_weight,
        "padding": _padding,
        "stride": _stride,
        "detached branch": _detached_shortcut,
    },
    "transformer": {
        "none": _attention(0, lambda q, k, v: (q, k, v)),
        "epsilon": _norm_epsilon,
        "tanh GELU": _tanh_gelu,
        "tanh GELU, backward only": _tanh_gelu_backward,
        "weight": _linear_weight,
        "missing scale": _attention(0, lambda q, k, v: (q * q.shape[-1] ** 0.5, k, v)),
        "query gradient": _attention(0, lambda q, k, v: (with_gradient_of(q, 3 * q), k, v)),
        "detached value": _attention(1, lambda q, k, v: (q, k, v.detach())),
        "detached branch": _detached_attention,
    },
}
"""By example and name: what to do to the model."""
