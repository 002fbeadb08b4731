"""Operators that a user adds: two functions, a strategy, and a formula if there is one."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ConfigError

from .row import Difference, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from .row import Strategy


def operator(
    name: str,
    *,
    torch: Callable[..., Any],
    paddle: Callable[..., Any],
    strategy: Strategy,
    formula: Callable[..., Any] | None = None,
    note: str = "",
) -> Row:
    """Return a row for two functions of one file.

    Workers load that file by its path; it imports a framework inside the functions, since padiff
    reads it where none is.

    Args:
        name: Of the operator.
        torch: Takes torch's tensors, by the names that the strategy draws.
        paddle: Takes Paddle's.
        strategy: Draws the arguments.
        formula: Takes float64 arrays and returns what is right, one array or several; None: the
            two results are held against each other.
        note: What a reader should know.

    Raises:
        ConfigError: A function has no name at the top of a file.
    """
    frameworks = {
        side: Difference(name=_place(function))
        for side, function in (("torch", torch), ("paddle", paddle))
    }
    return Row(name=name, frameworks=frameworks, strategy=strategy, formula=formula, note=note)


def _place(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", "<lambda>")
    file = inspect.getsourcefile(function)
    if file is None or not name.isidentifier():
        raise ConfigError(
            f"cannot use {name!r} as an operator: expected a function at the top of a file",
            hint="workers load it by the file and its name",
        )
    return f"{Path(file).resolve()}:{name}"


def read_operators(path: Path) -> list[Row]:
    """Read a file of the user's operators: it is run, and its ``OPERATORS`` are taken.

    Raises:
        ConfigError: It cannot be read, or has none.
    """
    if not path.is_file():
        raise ConfigError(f"cannot read operators from {str(path)!r}: there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "OPERATORS", None)
    if not isinstance(found, list | tuple) or not all(isinstance(one, Row) for one in found):
        raise ConfigError(
            f"cannot read operators from {str(path)!r}: expected a list OPERATORS",
            hint="make each with padiff.ops.operator: see docs/operators.md",
        )
    return list(found)
