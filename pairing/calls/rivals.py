"""Modules that could stand in for one another: of one job, fed the same, or left alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import RecordInfo, Role

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Sequence, Set

    from padiff.pairing.view import View

__all__ = ["RatedSide"]

_MAX_RIVALS = 4
"""So many on either side are looked at, in definition order."""
_FOODS = 3
"""What a module is fed is told by a value, by itself alone, or by what is around it."""
_MAX_AROUND = 4
"""So many calls around a layer are looked at for towers that are fed the same."""


class RatedSide:
    """One side with the modules that could stand in for one another; each table made when needed.

    Where data flow proves all layers nothing else is asked of most of them.
    """

    def __init__(
        self,
        view: View,
        paired: Container[int],
        paired_calls: Set[int],
        numbers: dict[Hashable, int],
    ) -> None:
        """Take one side.

        Args:
            view: The side.
            paired: Its modules that have a partner.
            paired_calls: Its calls that have one.
            numbers: Number of each job, the same table for both sides.
        """
        self.view = view
        self._paired = paired
        self._paired_calls = paired_calls
        self._numbers = numbers

    @cached_property
    def outputs(self) -> tuple[RecordInfo | None, ...]:
        """The largest output of the first call of each module."""
        return tuple(
            self.view.main(ran[0], Role.OUTPUT) if ran else None for ran in self.view.executed
        )

    @cached_property
    def _made(self) -> tuple[int | None, ...]:
        """Value of the largest output of the first call of each module."""
        return tuple(None if output is None else output.value for output in self.outputs)

    @cached_property
    def jobs(self) -> tuple[int, ...]:
        """Number for kind and sizes of each module."""
        jobs = (_job(self.view, module, output) for module, output in enumerate(self.outputs))
        return tuple(self._numbers.setdefault(job, len(self._numbers)) for job in jobs)

    @cached_property
    def foods(self) -> tuple[int, ...]:
        """A number for what each module was fed first, three times the value where it is one."""
        return tuple(_food(self.view, module) for module in range(len(self.view.modules)))

    @cached_property
    def given(self) -> tuple[int | None, ...]:
        """The value that went into each module first, None where nothing did."""
        return tuple(None if food % _FOODS else food // _FOODS for food in self.foods)

    @cached_property
    def values(self) -> dict[str, int]:
        """Value by digest."""
        return {value.digest: value.id for value in self.view.values}

    @cached_property
    def _towers(self) -> Iterable[list[int]]:
        """Modules of which the calls around their first one are fed the same."""
        return _towers(self.view, self.jobs, self.foods)

    @cached_property
    def _eaters(self) -> dict[tuple[int, int], list[int]]:
        """Modules by job and what they are fed, or by job and parent where they never ran."""
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        jobs, foods = self.jobs, self.foods
        for module, inside in enumerate(self.view.children):
            if not inside:
                found[jobs[module], foods[module]].append(module)
        return found

    @cached_property
    def _alike(self) -> dict[int, list[list[int]]]:
        """For each module the lists of those that are fed the same, it or what is around it."""
        found: dict[int, list[list[int]]] = defaultdict(list)
        for group in (*self._eaters.values(), *self._towers):
            if len(group) > 1:
                for module in group:
                    found[module].append(group)
        return found

    @cached_property
    def _spare(self) -> dict[Hashable, list[int]]:
        """Modules none of whose calls has a partner, by job and paired surroundings."""
        found: dict[Hashable, list[int]] = defaultdict(list)
        for module, ran in enumerate(self.view.executed):
            is_spare = module not in self._paired and self._paired_calls.isdisjoint(ran)
            if is_spare and not self.view.children[module]:
                found[self.jobs[module], self._around[module]].append(module)
        return found

    @cached_property
    def _around(self) -> tuple[int | None, ...]:
        """The nearest paired module around each module."""
        found: list[int | None] = []
        for module in self.view.modules:
            outer = module.parent
            is_paired = outer is None or outer in self._paired
            found.append(outer if is_paired or outer is None else found[outer])
        return tuple(found)

    @cached_property
    def fed_to(self) -> tuple[Hashable | None, ...]:
        """The jobs of the layers that take what each layer gives as it is; None if not known."""
        return _fed_to(self.view, self.jobs, self.given, self._made)

    def rivals(self, module: int, partner: int, other_side: RatedSide) -> list[int]:
        """Give the modules that structure and data flow cannot tell from a leaf.

        Those fed the same tensor as this one or, bit for bit, as its partner; those left alone.
        """
        found: set[int] = set()
        for group in self._alike.get(module, ()):
            found.update(_nearest(group, module))
        given = other_side.given[partner]
        digest = None if given is None else other_side.view.values[given].digest
        same = None if digest is None else self.values.get(digest)
        if same is not None and self.given[module] != same:
            eaters = self._eaters.get((self.jobs[module], _FOODS * same), ())
            found.update(_nearest(eaters, module))
        if self._spare:
            spare = self._spare.get((self.jobs[module], self._around[module]), ())
            found.update(_nearest(spare, module))
        found.discard(module)
        if not found:
            return []
        made = self._made[module]
        if made is not None:
            return sorted(other for other in found if self._made[other] != made)
        return sorted(found)


def _nearest(modules: Sequence[int], module: int) -> Sequence[int]:
    """Give the few of an ascending list that stand next to a module."""
    if len(modules) <= _MAX_RIVALS:
        return modules
    place = bisect_left(modules, module)
    return modules[max(0, place - _MAX_RIVALS) : place + _MAX_RIVALS + 1]


def _fed_to(
    view: View,
    jobs: Sequence[int],
    given: Sequence[int | None],
    made: Sequence[int | None],
) -> tuple[Hashable | None, ...]:
    """Give the jobs of the layers that each layer feeds directly, with nothing between."""
    takers: dict[int, set[int]] = defaultdict(set)
    for module, value in enumerate(given):
        if value is not None and view.weights[module] and not view.children[module]:
            takers[value].add(jobs[module])
    sets = {value: frozenset(found) for value, found in takers.items()}
    return tuple(None if value is None else sets.get(value) for value in made)


def _towers(view: View, jobs: Sequence[int], foods: Sequence[int]) -> Iterable[list[int]]:
    """Group layers by job, rank among those alike in each call around them, and its food.

    The k-th layers of a kind in towers that are fed the same tensor are alike, even where a
    function comes first.
    """
    counts: dict[tuple[int, int], int] = defaultdict(int)
    keys: dict[int, list[tuple[int, int, int]]] = {}
    parents, calls = view.parents, view.calls
    first = [ran[0] if ran else None for ran in view.executed]
    ran = [one for one, call in enumerate(first) if call is not None and not view.children[one]]
    for module in sorted(ran, key=lambda one: first[one] or 0):
        job, outer = jobs[module], parents[first[module] or 0]
        own: list[tuple[int, int, int]] = []
        keys[module] = own
        while outer is not None and len(own) < _MAX_AROUND:
            counts[job, outer] = count = counts[job, outer] + 1
            own.append((job, count, foods[calls[outer].module]))
            outer = parents[outer]
    found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for module in ran:
        for key in keys[module]:
            found[key].append(module)
    return found.values()


def _job(view: View, module: int, output: RecordInfo | None) -> Hashable:
    """Give kind and sizes of a module's weights, and whether it ran."""
    sizes = sorted([prod(view.records[record].shape) for record in view.weights[module]])
    size = None if output is None else prod(output.shape)
    return view.kinds[module], tuple(sizes), bool(view.executed[module]), size


def _food(view: View, module: int) -> int:
    """Number the largest tensor that went into a module first; its parent if it never ran."""
    ran = view.executed[module]
    if not ran:
        parent = view.modules[module].parent
        return _FOODS * (-1 if parent is None else parent) + 2
    value = view.given[ran[0]]
    return _FOODS * module + 1 if value is None else _FOODS * value
