"""Changes of one operator of a model: each makes, of a size, what runs in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from .operators import Change

Arguments = tuple[Any, ...]
Options = dict[str, Any]


def after(function: Callable[[Any, Any], Any]) -> Callable[[Any], Change]:
    """Change what an operator gives; the function gets that and the size."""
    return lambda size: lambda call, args, options: function(call(*args, **options), size)


def instead(function: Callable[..., Any]) -> Callable[[Any], Change]:
    """Run something else; the function gets the size, the operator and its arguments."""
    return lambda size: lambda call, args, options: function(size, call, args, options)


def option(position: int, name: str, value: Callable[[Any, Any], Any]) -> Callable[[Any], Change]:
    """Change one argument; the function gets it (or None) and the size."""

    def change(size: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
        if position < len(args):
            before, after = args[:position], args[position + 1 :]
            return call(*before, value(args[position], size), *after, **options)
        return call(*args, **{**options, name: value(options.get(name), size)})

    return instead(change)


def get(args: Arguments, options: Options, position: int, name: str) -> Any:  # noqa: ANN401
    """Return one argument, by position or by name."""
    return args[position] if position < len(args) else options.get(name)


def has(position: int, name: str) -> Callable[[Arguments, Options], bool]:
    """Return whether an argument is present."""
    return lambda args, options: get(args, options, position, name) is not None


def is_square(args: Arguments, options: Options) -> bool:
    """Return whether the weight is a square matrix."""
    weight = get(args, options, 1, "weight")
    return bool(weight.ndim == 2 and weight.shape[0] == weight.shape[1])


def transposed(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Turn the weight."""
    return call(args[0], args[1].T, *args[2:], **options)


def are_alike(args: Arguments, _: Options) -> bool:
    """Return whether two activations of one shape are added."""
    return (
        len(args) == 2
        and all(isinstance(one, Tensor) and one.is_floating_point() for one in args)
        and args[0].shape == args[1].shape
        and args[0].ndim > 1
        and all(one.requires_grad and not one.is_leaf for one in args)
    )


def is_small(args: Arguments, options: Options) -> bool:
    """Return whether it is a 3 x 3 convolution with padding 1."""
    kernel = get(args, options, 1, "weight").shape[2:]
    return len(kernel) == 2 and min(kernel) == 3 and pads(args, options) == (1, 1)


def pads(args: Arguments, options: Options) -> tuple[int, ...]:
    """Return the padding of a convolution."""
    padding = get(args, options, 4, "padding")
    return tuple(padding) if isinstance(padding, (tuple, list)) else ()


def conv(**other: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Run a 3 x 3 convolution with other options."""

    def change(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = {**dict(zip(names, args, strict=False)), **options}
        if "mode" in other:
            given["input"] = functional.pad(given["input"], (1, 1, 1, 1), mode=other["mode"])
            given["padding"] = 0
        elif "side" in other:
            given["input"] = functional.pad(given["input"], (0, 2, 0, 2))
            given["padding"] = 0
        else:
            given |= other
        return call(**given)

    return change


def one_channel(result: Tensor, size: float) -> Tensor:
    """Scale one channel."""
    factors = torch.ones_like(result)
    factors[(slice(None), slice(2, 3)) if result.ndim == 4 else (..., slice(2, 3))] = 1 + size
    return result * factors


def cat_turned(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Join parts in reverse order."""
    return call(list(args[0])[::-1], *args[1:], **options)


def is_cat(args: Arguments, _: Options) -> bool:
    """Return whether two different parts of one shape are joined."""
    parts = args[0]
    return (
        len(parts) == 2
        and parts[0].shape == parts[1].shape
        and parts[0] is not parts[1]
        and parts[0].is_floating_point()
    )


def gives_alike(args: Arguments, _: Options) -> bool:
    """Return whether a tensor is cut into equal parts."""
    return isinstance(args[0], Tensor) and args[0].is_floating_point() and args[0].ndim == 3


def turned(result: Any, _: Any) -> Any:  # noqa: ANN401
    """Return equal parts in reverse order."""
    alike = len({tuple(part.shape) for part in result}) == 1
    return tuple(result)[::-1] if alike else result


def activation(size: str, _: Any, args: Arguments, __: Options) -> Any:  # noqa: ANN401
    """Apply another activation."""
    others: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": functional.relu,
        "silu": functional.silu,
        "gelu": functional.gelu,
        "tanh gelu": lambda x: functional.gelu(x, approximate="tanh"),
        "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "relu6": functional.relu6,
    }
    return others[size](args[0])


def short(size: str, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Compute in a shorter dtype."""

    def cast(one: object) -> object:
        if isinstance(one, Tensor) and one.is_floating_point():
            return one.to(getattr(torch, size))
        return one

    made = call(*map(cast, args), **{name: cast(one) for name, one in options.items()})
    return made.to(args[0].dtype)


def dropped(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Drop a tenth of what the operator gives."""
    return functional.dropout(args[0], 0.1, training=True)


def later(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Look up the row after the one that was asked for."""
    at = next(
        i for i, one in enumerate(args) if isinstance(one, Tensor) and not one.is_floating_point()
    )
    table = args[1 - at] if at < 2 else options["weight"]
    moved = (args[at] + 1) % len(table)
    return call(*args[:at], moved, *args[at + 1 :], **options)


def other_pool(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Take the maximum for the average, or the average for the maximum."""
    name = call.__name__
    if name == "adaptive_avg_pool2d":
        return functional.adaptive_max_pool2d(*args, **options)
    given = dict(zip(("kernel_size", "stride", "padding"), args[1:4], strict=False)) | {
        key: options[key] for key in ("kernel_size", "stride", "padding") if key in options
    }
    other = functional.avg_pool2d if "max" in name else functional.max_pool2d
    return other(args[0], **given)


class ScaledGradient(torch.autograd.Function):
    """The identity, with a gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:  # noqa: ANN401
        """Return a copy."""
        """Return a copy."""
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        """Scale."""
        """Scale."""
        return gradients[0] * ctx.factor, None


def gradient(result: Tensor, size: float) -> Tensor:
    """Scale the gradient of a result."""
    made: Tensor = ScaledGradient.apply(result, size)  # type: ignore[no-untyped-call]
    return made


def detached(size: int, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Cut the gradient of one operand."""
    return call(*(one.detach() if i == size else one for i, one in enumerate(args)), **options)


def centred(_: Any, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Normalise without taking the mean off."""
    x, weight = args[0], get(args, options, 2, "weight")
    bias, eps = get(args, options, 3, "bias"), get(args, options, 4, "eps") or 1e-5
    made = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight
    return made if bias is None else made + bias


def recurrent(size: str, call: Any, args: Arguments, options: Options) -> Any:  # noqa: ANN401
    """Run a recurrent layer with a fault in its weights: gates exchanged, a bias left out."""
    is_cell = call.__name__.endswith("_cell")
    weights = list(args[2:] if is_cell else args[2])
    matrix = weights[1]
    gates = 4 if "lstm" in call.__name__ else 3
    if size == "gates":
        for index in (0, 1, 2, 3):
            parts = list(weights[index].chunk(gates))
            parts[0], parts[1] = parts[1], parts[0]
            weights[index] = torch.cat(parts)
    elif size == "bias":
        weights[3] = torch.zeros_like(weights[3])
    else:
        weights[1] = matrix * (1 + float(size))
    return call(*args[:2], *(weights if is_cell else (weights, *args[3:])), **options)


def is_number(args: Arguments, _: Options) -> bool:
    """Return whether a tensor is multiplied by, or divided by, a number."""
    return len(args) == 2 and isinstance(args[1], float) and args[1] != 1.0


def has_axis(args: Arguments, _: Options) -> bool:
    """Return whether there are scores of several heads."""
    return isinstance(args[0], Tensor) and args[0].ndim > 3


def is_first_token(args: Arguments, _: Options) -> bool:
    """Return whether the first token is taken."""
    return (
        isinstance(args[0], Tensor)
        and args[0].ndim == 3
        and isinstance(args[1], tuple)
        and args[1][:2] == (slice(None), 0)
    )


def needs_gradient(args: Arguments, _: Options) -> bool:
    """Return whether a gradient flows through the first operand."""
    return isinstance(args[0], Tensor) and args[0].requires_grad and not args[0].is_leaf
