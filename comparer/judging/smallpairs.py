"""Measure many small pairs in one pass: what one of them costs is then hardly more than its bytes.

The arrays of a batch are the rows of a matrix in float64; every number of a pair is a reduction
over its own row. The results are those of ``measure``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import pressure
from padiff.comparer.result import Metrics, Tolerance
from padiff.dumpfile.bulk import build_all
from padiff.pairing import rows_of

from .blocks import Room
from .hull import Candidates
from .metrics import measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

    from .blocks import Array

SMALL = 4096
"""Elements of the largest pair for which the work of Python outweighs that of numpy."""
BATCH = 1 << 17
"""Elements of a batch. A pair of 1 KiB takes 6.9 us in batches of 32, 3.5 of 128, 2.75 of 256 and
2.4 of 512: calls of numpy are few then, and ten float64 arrays stay in a third-level cache."""


class SmallPairs:
    """Small pairs of two sides, measured in batches of one size, one layout and two dtypes."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        records: tuple[Sequence[RecordInfo], Sequence[RecordInfo]],
        layouts: Array,
        orders: Sequence[Array | None],
        *,
        mean: bool,
    ) -> None:
        """Remember where the elements are.

        Args:
            sides: The side held to be right, and the other.
            records: Of both, a pair at each place.
            layouts: The number of each pair's layout.
            orders: By that number, where the reference's elements stand in the candidate.
            mean: Whether the reference's mean magnitude is wanted.
        """
        self._sides, self._records = sides, records
        self._layouts, self._orders = layouts, orders
        self._mean = mean
        self._room = Room()

    def measured(self, atol: Array, rtol: Array) -> SmallNumbers:
        """Measure the pairs, each distinct one once.

        Raises:
            DumpFormatError: Elements cannot be read.
        """
        known, found = self._records
        seen: dict[object, int] = {}
        keys = zip(
            [record.value for record in known],
            [record.value for record in found],
            [record.shape for record in found],
            self._layouts.tolist(),
            atol.tolist(),
            rtol.tolist(),
            strict=True,
        )
        first = np.array(list(map(seen.setdefault, keys, range(len(known)))), np.int64)
        del seen, keys
        distinct, number = np.unique(first, return_inverse=True)
        parts: list[Counted] = []
        order: list[int] = []
        alone: dict[int, Metrics] = {}
        for batch in self._batches(distinct):
            rows = distinct[batch]
            part, bad = self._batch(rows, atol[rows], rtol[rows])
            alone |= {len(order) + at: metrics for at, metrics in bad.items()}
            parts.append(part)
            order += batch.tolist()
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return SmallNumbers(
            counted=Counted.joined(parts),
            shapes=[found[row].shape for row in distinct[order].tolist()],
            of_row=place[number],
            alone=alone,
            mean=self._mean,
        )

    def _batch(self, rows: Array, atol: Array, rtol: Array) -> tuple[Counted, dict[int, Metrics]]:
        """Measure one batch; those with nan or inf, or an overflow, one by one."""
        known, found = (
            rows_of(side, [records[row] for row in rows.tolist()])
            for side, records in zip(self._sides, self._records, strict=True)
        )
        moved = self._orders[self._layouts[rows[0]]]
        known = known if moved is None else known[:, moved]
        counted = count_small(known, found, atol, rtol, mean=self._mean, room=self._room)
        alone = {}
        for at in np.flatnonzero(counted.nonfinite).tolist():
            shape = self._records[1][rows[at]].shape
            alone[at] = measure(
                known[at].reshape(shape),
                found[at].reshape(shape),
                Tolerance(atol=float(atol[at]), rtol=float(rtol[at])),
                mean=self._mean,
            )
        return counted, alone

    def _batches(self, distinct: Array) -> Iterator[Array]:
        """Yield places among the distinct pairs that are measured together."""
        indexes = [side.index.values for side in self._sides]
        forms: dict[tuple[int, str, str, int], list[int]] = {}
        rows = zip(distinct.tolist(), self._layouts[distinct].tolist(), strict=True)
        for place, (row, layout) in enumerate(rows):
            known, found = (
                values[records[row].value or 0]
                for values, records in zip(indexes, self._records, strict=True)
            )
            form = known.size, known.dtype, found.dtype, layout
            forms.setdefault(form, []).append(place)
        for (size, *_), places in forms.items():
            length = -(-BATCH // size)
            for start in range(0, len(places), length):
                yield np.array(places[start : start + length])


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallNumbers:
    """What was measured, each distinct pair once."""

    counted: Counted
    shapes: Sequence[tuple[int, ...]]
    """Of each distinct pair."""
    of_row: Array
    """Which of these each pair is."""
    alone: dict[int, Metrics]
    """Of distinct pairs with nan or inf."""
    mean: bool

    def mismatched(self) -> Array:
        """Count the elements of each pair that do not agree."""
        counts = self.counted.mismatched.copy()
        for place, metrics in self.alone.items():
            counts[place] = metrics.mismatched
        found: Array = counts[self.of_row]
        return found

    def pressures(self) -> Array:
        """Return the part of its absolute tolerance that each pair needs, -1 for equal ones."""
        found = self.counted.pressures()
        for place, metrics in self.alone.items():
            tolerance = Tolerance(atol=float(self.counted.atol[place]), rtol=0.0)
            found[place] = pressure(metrics, tolerance) if metrics.max_abs else -1.0
        each: Array = found[self.of_row]
        return each

    def metrics(self, rows: Array) -> list[Metrics]:
        """Make the metrics of some pairs; equal ones are one object."""
        places, number = np.unique(self.of_row[rows], return_inverse=True)
        shapes = [self.shapes[place] for place in places.tolist()]
        made = self.counted.metrics(places, shapes, mean=self.mean)
        for at, place in enumerate(places.tolist()):
            made[at] = self.alone.get(place, made[at])
        return [made[at] for at in number.tolist()]


def count_small(
    references: Array, candidates: Array, atol: Array, rtol: Array, *, mean: bool, room: Room
) -> Counted:
    """Take the numbers of small pairs, which their metrics can be made of at any time.

    Args:
        references: One side of each pair, a row each; any real floating dtype.
        candidates: The other, the same shape.
        atol: For each pair; float64.
        rtol: The same.
        mean: Whether ``reference_mean_abs`` is wanted.
        room: Memory for what comes up on the way.
    """
    shape = references.shape
    matrices = [room.take(name, shape, np.float64) for name in ("known", "found", "gap")]
    reference, candidate, distance = matrices
    with np.errstate(all="ignore"):
        np.copyto(reference, references, casting="unsafe")
        np.copyto(candidate, candidates, casting="unsafe")
        np.subtract(candidate, reference, out=distance)
        square = _dot(distance, distance)
        bad = ~np.isfinite(square)  # an overflow is left to ``measure``, too
        if bad.any():
            for matrix in matrices:
                matrix[bad] = 0.0
            square[bad] = 0.0
        return _count(matrices, square, bad, (atol, rtol), mean=mean, room=room)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The numbers of some pairs; one-dimensional arrays, a row for each."""

    size: Array
    """Elements."""
    nonfinite: Array
    """Whether it holds nan or inf, so that the other numbers are not its own."""
    mismatched: Array
    atol: Array
    rtol: Array
    most: Array
    most_at: Array
    relative: Array
    relative_at: Array
    mean_abs: Array
    mean_size: Array
    square: Array
    """Of the difference; then of the reference, of the candidate, and their product."""
    known: Array
    found: Array
    product: Array
    points: Candidates

    @classmethod
    def joined(cls, parts: Sequence[Counted]) -> Counted:
        """Put those of several batches one after the other."""
        columns = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS
        }
        return cls(points=Candidates.joined([part.points for part in parts]), **columns)

    def metrics(
        self, rows: Array, shapes: Sequence[tuple[int, ...]], *, mean: bool
    ) -> list[Metrics]:
        """Make the metrics of some pairs."""
        own = {name: getattr(self, name)[rows] for name in _COLUMNS}
        cells = {name: column.tolist() for name, column in own.items()}
        needed = self.points.needed_atol(self.rtol)[rows], self.points.needed_rtol(self.atol)[rows]
        with np.errstate(all="ignore"):
            relative_l2, cosine = _relative_l2(own), _cosine(own)
        return build_all(
            Metrics,
            len(shapes),
            size=cells["size"],
            mismatched=cells["mismatched"],
            max_abs=cells["most"],
            max_abs_index=_indices(own["most_at"], shapes),
            max_rel=cells["relative"],
            max_rel_index=_indices(own["relative_at"], shapes),
            mean_abs=cells["mean_abs"],
            relative_l2=_known(relative_l2),
            cosine=_known(cosine),
            needed_atol=needed[0].tolist(),
            needed_rtol=_known(np.where(np.isinf(needed[1]), np.nan, needed[1])),
            reference_mean_abs=cells["mean_size"] if mean else [None] * len(shapes),
            hull=self.points.hulls(rows),
        )

    def pressures(self) -> Array:
        """Return the part of its atol that each pair needs; 0 where atol is 0, -1 if equal."""
        needed = self.points.needed_atol(self.rtol)
        found = np.divide(needed, self.atol, out=np.zeros(needed.size), where=self.atol != 0)
        found[self.most == 0] = -1.0
        return found


_COLUMNS = tuple(each.name for each in fields(Counted) if each.name != "points")


def _count(
    matrices: Sequence[Array],
    square: Array,
    bad: Array,
    tolerances: tuple[Array, Array],
    *,
    mean: bool,
    room: Room,
) -> Counted:
    """Take all numbers; the distances come with their sign and lose it."""
    reference, candidate, distance = matrices
    form = count, size = reference.shape
    rows = np.arange(count)
    np.abs(distance, out=distance)
    magnitude = np.abs(reference, out=room.take("size", form, np.float64))
    relative = np.divide(distance, magnitude, out=room.take("ratio", form, np.float64))
    if magnitude.min() == 0:
        np.copyto(relative, 0.0, where=distance == 0)
    tops = distance.argmax(axis=1), relative.argmax(axis=1)
    most = distance[rows, tops[0]]
    return Counted(
        size=np.full(count, size),
        nonfinite=bad,
        mismatched=size - _agreeing(distance, magnitude, most, tolerances, room),
        atol=tolerances[0],
        rtol=tolerances[1],
        most=most,
        most_at=tops[0],
        relative=relative[rows, tops[1]],
        relative_at=tops[1],
        mean_abs=distance.sum(axis=1) / size,
        mean_size=magnitude.sum(axis=1) / size if mean else np.zeros(count),
        square=square,
        known=_dot(reference, reference),
        found=_dot(candidate, candidate),
        product=_dot(reference, candidate),
        points=Candidates.of(magnitude, distance, relative, tops, room),
    )


def _agreeing(
    distance: Array,
    magnitude: Array,
    most: Array,
    tolerances: tuple[Array, Array],
    room: Room,
) -> Array:
    """Count the elements of each pair that agree; where the largest is within atol, all do."""
    count, size = distance.shape
    agreeing = np.full(count, size)
    open_ones = np.flatnonzero(~(most <= tolerances[0]))
    if open_ones.size:
        atol, rtol = (column[:, None] for column in tolerances)
        line = np.multiply(magnitude, rtol, out=room.take("line", distance.shape, np.float64))
        np.add(line, atol, out=line)
        agree = np.less_equal(distance, line, out=room.take("agree", distance.shape, np.bool_))
        agreeing[open_ones] = np.count_nonzero(agree, axis=1)[open_ones]
    return agreeing


def _dot(one: Array, other: Array) -> Array:
    """Return the product of each row with the other's."""
    product: Array = np.matmul(one[:, None, :], other[:, :, None])[:, 0, 0]
    return product


def _relative_l2(own: Mapping[str, Array]) -> Array:
    """Return ``||c - r|| / ||r||`` of each pair."""
    size, square = np.sqrt(own["known"]), own["square"]
    return np.where(size == 0, np.where(square == 0, 0.0, np.inf), np.sqrt(square) / size)


def _cosine(own: Mapping[str, Array]) -> Array:
    """Return the cosine of each pair, nan where there is none."""
    sizes = np.sqrt(own["known"]) * np.sqrt(own["found"])
    cosine = np.where(np.isfinite(sizes) & (sizes != 0), own["product"] / sizes, np.nan)
    return np.clip(cosine, -1.0, 1.0)


def _known(numbers: Array) -> list[float | None]:
    """Return None for nan."""
    found: list[float | None] = numbers.tolist()
    if np.isnan(numbers).any():
        return [None if number != number else number for number in found]  # noqa: PLR0124 -- nan
    return found


def _indices(places: Array, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the index of a place in C order in each shape."""
    found: list[tuple[int, ...]] = [()] * len(shapes)
    of_shape: dict[tuple[int, ...], list[int]] = {}
    for row, shape in enumerate(shapes):
        of_shape.setdefault(shape, []).append(row)
    for shape, rows in of_shape.items():
        axes = np.unravel_index(places[rows], shape) if shape else ()
        indices = zip(*(axis.tolist() for axis in axes), strict=True) if axes else repeat(())
        for row, index in zip(rows, indices, strict=False):
            found[row] = index
    return found
