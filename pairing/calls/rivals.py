"""Modules that could stand in for one another: of one job, fed the same, or left alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import RecordInfo, Role, ValueInfo

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence, Set

    from padiff.pairing.view import View

__all__ = ["RatedSide"]

Food = tuple[str, int | None]
_MAX_RIVALS = 4
"""So many on either side are looked at, in definition order."""
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
    def foods(self) -> tuple[Food, ...]:
        """What each module was fed first."""
        return tuple(_food(self.view, module.id) for module in self.view.modules)

    @cached_property
    def values(self) -> dict[str, int]:
        """Value by digest."""
        return {value.digest: value.id for value in self.view.values}

    @cached_property
    def _towers(self) -> dict[int, list[Hashable]]:
        """Keys in ``_eaters`` of each module by what the calls around its first call are fed."""
        return _towers(self.view, self.jobs, self.foods)

    @cached_property
    def _eaters(self) -> dict[Hashable, list[int]]:
        """Modules by job and what they are fed, or by job and parent where they never ran."""
        found: dict[Hashable, list[int]] = defaultdict(list)
        for module, inside in enumerate(self.view.children):
            if not inside:
                found[self.jobs[module], self.foods[module]].append(module)
        for module in sorted(self._towers):
            for key in self._towers[module]:
                found[key].append(module)
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
        return _fed_to(self.view, self.jobs, self.foods, self.outputs)

    def rivals(self, module: int, partner: int, other_side: RatedSide) -> list[int]:
        """Give the modules that structure and data flow cannot tell from this one.

        Those fed the same tensor as this one or, bit for bit, as its partner; those left alone.
        """
        job = self.jobs[module]
        keys: list[Hashable] = [(job, self.foods[module]), *self._towers.get(module, ())]
        given = other_side.fed(partner)
        same = None if given is None else self.values.get(given.digest)
        if same is not None:
            keys.append((job, ("fed", same)))
        found: set[int] = set()
        for key in keys:
            found.update(_nearest(self._eaters.get(key, ()), module))
        if self._spare:
            found.update(_nearest(self._spare.get((job, self._around[module]), ()), module))
        found.discard(module)
        made = self._made[module]
        if made is not None:
            return sorted(other for other in found if self._made[other] != made)
        return sorted(found)

    def fed(self, module: int) -> ValueInfo | None:
        """Give what went into a module first, None where nothing did."""
        food = self.foods[module]
        return self.view.values[food[1]] if food[0] == "fed" and food[1] is not None else None


def _nearest(modules: Sequence[int], module: int) -> Sequence[int]:
    """Give the few of an ascending list that stand next to a module."""
    if len(modules) <= _MAX_RIVALS:
        return modules
    place = bisect_left(modules, module)
    return modules[max(0, place - _MAX_RIVALS) : place + _MAX_RIVALS + 1]


def _fed_to(
    view: View,
    jobs: Sequence[int],
    foods: Sequence[Food],
    outputs: Sequence[RecordInfo | None],
) -> tuple[Hashable | None, ...]:
    """Give the jobs of the layers that each layer feeds directly, with nothing between."""
    takers: dict[Food, set[int]] = defaultdict(set)
    for module, food in enumerate(foods):
        if view.weights[module] and not view.children[module]:
            takers[food].add(jobs[module])
    found: list[Hashable | None] = []
    for output in outputs:
        taken = (
            None if output is None or output.value is None else takers.get(("fed", output.value))
        )
        found.append(frozenset(taken) if taken else None)
    return tuple(found)


def _towers(view: View, jobs: Sequence[int], foods: Sequence[Food]) -> dict[int, list[Hashable]]:
    """Give for each layer its job, its rank among those alike in each call around it, and its food.

    The k-th layers of a kind in towers that are fed the same tensor are alike, even where a
    function comes first.
    """
    counts: dict[Hashable, int] = defaultdict(int)
    found: dict[int, list[Hashable]] = {}
    for module in sorted(range(len(view.modules)), key=lambda one: view.executed[one][:1]):
        if view.children[module] or not view.executed[module]:
            continue
        keys: list[Hashable] = []
        for outer, _ in zip(
            view.ancestors(view.executed[module][0]), range(_MAX_AROUND), strict=False
        ):
            counts[jobs[module], outer] += 1
            keys.append(
                (jobs[module], counts[jobs[module], outer], foods[view.calls[outer].module])
            )
        found[module] = keys
    return found


def _job(view: View, module: int, output: RecordInfo | None) -> Hashable:
    """Give kind and sizes of a module's weights, and whether it ran."""
    sizes = sorted([prod(view.records[record].shape) for record in view.weights[module]])
    size = None if output is None else prod(output.shape)
    return view.kinds[module], tuple(sizes), bool(view.executed[module]), size


def _food(view: View, module: int) -> Food:
    """Give the largest tensor that went into a module first; its parent if it never ran."""
    ran = view.executed[module]
    if not ran:
        return "inside", view.modules[module].parent
    main = view.main(ran[0], Role.INPUT)
    return ("alone", module) if main is None or main.value is None else ("fed", main.value)
