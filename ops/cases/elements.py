"""The elements of drawn tensors: numbers that follow from a fill and a seed, on any machine.

This file needs numpy alone and imports nothing of padiff: workers load it by its path, in
environments that have a framework and nothing else.

No stream of a library's generator is the same in all its versions, so the numbers are made here,
by SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf)
"""What a fill of special values holds beside ordinary numbers."""
_SCALES = {"wide": 100.0, "tiny": 1e-17}
"""Standard deviations. Of wide elements exponentials overflow in part, and logits saturate; tiny
ones differ by less than 1e-15."""
_GRID = 5
"""Distinct values of a small fill: enough of them are equal."""


def uniform(count: int, seed: int) -> Array:
    """Return float64 numbers in (0, 1), each the middle of one of 2**52 steps.

    >>> uniform(2, 1).round(6).tolist()
    [0.273578, 0.906242]
    """
    with np.errstate(over="ignore"):
        state = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed) * np.uint64(1 << 32)
        mixed = state * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    found: Array = (mixed >> np.uint64(12)).astype(np.float64) * 2.0**-52 + 2.0**-53
    return found


def signs(count: int, seed: int) -> Array:
    """Return a cotangent: numbers of magnitude 0.5 to 1.5 with either sign, multiples of 1/64."""
    drawn = uniform(count, seed)
    sizes = 0.5 + np.round(64 * np.modf(drawn * 16)[0]) / 64
    return np.asarray(np.where(drawn < 0.5, -sizes, sizes))  # noqa: PLR2004 -- half of them


def filled(fill: str, count: int, seed: int, low: float | None, high: float | None) -> Array:
    """Return float64 elements.

    Args:
        fill: ``small``: a few numbers, many of them equal; ``normal``: no two alike; ``wide``:
            of large magnitude; ``special``: some zeros, infinities and nan among normal ones;
            ``tiny``: next to 0.
        count: How many.
        seed: Another number makes others.
        low: Bound below that no element reaches; None for all numbers.
        high: Bound above; None for none.
    """
    drawn = uniform(count, seed)
    if fill == "small":
        place = np.floor(drawn * _GRID)
        return _on_grid(place, low, high)
    if low is not None and high is not None:
        return np.asarray(low + (high - low) * drawn)
    if low is not None:
        spread = 8.0 if fill == "wide" else 1.0
        return np.asarray(low + np.exp(spread * (drawn - 0.5) * 2))
    turned = uniform(count, seed + (1 << 20))
    normal: Array = np.sqrt(-2 * np.log(drawn)) * np.cos(2 * np.pi * turned)
    if fill in _SCALES:
        return normal * _SCALES[fill]
    if fill == "special":
        odd = uniform(count, seed + (2 << 20))
        chosen = np.take(SPECIAL, np.floor(odd * 3 * len(SPECIAL)).astype(int) % len(SPECIAL))
        found = np.asarray(np.where(odd * 3 < 1, chosen, normal))
        if count and seed < len(SPECIAL):
            found[0] = SPECIAL[seed]  # so that one element is enough to show each
        return found
    return normal


def _on_grid(place: Array, low: float | None, high: float | None) -> Array:
    if low is not None and high is not None:
        return np.asarray(low + (high - low) * (place + 1) / (_GRID + 1))
    if low is not None:
        return np.asarray(low + (place + 1) / 2)
    return np.asarray(place - 2)
