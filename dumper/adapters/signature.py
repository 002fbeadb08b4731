"""What a forward method accepts by keyword; plain introspection, no framework."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from padiff.dumper.adapter import Keywords

if TYPE_CHECKING:
    from collections.abc import Callable


def keywords_of(function: Callable[..., Any]) -> Keywords:
    """Name the parameters accepted by keyword; a function that cannot be inspected takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return Keywords(names=(), takes_any=True)
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return Keywords(
        names=tuple(item.name for item in parameters if item.kind in by_name),
        takes_any=any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters),
    )
