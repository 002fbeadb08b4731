"""Draws cases by Hypothesis."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from padiff.dumpfile import ConfigError
from padiff.ops.cases import Case
from padiff.ops.table import Draw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from hypothesis.strategies import SearchStrategy

    from padiff.ops.table import Row

T = TypeVar("T")


def hypothesis() -> ModuleType:
    """Return the library.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import hypothesis as found  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise ConfigError(
            "cannot draw arguments: expected the package hypothesis, found none",
            hint="pip install 'padiff-align[ops]'; stored cases are replayed without it",
        ) from error
    return found


class HypothesisDraw(Draw):
    """Draws by a function of Hypothesis that draws from its strategies."""

    def __init__(self, draw: Callable[[SearchStrategy[Any]], Any]) -> None:
        """Draw by that function."""
        self._draw = draw

    def choice(self, options: Sequence[T]) -> T:
        """Draw one of some options."""
        found: T = self._draw(_sampled(tuple(options), tuple(map(type, options))))
        return found

    def integer(self, low: int, high: int) -> int:
        """Draw a whole number, bounds included."""
        return int(self._draw(_integers(low, high)))


@lru_cache(maxsize=4096)
def _sampled(options: tuple[Any, ...], _types: tuple[type, ...]) -> SearchStrategy[Any]:
    # The types belong to the key: False equals 0.
    from hypothesis import strategies  # noqa: PLC0415 -- an extra

    return strategies.sampled_from(options)


@lru_cache(maxsize=4096)
def _integers(low: int, high: int) -> SearchStrategy[int]:
    from hypothesis import strategies  # noqa: PLC0415 -- an extra

    return strategies.integers(low, high)


_COTANGENTS = 7
"""Different gradients that arrive at the outputs."""


def cases_of(row: Row) -> SearchStrategy[Case]:
    """Return a strategy for the cases of an operator."""
    from hypothesis import strategies  # noqa: PLC0415 -- an extra

    @strategies.composite
    def case(draw: Callable[[SearchStrategy[Any]], Any]) -> Case:
        drawing = HypothesisDraw(draw)
        arguments = row.strategy(drawing)
        seed = drawing.integer(0, _COTANGENTS)
        return Case(operator=row.name, arguments=arguments, seed=seed)

    return case()
