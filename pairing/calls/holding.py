"""Which pairs of containers hold a pair of modules, and what these say of the containers.

A pair inside two partners is inside all partners around these, too, as long as the partner of what
is around the one is around the other. So each pair is counted once, at the innermost containers
that hold it, and what these gathered is handed on outwards: a tree of 5 000 levels takes 5 000
steps, not the square of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import ModuleInfo

__all__ = ["Holding"]


class Holding:
    """The pairs of containers of two trees."""

    def __init__(
        self,
        reference: Sequence[ModuleInfo],
        candidate: Sequence[ModuleInfo],
        partners: Mapping[int, int],
    ) -> None:
        """Find for each paired module the next one around it, and whether both sides agree on it.

        Args:
            reference: Modules of one side, parents first.
            candidate: Modules of the other side, parents first.
            partners: Partner of each paired module of the reference.
        """
        self._modules = reference
        self._partners = partners
        self._spans = _spans(candidate)
        self._above: list[int | None] = []
        """The nearest paired module around each module."""
        self._top: list[int] = []
        """The outermost one up to which partners are around partners."""
        self._is_linked: list[bool] = []
        for module in reference:
            outer = module.parent
            above = outer if outer is None or outer in partners else self._above[outer]
            self._above.append(above)
            is_linked = above is not None and module.id in partners
            is_linked = is_linked and self._holds(above, partners.get(module.id))
            self._is_linked.append(is_linked)
            self._top.append(self._top[above] if is_linked and above is not None else module.id)

    def _holds(self, outer: int | None, other: int | None) -> bool:
        """Tell whether the partner of a module is around one of the other side."""
        if outer is None or other is None:
            return False
        first, last = self._spans[self._partners[outer]]
        return first < self._spans[other][0] <= last

    def _around(self, one: int, two: int) -> Iterator[int]:
        """Give the containers that hold a pair and are not linked to one inside that does."""
        outer = self._above[one]
        while outer is not None:
            if self._holds(outer, two):
                yield outer
                outer = self._top[outer]
            outer = self._above[outer]

    def gather(
        self,
        said: Iterable[tuple[int, int, float]],
        join: Callable[[float, float], float],
    ) -> dict[int, float]:
        """Join what pairs say, by container of the reference that holds them with its partner.

        Args:
            said: Pairs of modules, and a number for each.
            join: How two numbers become one; ``join(0, x)`` is ``x``.
        """
        found: dict[int, float] = {}
        for one, two, number in said:
            for outer in self._around(one, two):
                found[outer] = join(found.get(outer, 0), number)
        for module in reversed(self._modules):
            above = self._above[module.id]
            if self._is_linked[module.id] and above is not None and module.id in found:
                found[above] = join(found.get(above, 0), found[module.id])
        return found


def _spans(modules: Sequence[ModuleInfo]) -> list[tuple[int, int]]:
    """Number modules so that those inside one follow it; give the first and the last of each."""
    sizes = [1] * len(modules)
    for module in reversed(modules):
        if module.parent is not None:
            sizes[module.parent] += sizes[module.id]
    free, found, start = [0] * len(modules), [(0, 0)] * len(modules), 0
    for module in modules:
        first = start if module.parent is None else free[module.parent]
        start = max(start, first + sizes[module.id])
        if module.parent is not None:
            free[module.parent] += sizes[module.id]
        free[module.id] = first + 1
        found[module.id] = first, first + sizes[module.id] - 1
    return found
