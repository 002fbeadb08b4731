"""Which executed values of the candidate are values of the reference: by their sketches.

A sketch holds moments, which no order of elements changes, and sums with fixed weights, which tell
orders apart: of the elements as they lie, and along each axis. Two values are partners if their
moments agree and either their elements lie alike or their axes are the same, in whatever order.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.program import execute

from .executed import COUNTING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from padiff.program import Leaf, Lowered
    from padiff.program.primitives import Array

    from .executed import Sink
    from .numbering import Numbering
    from .side import Side


_MOST_BYTES = 1 << 18
"""Of a term that is kept: those of a thousand primitives are a quarter of a gigabyte."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """The reference's terms by the candidate's."""

    partners: dict[int, list[int]]
    """All that hold the same elements, in whatever layout."""
    same: dict[int, int]
    """One of the same shape whose elements lie in the same order."""
    executed: dict[int, Array]
    """The values that were wanted of the candidate."""


class Alignment:
    """The reference's program executed once, to find the partners of values in."""

    def __init__(
        self,
        reference: Lowered,
        leaves: Mapping[int, Leaf],
        wanted: Sequence[int],
        numbers: Sequence[int],
    ) -> None:
        """Execute the reference.

        Raises:
            ProgramError: Elements lack, or a limit is passed.
            DumpFormatError: Elements are damaged.
        """
        self._reference, self._leaves, self._wanted = reference, leaves, wanted
        self._kept: dict[int, Array] = {}
        self.executed: dict[int, Array]
        """The wanted values."""
        self._sketches, self.executed = _sketched(reference, leaves, wanted, {})
        self._terms = {numbers[term]: term for term in self._sketches}
        self._partners = Partners()
        for term, sketch in self._sketches.items():
            self._partners.add(reference.specs[term].count, sketch, term)
        self._partners.seal()

    def partners(
        self,
        candidate: Lowered,
        leaves: Mapping[int, Leaf],
        wanted: Sequence[int],
        numbers: Sequence[int],
    ) -> Likeness:
        """Execute the candidate, and find the reference's terms that its terms are like."""
        known = {
            term: self._sketches[one]
            for term, number in enumerate(numbers)
            if (one := self._terms.get(number)) is not None
            and self._reference.specs[one] == candidate.specs[term]
        }
        sketches, executed = _sketched(candidate, leaves, wanted, known)
        found = Likeness({}, {}, executed)
        for term, sketch in sketches.items():
            others = self._partners.find(candidate.specs[term].count, sketch)
            if not others:
                continue
            found.partners[term] = others
            same = (
                one
                for one in others
                if self._reference.specs[one] == candidate.specs[term]
                and sketch.lies_like(self._sketches[one])
            )
            first = next(same, None)
            if first is not None:
                found.same[term] = first
        return found

    def arrays(self, terms: Collection[int]) -> dict[int, Array]:
        """Return the elements of terms of the reference that no leaf holds.

        The reference stays what it is, so that those of small terms are kept for the next time.
        """
        found = {term: self._kept[term] for term in terms if term in self._kept}

        def observe(term: int, array: Array) -> None:
            if term in terms:
                found[term] = array.copy()

        if len(found) < len(terms):
            execute(self._reference, self._leaves, self._wanted, limits=COUNTING, observe=observe)
            small = (one for one in found.items() if one[1].nbytes <= _MOST_BYTES)
            self._kept.update(small)
        return found


def align(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    numbering: Numbering,
    sinks: Sequence[Sink],
) -> tuple[Alignment, Likeness]:
    """Execute both programs, and find the values that are like each other.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    known, found = [sink.reference for sink in sinks], [sink.candidate for sink in sinks]
    alignment = Alignment(sides[0].lowered, given[0], known, numbering.reference)
    return alignment, alignment.partners(sides[1].lowered, given[1], found, numbering.candidate)


def _sketched(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    wanted: Sequence[int],
    known: Mapping[int, Sketch],
) -> tuple[dict[int, Sketch], dict[int, Array]]:
    """Return the sketches of all that wanted values need, those known as is, and these values."""
    found: dict[int, Sketch] = {}

    def observe(term: int, array: Array) -> None:
        found[term] = known[term] if term in known else sketch_of(array)

    return found, execute(lowered, leaves, wanted, limits=COUNTING, observe=observe)


NEAR = 1e-9
"""Two correct forms agree to 1e-12 of their size (thirty pairs of real models, float64)."""
_NAN, _MORE, _LESS = 3.0, 5.0, -7.0
"""What counts in place of nan, inf and -inf."""
_IMAGINARY = math.sqrt(2) / 3
"""What counts of an imaginary part: any number that relates no phases of real models."""
_ENDLESS = 1e8
"""From here on elements count as infinite, such as scores to which a mask adds -1e9 or the least
number of a dtype. Beside those nothing of the others would be seen."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """What a value is found by."""

    size: float
    """Root mean square."""
    moments: tuple[float, ...]
    """Over the size: mean, mean magnitude, third and fourth moment, largest, smallest."""
    order: float
    """Sum with fixed weights of the elements in C order, over the size and their count's root."""
    axes: tuple[float, ...]
    """The same of the sums across all other axes, for each axis longer than 1, ascending."""

    def lies_like(self, other: Sketch) -> bool:
        """Return whether the elements of two values lie in the same order."""
        return _are_near((self.order,), (other.order,))


def sketch_of(array: Array) -> Sketch:
    """Return the sketch of a value, computed in float64.

    Of complex elements both parts count, each with its sign: as one number that no other pair of
    parts is likely to give.
    """
    if not array.size:
        return Sketch(0.0, (0.0,) * 6, 0.0, ())
    with np.errstate(all="ignore"):
        whole = array
        if array.dtype.kind == "c":
            whole = array.real + _IMAGINARY * array.imag
        flat = whole.astype(np.float64, order="C", copy=False).reshape(-1)
        if not (flat.min() > -_ENDLESS and flat.max() < _ENDLESS):
            ends = [flat >= _ENDLESS, flat <= -_ENDLESS, np.isnan(flat)]
            flat = np.select(ends, [_MORE, _LESS, _NAN], flat)
        size = math.sqrt(flat @ flat / flat.size)
        return _in_blocks(flat.reshape(array.shape), size)


def _in_blocks(array: Array, size: float) -> Sketch:
    """Return the sketch of finite elements, which are read block by block."""
    scale, count = size or 1.0, array.shape[-1] if array.ndim else 1
    rows, weights = array.reshape(-1, count), _weights(array.size)
    totals, across, along = np.zeros(5), np.zeros(count), np.empty(len(rows))
    step = max(_BLOCK // count, 1)
    for start in range(0, len(rows), step):
        unit = rows[start : start + step] / scale
        magnitude, flat = np.abs(unit), unit.reshape(-1)
        square = flat * flat
        own = weights[start * count : start * count + flat.size]
        totals += flat.sum(), magnitude.sum(), square @ flat, square @ square, flat @ own
        magnitude += unit  # what a norm makes adds up to nothing along its axis
        across += np.ones(len(magnitude)) @ magnitude
        along[start : start + step] = magnitude @ np.ones(count)
    ends = float(array.max() / scale), float(array.min() / scale)
    moments = (*(float(one) for one in totals[:4] / array.size), *ends)
    axes = [_weighed(across) * math.sqrt(count / array.size)] if count > 1 else []
    axes += _along_axes(along.reshape(array.shape[:-1]), array.size)
    return Sketch(size, moments, float(totals[4]) / math.sqrt(array.size), tuple(sorted(axes)))


_BLOCK = 1 << 15
"""Elements at a time: what is made on the way stays in the processor's cache."""


def _along_axes(rectified: Array, size: int) -> list[float]:
    """Return a weighted sum for each axis longer than 1.

    Args:
        rectified: The sums across all other axes.
        size: The elements of all.
    """
    found = []
    while rectified.ndim:
        rows = rectified.reshape(-1, rectified.shape[-1])
        if (count := rows.shape[1]) > 1:
            found.append(_weighed(rows.sum(0)) * math.sqrt(count / size))
        rectified = rectified.sum(-1)
    return found


def _weighed(flat: Array) -> float:
    total = float(flat @ _weights(flat.size))
    return total / math.sqrt(flat.size)


@lru_cache(maxsize=32)
def _weights(count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return numbers between -1 and 1 without a pattern, the same in every process."""
    return np.random.default_rng(count).uniform(-1, 1, count)


class Partners:
    """Finds values of the reference by their sketches."""

    def __init__(self) -> None:
        """Know none yet."""
        self._by_count: dict[int, list[tuple[float, int, Sketch]]] = defaultdict(list)

    def add(self, count: int, sketch: Sketch, term: int) -> None:
        """Remember a value; all are added before the first is looked for."""
        self._by_count[count].append((sketch.size, term, sketch))

    def seal(self) -> None:
        """Put what was added in order."""
        for group in self._by_count.values():
            group.sort(key=lambda one: one[:2])

    def find(self, count: int, sketch: Sketch) -> list[int]:
        """Return the terms of as many elements with the same sketch."""
        group = self._by_count.get(count, [])
        place = bisect_left(group, (sketch.size * (1 - NEAR), -1), key=lambda one: one[:2])
        found = []
        while place < len(group) and group[place][0] <= sketch.size * (1 + NEAR):
            if _is_partner(sketch, group[place][2]):
                found.append(group[place][1])
            place += 1
        return found


def _is_partner(one: Sketch, two: Sketch) -> bool:
    if not _are_near(one.moments, two.moments):
        return False
    return one.lies_like(two) or _are_near(one.axes, two.axes)


def _are_near(one: Sequence[float], two: Sequence[float]) -> bool:
    return len(one) == len(two) and all(
        abs(a - b) <= NEAR * max(1.0, abs(a), abs(b)) for a, b in zip(one, two, strict=True)
    )
