"""Which adapters there are, and the one that fits a model."""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from padiff.dumper.adapter import Adapter

ADAPTER_GROUP = "padiff.adapters"
"""Entry-point group by which another package adds a framework.

The entry point's name is the framework's importable name; it points to a class (or function)
without parameters that gives an ``Adapter``.
"""

_BUILT_IN = {"torch": "TorchAdapter", "paddle": "PaddleAdapter"}


def names() -> tuple[str, ...]:
    """Name every framework that has an adapter, installed or not."""
    return tuple(dict.fromkeys((*_BUILT_IN, *_third_party())))


def load(name: str) -> Adapter:
    """Import one framework and give its adapter.

    Raises:
        ConfigError: No adapter has that name, or its framework is not installed.
    """
    others = _third_party()
    if name not in _BUILT_IN and name not in others:
        known = ", ".join(names())
        raise ConfigError(f"cannot load framework {name!r}: expected one of {known}")
    try:
        if name in _BUILT_IN:
            module = importlib.import_module(f".{name}", __package__)
            adapter: Adapter = getattr(module, _BUILT_IN[name])()
        else:
            adapter = others[name].load()()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != name:
            raise
        raise ConfigError(
            f"cannot load framework {name!r}: it is not installed",
            hint=f"pip install 'padiff[{name}]'" if name in _BUILT_IN else f"install {name}",
        ) from error
    return adapter


def find(model: object) -> Adapter:
    """Give the adapter whose framework the model belongs to.

    Only frameworks that are imported already are asked: the model could not exist otherwise.

    Raises:
        ConfigError: No adapter knows the model.
    """
    for name in imported():
        adapter = load(name)
        if adapter.is_model(model):
            return adapter
    kind = type(model)
    raise ConfigError(
        f"cannot record {kind.__module__}.{kind.__qualname__}: expected a module of "
        f"{' or '.join(names())}, found a class that none of them knows",
        hint="pass the model itself, not its output or state_dict",
    )


def imported() -> tuple[str, ...]:
    """Name the frameworks that are in this process already; no model of another can exist."""
    return tuple(name for name in names() if _is_itself(name))


def _is_itself(name: str) -> bool:
    """Tell whether a framework is imported and no other's stand-in.

    ``paddle.enable_compat()`` makes ``import torch`` give a proxy whose ``torch.nn.Module`` is
    Paddle's; its file is Paddle's too.
    """
    file = getattr(sys.modules.get(name), "__file__", None)
    return name in sys.modules and (
        file is None or name in (Path(file).parent.name, Path(file).stem)
    )


@functools.cache
def _third_party() -> dict[str, EntryPoint]:
    """Look at the metadata of everything that is installed; that takes tens of milliseconds."""
    return {point.name: point for point in entry_points(group=ADAPTER_GROUP)}
