"""Whether parts were joined in another order, or only one part of what was joined went wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.comparer.judging.blocks import Array

    from .contrast import Contrast

__all__ = ["parts_off", "rejoined"]

LEAST_LENGTH = 4
"""Indices of an axis from which on a part of it means something."""
NOISE = 16.0
"""Unit roundoffs of the largest element that are no error of an index."""
BESIDE = 1e-4
"""Share of the largest error that is none either."""


def rejoined(sides: Contrast) -> Cause | None:
    """See whether the candidate joins two parts of the reference the other way round."""
    reference, candidate = sides.reference, sides.candidate
    for axis in range(1, reference.ndim):
        length = reference.shape[axis]
        first = np.take(candidate, [0], axis)
        away = np.abs(reference - first).sum(
            axis=tuple(a for a in range(reference.ndim) if a != axis)
        )
        begin = int(away.argmin())
        if 0 < begin < length and sides.fits(np.roll(reference, -begin, axis)):
            return Cause(
                name=CauseName.PERMUTED,
                text=f"joined along axis {axis} ({sides.axes[axis]}) in another order: the "
                f"candidate begins with what the reference has from {begin} on",
                numbers={"axis": axis, "begin": begin},
            )
    return None


def parts_off(sides: Contrast, lengths: Mapping[int, set[int]]) -> Iterator[tuple[Contrast, str]]:
    """Yield the one part of an axis that is off, where the rest agrees, with its name.

    Tensors that are joined (by ``concat``) before a layer takes them are recorded as one. First
    the part as a whole, then what of it is as long as a tensor that may have been joined.

    Args:
        sides: What diverged.
        lengths: By axis, how long tensors at hand are there.
    """
    away = np.abs(sides.candidate - sides.reference)
    largest = max(float(np.abs(sides.reference).max()), float(np.abs(sides.candidate).max()))
    noise = max(NOISE * sides.unit * largest, BESIDE * float(away.max()))
    for axis in range(1, away.ndim):
        off = away.max(axis=tuple(a for a in range(away.ndim) if a != axis)) > noise
        places = np.flatnonzero(off)
        if not places.size:
            return
        begin, end = int(places[0]), int(places[-1]) + 1
        length = off.size
        is_part = length >= LEAST_LENGTH and end - begin < length and (begin == 0 or end == length)
        if not is_part:
            continue
        shorter = sorted(one for one in lengths.get(axis, ()) if one < end - begin)
        for stop in (end, *(begin + one for one in shorter)):
            kept = (slice(None),) * axis + (slice(begin, stop),)
            part: tuple[Array, Array] = sides.reference[kept], sides.candidate[kept]
            where = f"[{', '.join([':'] * axis + [f'{begin}:{stop}'])}]"
            yield replace(sides, reference=part[0], candidate=part[1]), where
        return
