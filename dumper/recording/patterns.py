"""Modules that a caller names: by patterns, or by the modules themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from padiff.dumper import adapters
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumper.adapter import Model


def patterns_of(option: str, given: Any, *models: Model) -> tuple[str, ...]:  # noqa: ANN401
    """Return patterns of modules as text.

    Raises:
        ConfigError: Something is neither, or a module of another model.
    """
    several = given if isinstance(given, list | tuple | set | frozenset) else (given,)
    paths = {} if all(isinstance(one, str) for one in several) else _paths(models)
    found = []
    for one in several:
        path = one if isinstance(one, str) else paths.get(id(one))
        if path is None:
            kind = type(one)
            raise ConfigError(
                f"cannot use {option}=: expected patterns, or modules of the model, found a "
                f"{kind.__module__}.{kind.__qualname__}",
                hint=f"{option}=['encoder.*', 'type:Linear', model.head]",
            )
        found.append(path)
    return tuple(found)


def _paths(models: Iterable[Model]) -> dict[int, str]:
    found: dict[int, str] = {}
    for model in models:
        adapter = adapters.find(model)
        for path, module in adapter.named_modules(adapter.unwrap(model)):
            found.setdefault(id(module), path or "(root)")
    return found
