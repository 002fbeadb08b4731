"""The outputs of the calls of one side, sorted so that those alike are found without a walk."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.tensors.sketch import alike_numbers

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from padiff.pairing.view import View

__all__ = ["ALIKE", "Outputs"]

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

ALIKE = 0.97
"""Outputs whose statistics are this near are those of partners."""
_NEAR = 0.02
"""Outputs that could be so alike have lengths no further apart, relatively."""
_REACH = 0.005
"""Nor extremes further apart, relative to the larger of the two."""
_CHUNK = 256
"""So many outputs are looked at at once: the first that is alike decides."""


class Outputs:
    """The outputs of some calls by kind and size."""

    def __init__(self, view: View, calls: Iterable[int]) -> None:
        """Sort the outputs that are no constants."""
        self._view = view
        rows: dict[Hashable, list[tuple[float, int]]] = defaultdict(list)
        self._keys: dict[int, Hashable] = {}
        for call in calls:
            value = view.told_made[call]
            length = None if value is None else view.values[value].statistics.l2
            if value is not None and length is not None:
                self._keys[call] = key = view.kind(call), view.values[value].size
                rows[key].append((length, call))
        self._groups = {key: _Group(view, sorted(found)) for key, found in rows.items()}

    def are_of(self, module: int, call: int, *, is_same: bool) -> bool:
        """Tell whether all outputs that could be that of a call are of one module.

        Args:
            module: The module.
            call: One of its calls.
            is_same: Whether the other side has the very values of its output, so that only outputs
                that are alike in their extremes too could be meant, not all that are as long.
        """
        if call not in self._keys:
            return False
        return not self._groups[self._keys[call]].has_rival(module, call, is_same=is_same)


class _Group:
    """Outputs of one kind and size, the shortest first."""

    def __init__(self, view: View, rows: list[tuple[float, int]]) -> None:
        """Take the outputs.

        Args:
            view: The side.
            rows: Length of each output, and its call.
        """
        self._places = {call: place for place, (_, call) in enumerate(rows)}
        self._modules = np.array([view.calls[call].module for _, call in rows], np.int64)
        made = (view.told_made[call] for _, call in rows)
        statistics = [view.values[value].statistics for value in made if value is not None]
        self._numbers = np.array(
            [(one.minimum or 0.0, one.maximum or 0.0, one.l2 or 0.0) for one in statistics]
        )
        changes = np.flatnonzero(np.diff(self._modules)) + 1
        ends = np.append(changes, len(rows))
        self._until = ends[np.searchsorted(changes, np.arange(len(rows)), side="right")]

    @cached_property
    def _as_long(self) -> tuple[list[int], list[int]]:
        """Of each output the first and the end of those that are about as long."""
        lengths = self._numbers[:, 2]
        is_long = ~np.isnan(lengths)
        start = np.searchsorted(lengths, lengths * (1 - _NEAR)) * is_long
        stop = np.searchsorted(lengths, lengths * (1 + _NEAR), side="right")
        return start.tolist(), np.where(is_long, stop, len(lengths)).tolist()

    @cached_property
    def _reached(self) -> list[tuple[Places, list[int], list[int]]]:
        """By each extreme the outputs in ascending order, and the span of those near each one."""
        slack = _REACH * np.abs(self._numbers[:, :2]).max(axis=1)
        found = []
        for own in self._numbers[:, :2].T:
            order = own.argsort(kind="stable")
            ascending = own[order]
            start = np.searchsorted(ascending, own - slack)
            stop = np.searchsorted(ascending, own + slack, side="right")
            found.append((order, start.tolist(), stop.tolist()))
        return found

    def has_rival(self, module: int, call: int, *, is_same: bool) -> bool:
        """Tell whether a call of another module has an output that could be meant."""
        place = self._places[call]
        start, stop = self._as_long[0][place], self._as_long[1][place]
        other = self._until[start] if self._modules[start] == module else start
        if other >= stop or not is_same:
            return bool(other < stop)
        near = self._near(place, start, stop)
        for first in range(0, near.size, _CHUNK):
            some = near[first : first + _CHUNK]
            some = some[(some >= start) & (some < stop) & (self._modules[some] != module)]
            if some.size and (
                (alike_numbers(self._numbers[place], self._numbers[some]) >= ALIKE).any()
            ):
                return True
        return False

    def _near(self, place: int, start: int, stop: int) -> Places:
        """Give outputs of which all that are alike are some: the fewest that are found at once."""
        spans = [
            (last[place] - first[place], axis)
            for axis, (_, first, last) in enumerate(self._reached)
        ]
        count, axis = min(spans)
        if count >= stop - start:
            return np.arange(start, stop)
        order, first, last = self._reached[axis]
        return order[first[place] : last[place]]
