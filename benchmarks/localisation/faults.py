"""Faults to plant into a block of a model, with what should be said of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from .parts import change_class

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {"Block": "cnn", "Layer": "transformer", "Recurrent": "rnn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planted fault."""

    where: str
    """Path below the block; empty for the block itself."""
    change: Callable[[nn.Module], None]
    backward: bool = False
    cause: str = ""
    """What the evidence must mention to have named it; empty if nothing could."""


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:  # noqa: ANN401
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        return gradients[0] * ctx.factor, None


def _set(name: str, value: object) -> Callable[[nn.Module], None]:
    def change(module: nn.Module) -> None:
        setattr(module, name, value)

    return change


def _forward(function: Callable[..., Tensor]) -> Callable[[nn.Module], None]:
    """Replace the forward of a layer; the function gets the layer and its input."""

    def change(module: nn.Module) -> None:
        base = type(module)
        change_class(module, type(base.__name__, (base,), {"forward": function}))

    return change


def _after(function: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], None]:
    """Change what a layer gives."""

    def change(module: nn.Module) -> None:
        base = type(module)

        def forward(self: nn.Module, x: Tensor) -> Tensor:
            return function(base.forward(self, x))

        _forward(forward)(module)

    return change


def _instead(name: str, function: Callable[..., Tensor]) -> Callable[[nn.Module], None]:
    """Replace a method of one object without a trace in its attributes."""

    def change(module: nn.Module) -> None:
        base = type(module)

        def method(_: nn.Module, *given: Tensor) -> Tensor:
            return function(*given)

        change_class(module, type(base.__name__, (base,), {name: method}))

    return change


def _no_bias(self: nn.Linear, x: Tensor) -> Tensor:
    return functional.linear(x, self.weight)


def _transposed(self: nn.Linear, x: Tensor) -> Tensor:
    return functional.linear(x, self.weight.T, self.bias)


def _replicated(self: nn.Conv2d, x: Tensor) -> Tensor:
    padded = functional.pad(x, (1, 1, 1, 1), mode="replicate")
    return functional.conv2d(padded, self.weight, self.bias)


def _one_sided(self: nn.Conv2d, x: Tensor) -> Tensor:
    return functional.conv2d(functional.pad(x, (2, 0, 2, 0)), self.weight, self.bias)


def _by_batch(self: nn.BatchNorm2d, x: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


def _no_weight(self: nn.LayerNorm, x: Tensor) -> Tensor:
    return functional.layer_norm(x, self.normalized_shape, None, self.bias, self.eps)


def _dropped(x: Tensor) -> Tensor:
    return functional.dropout(x, 0.1, training=True)


def _swapped_channels(x: Tensor) -> Tensor:
    order = torch.tensor([1, 0, *range(2, x.shape[1])])
    result: Tensor = x.index_select(1, order)
    return result


def _one_head(x: Tensor) -> Tensor:
    result: Tensor = torch.cat([x[..., :8], x[..., 8:16].flip(1), x[..., 16:]], dim=-1)
    return result


def _scores(query: Tensor, key: Tensor) -> Tensor:
    result: Tensor = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    return result


def _causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = _scores(query, key)
    mask = torch.ones_like(scores, dtype=torch.bool).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1) @ value


def _over_queries(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(_scores(query, key), dim=-2) @ value


def _swapped_query(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(_scores(key, query), dim=-1) @ value


def _last_token_hidden(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = _scores(query, key).clone()
    scores[..., -1] = float("-inf")
    return torch.softmax(scores, dim=-1) @ value


def _detached_value(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.softmax(_scores(query, key), dim=-1) @ value.detach()


def _merged_wrongly(mixed: Tensor) -> Tensor:
    batch, heads, length, width = mixed.shape
    return mixed.reshape(batch, length, heads * width)


def _swapped_gates(given: Tensor, kept: Tensor, state: Tensor) -> Tensor:
    width = state.shape[-1]
    update, reset = torch.sigmoid(given + kept)[:, : 2 * width].chunk(2, dim=-1)
    new = torch.tanh(given[:, 2 * width :] + reset * kept[:, 2 * width :])
    return (1 - update) * new + update * state


def _reset_after(given: Tensor, kept: Tensor, state: Tensor) -> Tensor:
    width = state.shape[-1]
    _, update = torch.sigmoid(given + kept)[:, : 2 * width].chunk(2, dim=-1)
    new = torch.tanh(given[:, 2 * width :] + kept[:, 2 * width :])
    return (1 - update) * new + update * state


def _wrong_gradient(factor: float) -> Callable[[nn.Module], None]:
    def scaled(x: Tensor) -> Tensor:
        result: Tensor = _Scaled.apply(x, factor)  # type: ignore[no-untyped-call]
        return result

    return _after(scaled)


def _residual(**where: str) -> dict[str, Fault]:
    """Give the faults of the addition that every kind of block has."""
    return {
        "residual left out": Fault(
            where="", change=_instead("join", lambda _, hidden: hidden), cause="left out: add",
        ),
        "residual halved": Fault(
            where="", change=_instead("join", lambda x, hidden: 0.5 * x + hidden),
            cause="times 0.5",
        ),
        "wrong gradient": Fault(
            where=where["layer"], change=_wrong_gradient(1.25), backward=True, cause="1.25",
        ),
        "gradient of another sign": Fault(
            where=where["layer"], change=_wrong_gradient(-1.0), backward=True,
            cause="opposite sign",
        ),
        "detached residual": Fault(
            where="", change=_instead("join", lambda x, hidden: x.detach() + hidden), backward=True,
            cause="cut off by",
        ),
    }  # fmt: skip


FAULTS: dict[str, dict[str, Fault]] = {
    "cnn": {
        "epsilon 1e-2": Fault(
            where="bn1", change=_set("eps", 1e-2), cause="eps"
        ),
        "replicated padding": Fault(
            where="conv2", change=_forward(_replicated), cause="replicate",
        ),
        "padding on one side": Fault(
            where="conv1", change=_forward(_one_sided), cause="pad([",
        ),
        "doubled output": Fault(
            where="bn2", change=_after(lambda x: 2 * x), cause="times 2",
        ),
        "shifted output": Fault(
            where="conv2", change=_after(lambda x: x + 0.25), cause="plus 0.25",
        ),
        "training mode": Fault(
            where="bn1", change=_forward(_by_batch), cause="training of batch_norm",
        ),
        "swapped channels": Fault(
            where="conv1", change=_after(_swapped_channels), cause="index_select",
        ),
        "dropout active": Fault(
            where="bn1", change=_after(_dropped), cause="dropout(0.1)",
        ),
        **_residual(layer="conv2"),
    },
    "transformer": {
        "epsilon 1e-2": Fault(
            where="norm1", change=_set("eps", 1e-2), cause="eps"
        ),
        "no attention scale": Fault(
            where="attention", change=_set("scale", 1.0), cause="reference has 0.3535534",
        ),
        "causal mask": Fault(
            where="attention", change=_instead("attend", _causal), cause="tril",
        ),
        "softmax over queries": Fault(
            where="attention", change=_instead("attend", _over_queries), cause="dim of softmax: -2",
        ),
        "swapped queries": Fault(
            where="attention", change=_instead("attend", _swapped_query),
            cause="operands in another order",
        ),
        "last token hidden": Fault(
            where="attention", change=_instead("attend", _last_token_hidden),
            cause="__setitem__([..., -1], -inf)",
        ),
        "heads merged wrongly": Fault(
            where="attention", change=_instead("merge", _merged_wrongly),
            cause="where the reference has transpose(1, 2)",
        ),
        "one head wrong": Fault(
            where="attention.query", change=_after(_one_head), cause="flip(1)",
        ),
        "tanh GELU": Fault(
            where="act", change=_set("approximate", "tanh"), cause="approximate",
        ),
        "ReLU for GELU": Fault(
            where="act", change=_forward(lambda _, x: functional.relu(x)),
            cause="relu where the reference has gelu",
        ),
        "bias left out": Fault(
            where="fc2", change=_forward(_no_bias), cause="bias of linear left out",
        ),
        "weight of the norm left out": Fault(
            where="norm2", change=_forward(_no_weight), cause="weight of layer_norm left out",
        ),
        "transposed weight": Fault(
            where="attention.out", change=_forward(_transposed), cause="transposed",
        ),
        "detached value": Fault(
            where="attention", change=_instead("attend", _detached_value), backward=True,
            cause="the flow is cut behind it",
        ),
        **_residual(layer="fc1"),
    },
    "rnn": {
        "swapped gates": Fault(where="", change=_instead("gates", _swapped_gates)),
        "reset left out": Fault(where="", change=_instead("gates", _reset_after)),
        "epsilon 1e-2": Fault(
            where="norm", change=_set("eps", 1e-2), cause="eps"
        ),
        "bias left out": Fault(
            where="inner", change=_forward(_no_bias), cause="bias of linear left out",
        ),
        "time reversed": Fault(
            where="norm", change=_after(lambda x: x.flip(1)), cause="flip(1)",
        ),
        **_residual(layer="inner"),
    },
}  # fmt: skip


def plant(block: nn.Module, fault: str) -> None:
    """Put a fault into a block, by its name in ``FAULTS``."""
    names = [kind.__name__ for kind in type(block).__mro__]
    found = FAULTS[next(KINDS[name] for name in names if name in KINDS)][fault]
    found.change(block.get_submodule(found.where) if found.where else block)
