"""Which calls run with equal weights."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.view import View

__all__ = ["content_of", "distinct_weights", "weight_numbers"]

Places = npt.NDArray[np.int64]


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
