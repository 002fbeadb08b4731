"""Layers of Keras on its torch backend: modules of torch that keep parts and weights elsewhere.

A layer of Keras holds those of a list outside of ``_modules``, and in one dictionary of parameters
its own variables beside those of all layers inside. ``Sequential`` keeps a second model of the same
layers, which is never called.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from padiff.dumper.adapter import NamedTensor
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch

__all__ = ["is_keras", "parts", "switch_keras", "variables"]

_HIDDEN = ("_torch_params", "_functional")


def is_keras(module: torch.nn.Module) -> bool:
    """Return whether this is a layer or model of Keras."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(module, keras.Layer)


def parts(layer: Any) -> Iterator[tuple[str, torch.nn.Module]]:  # noqa: ANN401 - keras.Layer
    """Yield the layers inside: attributes by their names, those of lists by the layers' own."""
    attributes = {name: one for name, one in layer._modules.items() if name not in _HIDDEN}
    yield from attributes.items()
    seen = set(map(id, attributes.values()))
    for one in layer._layers:
        if id(one) not in seen and not isinstance(one, sys.modules["keras"].layers.InputLayer):
            yield one.name, one


def variables(layer: Any) -> Iterator[NamedTensor]:  # noqa: ANN401 - keras.Layer
    """Yield what a layer owns itself, weights first."""
    for held, is_weight in (
        (layer._trainable_variables, True),
        (layer._non_trainable_variables, False),
    ):
        for one in held:
            yield NamedTensor(name=one.name, tensor=one._value, is_weight=is_weight)


def switch_keras(modules: Iterable[tuple[str, torch.nn.Module]], *, training: bool) -> None:
    """Set the flag of each layer; torch's own method does not find those of lists.

    Raises:
        ConfigError: The layers should train: they do not ask the flag.
    """
    if training:
        raise ConfigError(
            "cannot run a model of Keras in training mode: its layers ask for an argument of the "
            "call, not for a mode",
            hint="return a torch.nn.Module whose forward calls model(x, training=True)",
        )
    for _, module in modules:
        module.training = False
