"""What is judged of ranks beside the whole: replicas that differ, layouts that are not known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from padiff.comparer.judgedpairs import replaced
from padiff.comparer.judging.basis import Bases
from padiff.comparer.judging.building import endpoints
from padiff.comparer.judging.metrics import measure
from padiff.comparer.judging.partly import disagreement
from padiff.comparer.judging.tolerance import TolerancePolicy
from padiff.comparer.judging.unmeasured import arrays_of
from padiff.comparer.result import Verdict
from padiff.dumpfile import Role

from .assembling import assembled, coordinates
from .joining import keys_of
from .knownlayout import Unknown
from .logicalstep import LogicalStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.comparer.judging.judge import Judgement
    from padiff.comparer.result import JudgedPair, Metrics, Tolerance
    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import StepReader, ValueInfo
    from padiff.pairing import Pairing, RecordPair

    from .joining import Key
    from .knownlayout import KnownLayout

Array = npt.NDArray[Any]
Sides = tuple["StepReader", "StepReader"]
_COPIES = frozenset({Role.WEIGHT, Role.BUFFER, Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE})
"""Roles of what replicas have bit by bit the same."""
_COVERED = frozenset({Unknown.MASKED, Unknown.CONSUMER})
"""Reasons of what is judged at another record."""


def judge_ranks(
    judgement: Judgement, pairing: Pairing, sides: Sides, settings: CompareSettings
) -> Judgement:
    """Return a judgement in which each replica counts, and nothing of which no layout is known."""
    if not any(isinstance(side, LogicalStep) for side in sides):
        return judgement
    judges = [_Judge(which, side, sides, settings) for which, side in enumerate(sides)]
    others: dict[int, JudgedPair] = {}
    for place, (known, found) in enumerate(judgement.records):
        ends = (known, () if found is None else (found,))
        for judge, records in zip(judges, ends, strict=True):
            unknown = next(filter(None, map(judge.unknown, records)), None)
            if unknown is None and not records:
                unknown = judge.unknown_partner(ends[1 - judge.which][0])
            if unknown is not None:
                pair = others.get(place, judgement.pairs[place])
                others[place] = replace(
                    pair,
                    verdict=Verdict.SKIPPED,
                    fatal=False,
                    reason=str(unknown),
                    covered=unknown in _COVERED,
                )
                break
            if place < len(pairing.records) and any(map(judge.has_replicas, records)):
                pair = others.get(place, judgement.pairs[place])
                others[place] = judge.judged(pairing.records[place], pair)
    return replace(judgement, pairs=replaced(judgement.pairs, others))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replica:
    """The whole as one of several replicas has it."""

    rank: int
    array: Array


class _Judge:
    """Judges one side's replicas against the other side."""

    def __init__(
        self, which: int, side: StepReader, sides: Sides, settings: CompareSettings
    ) -> None:
        self.which = which
        self._side = side if isinstance(side, LogicalStep) else None
        self._sides = sides
        self._settings = settings
        self._other_keys: list[Key] | None = None
        self._bases = Bases(sides[0].index, sides[1].index, None)

    def unknown(self, record: int) -> Unknown | None:
        """Return why nothing can be said of a record."""
        return None if self._side is None else self._side.unknown_of(record)

    def unknown_partner(self, record: int) -> Unknown | None:
        """Return why nothing can be said of what would be the partner of the other side's record.

        One of another shape is not paired.
        """
        if self._side is None:
            return None
        if self._other_keys is None:
            self._other_keys = keys_of(self._sides[1 - self.which].index)
        return self._side.layouts.unknown.get(self._other_keys[record])

    def has_replicas(self, record: int) -> bool:
        """Return whether a record has replicas that are not bit-equal."""
        known = None if self._side is None else self._side.layout_of(record)
        return known is not None and bool(known.differing)

    def judged(self, pair: RecordPair, judged: JudgedPair) -> JudgedPair:
        """Judge a pair by the replica that is farthest from the other side."""
        tolerance = judged.tolerance or self._tolerance(pair)
        apart = self._apart(pair, tolerance)
        if apart:
            return replace(
                judged, verdict=Verdict.DIVERGED, fatal=True, equal_digest=False, reason=apart
            )
        worst: tuple[_Replica, Metrics] | None = None
        replicas = list(self._replicas(pair))
        for replica in replicas:
            found = self._measured(pair, replica, tolerance)
            if found is not None and (worst is None or _badness(found) > _badness(worst[1])):
                worst = replica, found
        if worst is None or not worst[1].mismatched:
            return judged
        return replace(
            judged,
            verdict=Verdict.DIVERGED,
            fatal=True,
            equal_digest=False,
            tolerance=tolerance,
            metrics=worst[1],
        )

    def _apart(self, pair: RecordPair, tolerance: Tolerance) -> str:
        """Return what digests and statistics say of replicas whose elements nobody kept."""
        records = pair.reference if self.which == 0 else (pair.candidate,)
        if self._side is None or len(records) != 1 or self._side.parts_of(records[0]):
            return ""
        known, values = self._side.layout_of(records[0]), self._side.values_of(records[0])
        role = self._side.index.records[records[0]].role
        return "" if known is None else apart_by_digest(known, values, role, tolerance)

    def _tolerance(self, pair: RecordPair) -> Tolerance:
        """Return what bit-equal wholes would have been judged by."""
        known = self._sides[0].index.records[pair.reference[0]]
        found = self._sides[1].index.records[pair.candidate]
        (basis,) = self._bases.of([(known,)], [found])
        ends = [
            endpoints(side.index, [one])[0].address
            for side, one in zip(self._sides, (known.id, found.id), strict=True)
        ]
        policy = TolerancePolicy(
            atol=self._settings.atol, rtol=self._settings.rtol, rules=self._settings.rules
        )
        return policy.choose(ends[0], ends[1], basis)

    def _replicas(self, pair: RecordPair) -> Iterator[_Replica]:
        """Yield the wholes that differ, of the records of this side; the first replica's first."""
        records = pair.reference if self.which == 0 else (pair.candidate,)
        if self._side is None or len(records) != 1:
            return
        known = self._side.layout_of(records[0])
        parts = self._side.parts_of(records[0])
        if known is None or not parts:
            return
        yield from (
            _Replica(rank=rank, array=array) for rank, array in replicas_of(known, parts).items()
        )

    def _measured(
        self, pair: RecordPair, replica: _Replica, tolerance: Tolerance
    ) -> Metrics | None:
        known, found = self._sides
        record = found.index.records[pair.candidate]
        if self.which == 0:
            parts, mine = [replica.array], found.array(record)
        else:
            references = [known.index.records[one] for one in pair.reference]
            if any(one.value is None for one in references):
                return None
            parts, mine = arrays_of(references, known), replica.array
        mine = pair.candidate_rule.apply([mine])
        expected = pair.rule.apply(parts, mine.shape)
        return measure(expected, mine, tolerance)


def apart_by_digest(
    known: KnownLayout, values: Mapping[int, ValueInfo], role: Role, tolerance: Tolerance
) -> str:
    """Return which replicas differ, as far as digests and statistics tell; empty if none does.

    Weights, and what is made for each of them, are equal bit by bit. Others may differ by
    rounding: of these a statistic has to be out of bounds.
    """
    ranks = {coordinate: rank for rank, coordinate in coordinates(known.layout)}
    along = [dim in known.differing for dim in known.layout.mesh.dims]
    for coordinate, rank in ranks.items():
        at = zip(coordinate, along, strict=True)
        first = ranks[tuple(0 if is_along else place for place, is_along in at)]
        if rank not in values or first not in values:
            continue
        one, other = values[first], values[rank]
        if one.digest == other.digest:
            continue
        told = disagreement(one.statistics, other.statistics, tolerance, size=one.size)
        if told or role in _COPIES:
            dims = " ".join(known.differing)
            words = told.replace("the reference", f"rank {first}").replace(
                "the candidate", f"rank {rank}"
            )
            return (
                f"replicas over {dims} differ: rank {rank} from rank {first}, "
                f"{words or 'by their digests'}; elements of one were not recorded"
            )
    return ""


def replicas_of(known: KnownLayout, parts: dict[int, Array]) -> dict[int, Array]:
    """Return the wholes of all places along the dimensions whose replicas differ, by first rank."""
    layout = known.layout
    along = [place for place, dim in enumerate(layout.mesh.dims) if dim in known.differing]
    groups: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
    for rank, coordinate in coordinates(layout):
        spot = tuple(coordinate[place] for place in along)
        rest = tuple(0 if place in along else one for place, one in enumerate(coordinate))
        groups.setdefault(spot, {})[rest] = rank
    firsts = dict(coordinates(layout))
    dtype = next(iter(parts.values())).dtype
    return {
        min(ranks.values()): assembled(
            layout,
            lambda rank, ranks=ranks: parts[ranks[firsts[rank]]],  # type: ignore[misc]
            dtype,
            divisor=known.divisor,
        )
        for ranks in groups.values()
    }


def _badness(metrics: Metrics) -> tuple[int, float]:
    return metrics.mismatched, metrics.max_abs or 0.0
