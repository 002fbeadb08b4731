"""Which layers each layer of a side needs: those that provably ran before it.

A layer that is fed what another made ran after it, whoever wrote the model. Functions between
modules leave no trace, so this is a lower bound: nothing found here is wrong, but much may be
missing. Two assumptions are made: what a call makes anew depends on all layers that ran inside it,
and what is computed inside a call depends on what went into it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role

from .onesided import OPAQUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.view import View

_SMALL = 4
"""Inputs of less than a fourth of the largest one are masks and tables: no data flow."""

Ranks = tuple[int, int]
"""A set of ranks: all below the first number, and those from there on as the bits of the second."""
_NONE: Ranks = (0, 0)


def _made(prefix: int, bits: int) -> Ranks:
    """Return the set in the shortest form."""
    ones = (~bits & (bits + 1)).bit_length() - 1
    return prefix + ones, bits >> ones


def union(one: Ranks, two: Ranks) -> Ranks:
    """Return what is in one of two sets or in both."""
    if one == two:
        return one
    prefix = max(one[0], two[0])
    return _made(prefix, one[1] >> (prefix - one[0]) | two[1] >> (prefix - two[0]))


def common(one: Ranks, two: Ranks) -> Ranks:
    """Return what is in both of two sets."""
    low, high = sorted((one, two))
    ahead = high[0] - low[0]
    return _made(low[0], low[1] & (((1 << ahead) - 1) | high[1] << ahead))


def members_of(ranks: Ranks, of: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return which of some ascending ranks are in a set."""
    prefix, bits = ranks
    count = of[-1] + 1 if of else 0
    octets = ((1 << prefix) - 1 | bits << prefix).to_bytes(count // 8 + 1, "little")
    found = np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")
    return found[np.array(of, np.int64)].astype(np.bool_)


def unordered(needs: Sequence[Ranks], ranks: Sequence[int]) -> list[bool]:
    """Return of each of some layers whether its order with any other of them is not proven."""
    before = lost = 0
    for (prefix, bits), rank in zip(needs, ranks, strict=True):
        missing = (before >> prefix & ~bits) << prefix
        if missing:
            lost |= missing | 1 << rank
        before |= 1 << rank
    return [bool(lost >> rank & 1) for rank in ranks]


def needs_of(view: View) -> tuple[dict[int, int], list[Ranks]]:
    """Return the rank of each call of a layer, and for each rank what the layer needs.

    They are worked out once for a side.
    """
    if not view.needs:
        view.needs.append(_Flow(view).run())
    return view.needs[0]


class _Flow:
    """Carries what is needed along the values of one side, in one pass over its calls."""

    def __init__(self, view: View) -> None:
        self._view = view
        layers = [call.id for call in view.calls if _is_layer(view, call.id)]
        self._ranks = {call: rank for rank, call in enumerate(layers)}
        self._of: dict[int, Ranks] = {}
        self._floor: dict[int, Ranks] = {}
        """By open call: what all its large inputs depend on."""
        self._inside: dict[int, Ranks] = {}
        """By open call: what its inputs depend on, and what ran inside."""
        self._found: list[Ranks] = []

    def run(self) -> tuple[dict[int, int], list[Ranks]]:
        open_: list[int] = []
        for call, parent in enumerate(self._view.parents):
            while open_ and open_[-1] != parent:
                self._close(open_.pop())
            self._open(call, parent)
            open_.append(call)
        return self._ranks, self._found

    def _values(self, call: int, role: Role) -> list[int]:
        """Return the values of a role but constants, which anything could make."""
        values = [record.value for record in self._view.select(call, role)]
        told = [value for value in values if value is not None and self._view.telling[value]]
        return told if len(told) < 2 else list(dict.fromkeys(told))  # noqa: PLR2004

    def _open(self, call: int, parent: int | None) -> None:
        floor = _NONE if parent is None else self._floor[parent]
        values = self._values(call, Role.INPUT)
        known = [self._of.setdefault(value, floor) for value in values]
        everything = lowest = known[0] if known else floor
        if len(known) > 1:
            everything = reduce(union, known)
            sizes = [self._view.values[value].size for value in values]
            largest = max(sizes)
            main = [of for of, size in zip(known, sizes, strict=True) if size * _SMALL >= largest]
            lowest = reduce(common, main)
        self._floor[call], self._inside[call] = lowest, everything
        if call in self._ranks:
            self._found.append(everything)

    def _close(self, call: int) -> None:
        made, floor = self._inside.pop(call), self._floor.pop(call)
        outputs, rank = self._values(call, Role.OUTPUT), self._ranks.get(call)
        fresh = [value for value in outputs if value not in self._of]
        if rank is not None:
            made = union(made, (0, 1 << rank))
            if len(fresh) < len(outputs):
                for value in set(outputs).difference(fresh, self._values(call, Role.INPUT)):
                    self._of[value] = common(self._of[value], made)  # made twice, by either
        is_one = len(fresh) == 1 or (rank is not None and self._is_whole(call))
        of = made if is_one else floor
        self._of.update(dict.fromkeys(fresh, of))
        parent = self._view.parents[call]
        if parent is not None:
            self._inside[parent] = union(self._inside[parent], made)

    def _is_whole(self, call: int) -> bool:
        """Return whether a layer holds no other, or counts as one whatever runs inside."""
        is_leaf = not any(inner in self._ranks for inner in self._view.inside(call))
        return is_leaf or self._view.kind(call) in OPAQUE


def _is_layer(view: View, call: int) -> bool:
    return bool(view.weights[view.calls[call].module]) or view.kind(call) in OPAQUE
