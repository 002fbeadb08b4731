"""Which elements of a tensor a sampled dump holds: fixed by its shape alone, never by its content.

Two families of positions are joined. One spreads over the axes and takes no notice of their order,
so that a tensor and its transpose (a Linear weight of torch and of Paddle, NCHW and NHWC) hold the
same elements. The other spreads over the flat order, so that a tensor and its reshape do.
``docs/format.md`` gives the rule in full; it is part of the format and never changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count as count_from
from itertools import permutations

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

DEFAULT_SAMPLE = 4096
LARGEST_SAMPLE = 1 << 20
"""Positions of either family that may be asked for."""
LARGEST_SIZE = 1 << 48
"""Elements of a tensor that may be sampled."""
MOST_AXES = 8
MOST_ORDERS = 120
"""Orders of equally long axes that are followed: those of five."""
FLAT_STREAM = 64
"""Number of the stream that draws from the flat order; axes count from 0."""

_BLOCK = 1 << 20
"""Positions that are drawn at a time, so that memory is bounded whatever a dump asks for."""
_CACHED_SAMPLE = 1 << 14
"""Larger samples are not kept: 64 of these take 16 MiB."""
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WORD = (1 << 64) - 1


def is_sampled(size: int, count: int) -> bool:
    """Return whether a tensor of that size is sampled; a smaller one is written whole."""
    return size > 2 * count


def sample_positions(shape: tuple[int, ...], count: int) -> Positions:
    """Return the flat positions (C order) that a sample holds, ascending and distinct.

    Args:
        shape: Of the tensor; ``is_sampled`` holds for its size.
        count: How many to draw of each family; what both have in common counts once.

    Returns:
        At least ``count`` positions and few more than ``2 * count``, read-only.

    Source:
        Latin hypercube sampling (McKay, Beckman, Conover, Technometrics 21, 1979) over random
        permutations from the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

    >>> tall, wide = sample_positions((100, 50), 64), sample_positions((50, 100), 64)
    >>> len(set(tall.tolist()) & {p % 100 * 50 + p // 100 for p in wide.tolist()}) >= 64
    True
    """
    return (_kept if count <= _CACHED_SAMPLE else _positions)(shape, count)


def _positions(shape: tuple[int, ...], count: int) -> Positions:
    lines = (draws[:, None] for (draws,) in _draws((math.prod(shape),), count, FLAT_STREAM))
    found = np.union1d(_by_axes(shape, count), _distinct(lines, count))
    found.flags.writeable = False
    return found


_kept = lru_cache(maxsize=64)(_positions)


def _by_axes(shape: tuple[int, ...], count: int) -> Positions:
    """Draw positions that are the same elements whatever the order of the axes."""
    axes = [axis for axis, length in enumerate(shape) if length != 1]
    if len(axes) > MOST_AXES:
        return np.empty(0, np.int64)
    axes.sort(key=lambda axis: -shape[axis])
    lengths = [shape[axis] for axis in axes]
    strides = np.array([math.prod(shape[axis + 1 :]) for axis in axes], np.int64)
    # Axes of equal length cannot be told apart, so that a draw counts in every order of them.
    orders = [strides[list(order)] for order in _orders(lengths)]
    blocks = (block for draws in _draws(lengths, count) for block in _blocks(draws, len(orders)))
    return _distinct((np.stack([o @ block for o in orders], axis=1) for block in blocks), count)


def _blocks(draws: Sequence[Positions], orders: int) -> Iterator[Positions]:
    """Yield coordinates in portions that make ``_BLOCK`` positions in so many orders."""
    length = max(_BLOCK // orders, 1)
    for first in range(0, draws[0].size, length):
        yield np.stack([line[first : first + length] for line in draws])


def _orders(lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Return all orders of the axes that leave the lengths as they are."""
    repeats = [lengths.count(length) for length in set(lengths)]
    own = tuple(range(len(lengths)))
    if math.prod(map(math.factorial, repeats)) > MOST_ORDERS:
        return [own]
    return [
        order
        for order in permutations(own)
        if all(lengths[place] == lengths[other] for place, other in enumerate(order))
    ]


def _distinct(blocks: Iterable[Positions], count: int) -> Positions:
    """Take rows of positions until ``count`` distinct ones are in them; gives those, ascending."""
    found = np.empty(0, np.int64)
    for block in blocks:
        line = block.reshape(-1)
        drawn, firsts = np.unique(line, return_index=True)
        firsts = np.sort(firsts[~_are_among(found, drawn)])
        missing = count - found.size
        if firsts.size >= missing:
            rows = firsts[missing - 1] // block.shape[1] + 1
            return np.union1d(found, line[: rows * block.shape[1]])
        found = np.union1d(found, drawn)
    raise AssertionError  # the blocks never end


def _are_among(found: Positions, drawn: Positions) -> npt.NDArray[np.bool_]:
    """Return which of ``drawn`` are in ``found``, which is ascending."""
    if not found.size:
        return np.zeros(drawn.shape, np.bool_)
    places = np.minimum(np.searchsorted(found, drawn), found.size - 1)
    return np.asarray(found[places] == drawn)


def _draws(lengths: Sequence[int], count: int, first: int = 0) -> Iterator[list[Positions]]:
    """Draw ``count`` coordinates along each axis at a time, without end."""
    for batch in count_from():
        yield [_along(length, count, stream, batch) for stream, length in enumerate(lengths, first)]


def _along(length: int, count: int, stream: int, batch: int) -> Positions:
    """Draw along one axis: each of its indices, or each of ``count`` equal parts, in turn."""
    parts = min(length, count)
    key = _mixed_number(_mixed_number(length) ^ (stream << 32) ^ batch)
    rounds = -(-count // parts)
    noise = _mixed(key, np.arange(rounds * parts, dtype=np.uint64)).reshape(rounds, parts)
    part = np.argsort(noise, axis=1, kind="stable").reshape(-1)[:count]
    size, longer = divmod(length, parts)
    low = part * size + np.minimum(part, longer)
    width = (size + (part < longer)).astype(np.uint64)
    within = _mixed(_mixed_number(key), np.arange(count, dtype=np.uint64)) % width
    drawn: Positions = low + within.astype(np.int64)
    return drawn


def _mixed(key: int, counters: Words) -> Words:
    """Return the outputs of a SplitMix64 that starts at ``key``, by their numbers."""
    word = np.uint64(key) + (counters + np.uint64(1)) * np.uint64(_GOLDEN)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(_FIRST)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(_SECOND)
    mixed: Words = word ^ (word >> np.uint64(31))
    return mixed


def _mixed_number(number: int) -> int:
    """Do the same for one number, as a start without a counter."""
    word = number & _WORD
    word = ((word ^ (word >> 30)) * _FIRST) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND) & _WORD
    return word ^ (word >> 31)
