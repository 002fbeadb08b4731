"""Make judged pairs of what pairing and judging know, many at once, and late.

What simply agrees stays in columns: it is counted and found there, and made when it is asked for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from padiff.comparer.judgedpairs import Saying, Spot
from padiff.comparer.result import Endpoint, Evidence, JudgedPair, Tolerance, Verdict
from padiff.dumpfile import Address, Phase, Role
from padiff.dumpfile.bulk import build_all
from padiff.pairing.rule import IDENTITY

from .blocks import numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from padiff.comparer.result import GoldenErrors, Metrics
    from padiff.dumpfile import Index, RecordInfo
    from padiff.pairing import RecordPair

    from .basis import BasisColumns
    from .blocks import Array


@dataclass(frozen=True, slots=True)
class Builder:
    """Makes the judged pairs of one step. Needs the indexes alone, no file."""

    reference: Index
    candidate: Index

    def built(
        self, pairs: Sequence[RecordPair], *, same: Mapping[str, object], **columns: list[Any]
    ) -> list[JudgedPair]:
        """Make judged pairs.

        Args:
            pairs: What pairing says of each.
            same: Fields of ``JudgedPair`` that are equal in all.
            columns: Fields that are not, one cell for each pair.
        """
        texts = {IDENTITY: ""}
        layouts = [
            [texts[rule] if rule in texts else texts.setdefault(rule, str(rule)) for rule in rules]
            for rules in ([one.rule for one in pairs], [one.candidate_rule for one in pairs])
        ]
        return build_all(
            JudgedPair,
            len(pairs),
            same=same,
            reference=endpoints(self.reference, [pair.reference[0] for pair in pairs]),
            candidate=endpoints(self.candidate, [pair.candidate for pair in pairs]),
            paired_by=[pair.paired_by for pair in pairs],
            layout=layouts[0],
            candidate_layout=layouts[1],
            **columns,
        )


class Numbers(Protocol):
    """What was measured of some pairs, by row."""

    def mismatched(self) -> Array:
        """Count the elements of each pair that do not agree."""

    def metrics(self, rows: Array) -> list[Metrics]:
        """Make the metrics of some pairs."""

    def pressures(self) -> Array:
        """Return the part of its absolute tolerance that each pair needs, float64, >= 0.

        0 where that tolerance is 0; -1 for pairs without any difference.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Pairs that were judged by their elements; rows of parallel columns."""

    builder: Builder
    pairs: Sequence[RecordPair]
    numbers: Numbers
    atol: Array
    rtol: Array
    bases: BasisColumns
    agree: Array
    errors: Sequence[GoldenErrors | None]
    """Against a golden run; empty without one."""
    reasons: Mapping[int, str]
    """What is to be said of a pair besides, by row."""

    def not_plain(self) -> list[int]:
        """Return the rows of those of which there is more to say than that they agree."""
        return sorted({*np.flatnonzero(~self.agree).tolist(), *self.reasons})

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
            errors=[self.errors[row] for row in rows] if self.errors else [None] * at.size,
            fatal=[not agrees for agrees in agree],
            reason=[self.reasons.get(row, "") for row in rows],
        )


@dataclass(frozen=True, kw_only=True)
class AgreeingPairs:
    """Pairs that agree, by their place among all; implements ``Agreeing``."""

    builder: Builder
    pairs: Sequence[RecordPair]
    groups: Sequence[tuple[Sequence[int], Measured]]
    """Those that were measured, with the places of their rows, ascending; the digests of the
    others are equal."""

    def made(self, places: Sequence[int]) -> list[JudgedPair]:
        """Make the judged pairs at some places."""
        found: dict[int, JudgedPair] = {}
        for (_, group), rows in zip(self.groups, self._rows, strict=True):
            mine = [at for at in places if at in rows]
            found |= zip(mine, group.built([rows[at] for at in mine]), strict=True)
        rest = [at for at in places if at not in found]
        equal = {"verdict": Verdict.MATCH, "equal_digest": True}
        found |= zip(
            rest, self.builder.built([self.pairs[at] for at in rest], same=equal), strict=True
        )
        return [found[at] for at in places]

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        """Count the pairs by what a summary says of them."""
        is_plain = self._is_plain(told)
        is_equal = is_plain.copy()
        for places, _ in self.groups:
            is_equal[places] = False
        roles = tuple(Role)
        codes = numbered([record.role for record in self._known], roles)
        found: Counter[Saying] = Counter()
        for is_digest, mask in ((True, is_equal), (False, is_plain & ~is_equal)):
            rests_on = Evidence.DIGEST if is_digest else Evidence.ELEMENTS
            counts = np.bincount(codes[mask], minlength=len(roles)).tolist()
            for role, count in zip(roles, counts, strict=True):
                if count:
                    saying = Saying(Verdict.MATCH, rests_on, role, is_digest)
                    found[saying] = count
        return found

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        """Return (place, spot) of the first pair at each spot, in order."""
        phases = tuple(Phase)
        at = np.flatnonzero(self._is_plain(told))
        modules = np.array([record.module for record in self._known], np.int64)
        codes = modules * len(phases) + numbered([record.phase for record in self._known], phases)
        _, firsts = np.unique(codes[at], return_index=True)
        places = np.sort(at[firsts])
        return [
            (place, Spot(record.module, record.phase, Verdict.MATCH))
            for place in places.tolist()
            for record in (self._known[place],)
        ]

    def nearest(self, told: Set[int]) -> int | None:
        """Return the place of the first pair that uses up most of its absolute tolerance."""
        is_plain = self._is_plain(told)
        best: tuple[float, int] | None = None
        for places, group in self.groups:
            found = np.where(is_plain[places], group.numbers.pressures(), -1.0)
            row = int(np.argmax(found)) if found.size else 0
            if found.size and found[row] >= 0:
                here = float(found[row]), -places[row]
                best = here if best is None else max(best, here)
        return None if best is None else -best[1]

    @cached_property
    def _known(self) -> list[RecordInfo]:
        """Return the reference's record of each pair, the first one of several."""
        records = self.builder.reference.records
        return [records[pair.reference[0]] for pair in self.pairs]

    @cached_property
    def _rows(self) -> list[dict[int, int]]:
        """Return for each group the row of each of its places."""
        return [{at: row for row, at in enumerate(places)} for places, _ in self.groups]

    def _is_plain(self, told: Set[int]) -> Array:
        """Return for each pair whether it is not among those told."""
        mask = np.ones(len(self.pairs), np.bool_)
        mask[[place for place in told if place < len(self.pairs)]] = False
        return mask


def endpoints(index: Index, ids: Iterable[int]) -> list[Endpoint]:
    """Describe records of an index as one side of pairs."""
    records = [index.records[place] for place in ids]
    modules = [index.modules[record.module] for record in records]
    calls = [None if record.call is None else index.calls[record.call] for record in records]
    values = [None if record.value is None else index.values[record.value] for record in records]
    addresses = build_all(
        Address,
        len(records),
        same={"step": index.step, "rank": index.rank},
        module=[module.path for module in modules],
        class_name=[module.class_name for module in modules],
        call=[None if call is None else call.index for call in calls],
        phase=[record.phase for record in records],
        role=[record.role for record in records],
        slot=[record.slot for record in records],
    )
    return build_all(
        Endpoint,
        len(records),
        address=addresses,
        order=[record.order for record in records],
        dtype=["none" if value is None else value.dtype for value in values],
        shape=[record.shape for record in records],
        statistics=[None if value is None else value.statistics for value in values],
        module_source=[module.source for module in modules],
        call_site=[None if call is None else call.site for call in calls],
        call=[record.call for record in records],
        module=[record.module for record in records],
    )
