"""Changes of a module in place: its settings, its weights, its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable


def attribute(*names: str) -> Callable[[Any], Callable[[nn.Module], None]]:
    """Set those of the attributes that the module has."""

    def sized(size: object) -> Callable[[nn.Module], None]:
        def change(module: nn.Module) -> None:
            for name in names:
                if hasattr(module, name):
                    setattr(module, name, size)

        return change

    return sized


def has_attribute(*names: str) -> Callable[[nn.Module], bool]:
    """Return whether the module has one of the attributes."""
    return lambda module: any(hasattr(module, name) for name in names)


def theta(size: float) -> Callable[[nn.Module], None]:
    """Rotate by another base."""

    def change(module: Any) -> None:  # noqa: ANN401 - untyped library
        powers = torch.linspace(0, 1, len(module.inv_freq) + 1, dtype=module.inv_freq.dtype)[:-1]
        module.inv_freq = module.inv_freq * (1 + size) ** -powers

    return change


def exchange(size: tuple[str, str]) -> Callable[[nn.Module], None]:
    """Exchange two children."""

    def change(module: nn.Module) -> None:
        pair = module.get_submodule(size[0]), module.get_submodule(size[1])
        setattr(module, size[0], pair[1])
        setattr(module, size[1], pair[0])

    return change


def has_both(module: nn.Module) -> bool:
    """Return whether queries and keys are projected by matrices of one shape."""
    children = dict(module.named_children())
    pairs = [
        (children.get(one), children.get(other))
        for one, other in (("q_proj", "k_proj"), ("query", "key"))
    ]
    return any(
        isinstance(one, nn.Linear)
        and isinstance(other, nn.Linear)
        and one.weight.shape == other.weight.shape
        for one, other in pairs
    )


def exchange_projections(_: Any) -> Callable[[nn.Module], None]:  # noqa: ANN401
    """Exchange the projections of queries and keys."""

    def change(module: nn.Module) -> None:
        is_short = hasattr(module, "q_proj")
        exchange(("q_proj", "k_proj") if is_short else ("query", "key"))(module)

    return change


def exchange_layers(_: Any) -> Callable[[nn.Module], None]:  # noqa: ANN401
    """Exchange the first two layers."""

    def change(module: nn.Module) -> None:
        exchange(("0", "1"))(module)

    return change


def are_layers(module: nn.Module) -> bool:
    """Return whether it is a list of equal blocks."""
    if not isinstance(module, nn.ModuleList) or len(module) < 2:
        return False
    shapes = [[tuple(p.shape) for p in layer.parameters()] for layer in list(module)[:2]]
    has_children = all(list(layer.children()) for layer in module)
    return has_children and shapes[0] == shapes[1] and type(module[0]) is type(module[1])


def stored(size: str | float) -> Callable[[nn.Module], None]:
    """Change the stored weight."""

    def change(module: Any) -> None:  # noqa: ANN401 - untyped library
        weight = module.weight.data
        if size in ("bfloat16", "float16"):
            weight.copy_(weight.to(getattr(torch, str(size))))
        elif size == "one element":
            weight.view(-1)[7] += 0.05
        else:
            weight.mul_(1 + float(size))

    return change


def has_matrix(module: nn.Module) -> bool:
    """Return whether the module has a weight of at least two axes."""
    weight = getattr(module, "weight", None)
    return isinstance(weight, nn.Parameter) and weight.ndim > 1


def train(_: Any) -> Callable[[nn.Module], None]:  # noqa: ANN401
    """Put the module into training mode."""

    def change(module: nn.Module) -> None:
        module.train()

    return change


def is_dropout(module: nn.Module) -> bool:
    """Return whether the module drops anything in training."""
    return isinstance(module, nn.Dropout) and module.p > 0


def is_batch_norm(module: nn.Module) -> bool:
    """Return whether the module has running statistics."""
    return isinstance(module, nn.BatchNorm2d)


def doubled_at_last(size: Any) -> Callable[[nn.Module], None]:  # noqa: ANN401
    """Let the head have a weight of its own, a little off the tied one."""

    def change(module: Any) -> None:  # noqa: ANN401
        module.weight = nn.Parameter(module.weight.detach() * (1 + size))

    return change


def is_tied(module: nn.Module) -> bool:
    """Return whether the weight of a head is that of the words."""
    return isinstance(module, nn.Linear) and module.out_features == 100
