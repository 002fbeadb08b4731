"""Judge small pairs as columns, from the index to the verdict; objects are made when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import pressure
from padiff.comparer.result import Tolerance, Verdict
from padiff.dumpfile.bulk import build_all
from padiff.pairing import rows_of

from .blocks import Room
from .metrics import measure
from .smallpairs import BATCH, Counted, count_small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from padiff.comparer.result import JudgedPair, Metrics
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import RecordPair, Side

    from .basis import Bases, BasisColumns
    from .blocks import Array
    from .building import Builder
    from .layouts import LaidOut
    from .tolerance import TolerancePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallJudged:
    """Small pairs that were judged; rows of parallel columns."""

    builder: Builder
    pairs: Sequence[RecordPair]
    bases: BasisColumns
    atol: Array
    rtol: Array
    numbers: _Numbers
    agree: Array

    def not_plain(self) -> list[int]:
        """Give the rows of those that do not agree."""
        found: list[int] = np.flatnonzero(~self.agree).tolist()
        return found

    def built(self, rows: Sequence[int]) -> list[JudgedPair]:
        """Make judged pairs of some rows."""
        at = np.array(rows, np.int64)
        agree = self.agree[at].tolist()
        return self.builder.built(
            [self.pairs[row] for row in rows],
            same={},
            verdict=[Verdict.MATCH if agrees else Verdict.DIVERGED for agrees in agree],
            metrics=self.numbers.metrics(at),
            tolerance=build_all(
                Tolerance, at.size, atol=self.atol[at].tolist(), rtol=self.rtol[at].tolist()
            ),
            basis=self.bases.rows(at),
            fatal=[not agrees for agrees in agree],
        )

    def pressures(self) -> Array:
        """Give the part of its absolute tolerance that each pair needs, -1 for equal ones."""
        return self.numbers.pressures()


def judge_small(
    sides: tuple[Side, Side],
    builder: Builder,
    small: LaidOut,
    bases: Bases,
    policy: TolerancePolicy,
    *,
    mean: bool,
    agrees: Callable[[Metrics, Tolerance], bool],
) -> SmallJudged:
    """Measure small pairs, and judge them where the user has no rule and nothing was measured.

    Args:
        sides: The side held to be right, and the other.
        builder: Makes judged pairs.
        small: Pairs of small tensors of one dtype and size, recorded as a whole.
        bases: What tolerances are chosen by.
        policy: Chooses them.
        mean: Whether the reference's mean magnitude is wanted.
        agrees: Tells whether a pair matches of which some elements do not agree.

    Raises:
        DumpFormatError: Elements cannot be read.
    """
    known = [sides[0].index.records[pair.reference[0]] for pair in small.pairs]
    found = [sides[1].index.records[pair.candidate] for pair in small.pairs]
    columns = bases.columns(known, found)
    atol, rtol = policy.choose_columns(known, columns, step=sides[0].index.step)
    numbers = _Measured(sides, small, mean=mean).of(known, found, atol, rtol)
    agree = numbers.mismatched() == 0
    bad = np.flatnonzero(~agree)
    for row, metrics in zip(bad.tolist(), numbers.metrics(bad), strict=True):
        agree[row] = agrees(metrics, Tolerance(atol=float(atol[row]), rtol=float(rtol[row])))
    return SmallJudged(
        builder=builder,
        pairs=small.pairs,
        bases=columns,
        atol=atol,
        rtol=rtol,
        numbers=numbers,
        agree=agree,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
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
        """Give the part of its absolute tolerance that each pair needs, -1 for equal ones."""
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
        made = self.counted.picked(places).metrics(shapes, mean=self.mean)
        for at, place in enumerate(places.tolist()):
            made[at] = self.alone.get(place, made[at])
        return [made[at] for at in number.tolist()]


class _Measured:
    """Measures small pairs in batches of one dtype, size and layout."""

    def __init__(self, sides: tuple[Side, Side], small: LaidOut, *, mean: bool) -> None:
        self._sides = sides
        self._layouts, self._orders = small.layouts, small.orders
        self._mean = mean
        self._room = Room()

    def of(
        self, known: Sequence[RecordInfo], found: Sequence[RecordInfo], atol: Array, rtol: Array
    ) -> _Numbers:
        """Measure pairs, each distinct one once."""
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
        for batch in self._batches(known, distinct):
            rows = distinct[batch]
            references = rows_of(self._sides[0], [known[row] for row in rows.tolist()])
            moved = self._orders[self._layouts[rows[0]]]
            references = references if moved is None else references[:, moved]
            candidates = rows_of(self._sides[1], [found[row] for row in rows.tolist()])
            tolerances = atol[rows], rtol[rows]
            part = count_small(
                references, candidates, *tolerances, mean=self._mean, room=self._room
            )
            for at in np.flatnonzero(part.nonfinite).tolist():
                shape = found[rows[at]].shape
                alone[len(order) + at] = measure(
                    references[at].reshape(shape),
                    candidates[at].reshape(shape),
                    Tolerance(atol=float(tolerances[0][at]), rtol=float(tolerances[1][at])),
                    mean=self._mean,
                )
            parts.append(part)
            order += batch.tolist()
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return _Numbers(
            counted=Counted.joined(parts),
            shapes=[found[row].shape for row in distinct[order].tolist()],
            of_row=place[number],
            alone=alone,
            mean=self._mean,
        )

    def _batches(self, known: Sequence[RecordInfo], distinct: Array) -> Iterator[Array]:
        """Yield places among the distinct pairs that are measured together."""
        values = self._sides[0].index.values
        forms: dict[tuple[int, str, int], list[int]] = {}
        rows = zip(distinct.tolist(), self._layouts[distinct].tolist(), strict=True)
        for place, (row, layout) in enumerate(rows):
            value = values[known[row].value or 0]
            forms.setdefault((value.size, value.dtype, layout), []).append(place)
        for (size, _, _), places in forms.items():
            length = -(-BATCH // size)
            for start in range(0, len(places), length):
                yield np.array(places[start : start + length])
