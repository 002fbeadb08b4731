"""Which adapters there are, and the one that fits a model."""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.dumper.adapter import Adapter
    from padiff.dumper.graphs.graph import Format, Runtime

ADAPTER_GROUP = "padiff.adapters"
"""Entry-point group by which another package adds a framework.

The entry point's name is the framework's importable name; it points to a class (or function)
without parameters that gives an ``Adapter``. What lowers its operators is found by
``padiff.program.lowering.tables.TABLE_GROUP``.
"""

_BUILT_IN = {
    "torch": "TorchAdapter",
    "paddle": "PaddleAdapter",
    "jax": "JaxAdapter",
    "mindspore": "MindSporeAdapter",
}
_PROGRAMS = {"torch": "torch_programs"}
"""Module of what makes modules of exported programs."""
_FORMATS = {"onnx": ("onnx", "OnnxFormat")}
"""Module and class of what reads each kind of graph file."""
_RUNTIMES = {"onnx": ("onnxruntime", "OnnxRuntime")}
"""Module and class of what runs it."""

_WAYS_OUT = {
    "flax": "give a module of linen as nnx.bridge.ToNNX(module, nnx.Rngs(0)).lazy_init(x)",
    "keras": "choose the backend of Keras that is recorded: KERAS_BACKEND=torch",
}
"""What to do about models of packages that no adapter knows, by the package's name."""


def names() -> tuple[str, ...]:
    """Name every framework that has an adapter, installed or not.

    Those of other packages come first: a framework that stands on another (Keras on torch) knows
    its models better.
    """
    others = (name for name in _third_party() if name not in _BUILT_IN)
    return (*others, *_BUILT_IN)


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
            hint=f"pip install 'padiff-align[{name}]'" if name in _BUILT_IN else f"install {name}",
        ) from error
    return adapter


def load_format(name: str) -> Format:
    """Import what reads a kind of graph file.

    Raises:
        ConfigError: The package that it needs is not installed.
    """
    found: Format = _of_graphs(_FORMATS, name, "read")
    return found


def load_runtime(name: str) -> Runtime:
    """Import what runs a kind of graph file.

    Raises:
        ConfigError: The runtime is not installed.
    """
    found: Runtime = _of_graphs(_RUNTIMES, name, "run")
    return found


def _of_graphs(table: Mapping[str, tuple[str, str]], name: str, verb: str) -> Any:  # noqa: ANN401
    package, kind = table[name]
    try:
        return getattr(importlib.import_module(f".{package}", __package__), kind)()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in (name, package):
            raise
        raise ConfigError(
            f"cannot {verb} a model of {name}: {missing} is not installed",
            hint=f"pip install 'padiff-align[{name}]'",
        ) from error


def find(model: object) -> Adapter:
    """Return the adapter whose framework the model belongs to.

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
        hint=way_out(model) or "pass the model itself, not its output or state_dict",
    )


def way_out(thing: object) -> str | None:
    """Describe what to do about a model that no adapter knows; None if nothing is known."""
    packages = [base.__module__.partition(".")[0] for base in type(thing).__mro__]
    return next((_WAYS_OUT[package] for package in packages if package in _WAYS_OUT), None)


def opened(thing: object) -> Any:  # noqa: ANN401 - a model of any framework
    """Return the model that is inside an exported program; any other thing as it is.

    Raises:
        ConfigError: It is a program that cannot be recorded.
    """
    for name in imported():
        if name in _PROGRAMS:
            module = importlib.import_module(f".{_PROGRAMS[name]}", __package__)
            model = module.opened(thing)
            if model is not None:
                return model
    return thing


def imported() -> tuple[str, ...]:
    """Name the frameworks that are in this process already; no model of another can exist."""
    return tuple(name for name in names() if _is_itself(name))


def _is_itself(name: str) -> bool:
    """Return whether a framework is imported and no other's stand-in.

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
