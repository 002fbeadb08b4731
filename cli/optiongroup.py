"""Options that belong together: a command gets what is made of them as one argument."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import cloup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["option_group"]


def option_group(
    name: str, make: Callable[..., Any], groups: Mapping[str, Sequence[Callable[..., Any]]]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a decorator that adds options to a command.

    Args:
        name: The parameter of the command that takes what is made.
        make: Makes it; its keyword parameters are those of the options.
        groups: Click's decorators by the title that they have in the help, in its order.
    """
    names = list(inspect.signature(make).parameters)

    def grouped(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_group(**given: Any) -> int:  # noqa: ANN401 -- whatever click hands on
            made = make(**{each: given.pop(each) for each in names})
            return command(**{name: made}, **given)

        made: Callable[..., int] = with_group
        for title, options in reversed(tuple(groups.items())):
            made = cloup.option_group(title, *options)(made)
        return made

    return grouped
