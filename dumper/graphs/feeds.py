"""What a graph is fed: arrays by the names of its inputs, held against their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper.adapter import Keywords
from padiff.dumper.runs.inputs import Inputs, load_inputs, renamed
from padiff.dumper.runs.replay import Recorded, inputs_of
from padiff.dumper.runs.target import near_names
from padiff.dumpfile import ConfigError, is_floating, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from padiff.dumper.runs.inputs import InputSource

    from .graph import Array, Graph, Port


def read_feeds(
    graph: Graph, path: Path, sources: Sequence[InputSource], dump: Path | None
) -> dict[str, Array]:
    """Read the inputs of a graph.

    Args:
        graph: What takes them.
        path: Of its file, for messages.
        sources: Where they come from, in order.
        dump: A dump whose root inputs are fed instead.

    Returns:
        Arrays by name, in the graph's order, floating ones in the dtype that it states; nothing
        where neither sources nor a dump were given.

    Raises:
        ConfigError: An input is missing, has a name that the graph does not know, or another dtype
            or shape than the graph states.
        DumpError: The dump cannot be read.
    """
    if not sources and dump is None:
        return {}
    names = tuple(port.name for port in graph.inputs)
    forward = Keywords(names=names, takes_any=False)
    given = load_inputs(sources, forward) if dump is None else renamed(inputs_of(dump), forward)
    found = _by_name(given, names, path)
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected the inputs {', '.join(map(repr, names))}, "
            f"found no {missing[0]!r}",
            hint=f"save it under that name with numpy.savez, or give --inputs {missing[0]}=FILE",
        )
    return {port.name: _fitted(port, found[port.name], path) for port in graph.inputs}


def _by_name(given: Inputs, names: Sequence[str], path: Path) -> dict[str, Array]:
    """Return the arrays by the names of a graph's inputs; what is None was not given."""
    if len(given.positional) > len(names):
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected {len(names)} inputs, found "
            f"{len(given.positional)}",
            hint=f"it takes {', '.join(map(repr, names))}",
        )
    found = dict(zip(names, given.positional, strict=False)) | dict(given.keywords)
    for name in found:
        if name not in names and found[name] is not None:
            raise ConfigError(
                f"cannot run model {str(path)!r}: it has no input {name!r}",
                hint=near_names(name, names),
            )
    arrays = {
        name: one.array if isinstance(one, Recorded) else one
        for name, one in found.items()
        if name in names and one is not None
    }
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ConfigError(
                f"cannot run model {str(path)!r}: expected an array for the input {name!r}, found "
                f"{type(array).__name__}"
            )
    return arrays


def _fitted(port: Port, array: Array, path: Path) -> Array:
    """Return an array in the dtype that an input states.

    Raises:
        ConfigError: Its shape or its kind of number is another.
    """
    wanted = [str(size) if size is not None else "any" for size in port.shape]
    is_alike = len(wanted) == array.ndim and all(
        size in (None, own) for size, own in zip(port.shape, array.shape, strict=True)
    )
    if not is_alike:
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected the input {port.name!r} of shape "
            f"({', '.join(wanted)}), found {tuple(array.shape)}",
            hint="feed what it was exported with, or export it with dynamic shapes",
        )
    name = array.dtype.name
    if name != port.dtype and not (is_floating(name) and is_floating(port.dtype)):
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected the input {port.name!r} of dtype "
            f"{port.dtype}, found {name}",
            hint=f"save it as {port.dtype}: array.astype({port.dtype!r})",
        )
    return np.ascontiguousarray(array, numpy_dtype(port.dtype)).reshape(array.shape)
