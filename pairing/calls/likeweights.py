"""Which calls run with equal weights, and which of several such calls is which."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.tensors.sketch import Sketches, closeness

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.view import View

__all__ = ["content_of", "distinct_weights", "told_by_next", "told_by_outputs", "weight_numbers"]

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_ALIKE, _UNLIKE = 0.97, 0.8
"""Outputs nearer than the first are those of partners, unless another is nearer than the second."""
_LEAST_TOLD = 0.5
"""So many of the calls with weights of their own must be told, or what tells them is chance."""
_MAX_CELLS = 250_000
"""Of more possible pairs than this, outputs are not compared where weights are all different."""
_MAX_CALLS = 64
"""Of more calls with equal weights than this, outputs are not compared."""


def weight_numbers(
    reference: View, candidate: View, calls: tuple[Sequence[int], Sequence[int]]
) -> tuple[Places, Places]:
    """Number the weights that calls of both sides run with, equal ones alike.

    Returns:
        A number for each call, -1 where no call of the other side has such weights, or where they
        say nothing.
    """
    keys = [
        [_key(view, call) for call in side]
        for view, side in zip((reference, candidate), calls, strict=True)
    ]
    common = (set(keys[0]) & set(keys[1])) - {None}
    numbers: dict[Hashable, int] = {}
    for key in keys[0]:
        if key in common:
            numbers.setdefault(key, len(numbers))
    one, two = (np.array([numbers.get(key, -1) for key in side], np.int64) for side in keys)
    return one, two


def told_by_outputs(
    numbers: tuple[Places, Places], outputs: tuple[Sketches, Sketches]
) -> Iterator[tuple[int, int]]:
    """Pair the calls that weights single out, and of several with equal weights by their outputs.

    Args:
        numbers: Of the weights, as ``weight_numbers`` gives them.
        outputs: Statistics of what each call gave.
    """
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for side in (0, 1):
        for place, number in enumerate(numbers[side].tolist()):
            if number >= 0:
                groups.setdefault(number, ([], []))[side].append(place)
    for mine, theirs in groups.values():
        if len(mine) == len(theirs) == 1:
            yield mine[0], theirs[0]
        elif len(mine) == len(theirs) <= _MAX_CALLS:
            yield from _nearest(mine, theirs, outputs)


def told_by_next(
    numbers: tuple[Places, Places],
    outputs: tuple[Sketches, Sketches],
    afters: Sequence[tuple[Sketches, Sketches]],
) -> Iterator[tuple[int, int]]:
    """Pair calls whose weights no other has by what they or the next calls give.

    A layer into which a norm was folded gives what the norm gives on the other side. Then so do
    most; of sides with other weights a few calls give by chance what looks the same.

    Args:
        numbers: Of the weights, as ``weight_numbers`` gives them.
        outputs: Statistics of what each call gave.
        afters: Statistics of what the call gave that took it as it was, and the one after that.
    """
    if not (numbers[0] >= 0).any():
        return  # the weights are others, and so is what comes out
    mine, theirs = (np.nonzero(side < 0)[0].tolist() for side in numbers)
    if not mine or not theirs or len(mine) * len(theirs) > _MAX_CELLS:
        return
    ways = [outputs]
    ways += [way for after in afters for way in ((after[0], outputs[1]), (outputs[0], after[1]))]
    near = np.max([_table(mine, theirs, way) for way in ways], axis=0)
    told = list(_clear(mine, theirs, near))
    if len(told) >= _LEAST_TOLD * min(len(mine), len(theirs)):
        yield from told


def _nearest(
    mine: Sequence[int], theirs: Sequence[int], outputs: tuple[Sketches, Sketches]
) -> Iterator[tuple[int, int]]:
    yield from _clear(mine, theirs, _table(mine, theirs, outputs))


def _table(
    mine: Sequence[int], theirs: Sequence[int], outputs: tuple[Sketches, Sketches]
) -> Floats:
    rows, columns = np.repeat(np.array(mine), len(theirs)), np.tile(np.array(theirs), len(mine))
    near = closeness(outputs[0], rows, outputs[1], columns)
    return near.reshape(len(mine), len(theirs))


def _clear(mine: Sequence[int], theirs: Sequence[int], near: Floats) -> Iterator[tuple[int, int]]:
    """Pair what is alike, and unlike all others."""
    for row, column in enumerate(near.argmax(axis=1).tolist()):
        rest = np.concatenate((np.delete(near[row], column), np.delete(near[:, column], row)))
        if near[row, column] >= _ALIKE and rest.max(initial=0.0) < _UNLIKE:
            yield mine[row], theirs[column]


def distinct_weights(view: View, module: int) -> Iterator[RecordInfo]:
    """Give the distinct weights in and below a module."""
    own = view.weights[module]
    if len(own) <= 1 and not view.children[module]:
        yield from (view.records[record] for record in own)
        return
    todo, seen = [module], set()
    while todo:
        current = todo.pop()
        todo.extend(view.children[current])
        for record in view.weights[current]:
            info = view.records[record]
            if info.tensor is None or info.tensor not in seen:
                seen.add(info.tensor)
                yield info


def _key(view: View, call: int) -> Hashable | None:
    """Give a key of the weights' content that no layout changes; None where it says nothing."""
    module = view.calls[call].module
    if module not in view.contents:
        view.contents[module] = content_of(view, module)
    return view.contents[module]


def content_of(view: View, module: int) -> tuple[int, float, float] | None:
    """Return the size and the limits of all weights in and below a module; None of constants."""
    size, low, high = 0, inf, -inf
    for info in distinct_weights(view, module):
        statistics = None if info.value is None else view.values[info.value].statistics
        if statistics is None or statistics.minimum is None or statistics.maximum is None:
            return None
        size += prod(info.shape)
        low, high = min(low, statistics.minimum), max(high, statistics.maximum)
    return None if low >= high else (size, low, high)
