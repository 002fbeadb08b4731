"""Walking modules of flax.nnx: what is inside, what is owned."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .jax_tape import is_array, raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumper.adapter import Module


def nnx_package() -> Any:  # noqa: ANN401
    """Return flax.nnx if it was imported; without it there is no model."""
    return sys.modules.get("flax.nnx")


def is_variable(thing: object) -> bool:
    """Return whether this is a variable of flax: what modules hold arrays in."""
    nnx = nnx_package()
    return nnx is not None and isinstance(thing, nnx.Variable)


def held_by(module: Module) -> Iterator[tuple[str, Any]]:
    """Yield what a module holds, by its own name; a list of modules holds its parts."""
    nnx = nnx_package()
    if isinstance(module, nnx.List):
        yield from ((str(place), one) for place, one in enumerate(module))
        return
    for name, one in vars(module).items():
        if not name.startswith("_pytree"):
            yield name, one


def _parts(held: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if isinstance(held, dict):
        yield from ((str(key), one) for key, one in held.items())
    elif isinstance(held, list | tuple):
        yield from ((str(place), one) for place, one in enumerate(held))


def children(module: Module) -> Iterator[tuple[str, Module]]:
    """Yield the modules that one holds; those of a ``Sequential`` by their numbers alone."""
    nnx = nnx_package()
    for name, held in held_by(module):
        if isinstance(module, nnx.Sequential) and isinstance(held, nnx.List):
            yield from children(held)
        elif isinstance(held, nnx.Module):
            yield name, held
        else:
            for key, one in _parts(held):
                if isinstance(one, nnx.Module):
                    yield f"{name}.{key}", one


def variables(name: str, held: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Yield the variables and arrays that a module holds under a name."""
    if (is_variable(held) and is_array(raw(held))) or is_array(held):
        yield name, held
    for key, one in _parts(held):
        if is_variable(one) and is_array(raw(one)):
            yield f"{name}.{key}", one
