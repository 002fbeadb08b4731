"""Make judged pairs of what pairing and judging know, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.comparer.judgedpairs import pressure
from padiff.comparer.result import Endpoint, JudgedPair, Verdict
from padiff.dumpfile import Address
from padiff.dumpfile.bulk import build_all
from padiff.pairing.rule import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from padiff.comparer.result import GoldenErrors, Metrics, Tolerance
    from padiff.dumpfile import Index
    from padiff.pairing import RecordPair

    from .basis import Basis
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Pairs that were judged by their elements; parallel sequences."""

    builder: Builder
    pairs: Sequence[RecordPair]
    metrics: Sequence[Metrics]
    tolerances: Sequence[Tolerance]
    bases: Sequence[Basis]
    errors: Sequence[GoldenErrors | None]
    agree: Sequence[bool]
    reasons: Sequence[str]

    def not_plain(self) -> list[int]:
        """Give the rows of those of which there is more to say than that they agree."""
        both = zip(self.agree, self.reasons, strict=True)
        return [row for row, (agrees, reason) in enumerate(both) if reason or not agrees]

    def built(self, rows: Sequence[int]) -> list[JudgedPair]:
        """Make judged pairs of some rows."""
        agree = [self.agree[row] for row in rows]
        return self.builder.built(
            [self.pairs[row] for row in rows],
            same={},
            verdict=[Verdict.MATCH if agrees else Verdict.DIVERGED for agrees in agree],
            metrics=[self.metrics[row] for row in rows],
            tolerance=[self.tolerances[row] for row in rows],
            basis=[self.bases[row] for row in rows],
            errors=[self.errors[row] for row in rows],
            fatal=[not agrees for agrees in agree],
            reason=[self.reasons[row] for row in rows],
        )

    def pressures(self) -> Array:
        """Give the part of its absolute tolerance that each pair needs, -1 for equal ones."""
        return np.array(
            [
                pressure(metrics, tolerance) if metrics.max_abs else -1.0
                for metrics, tolerance in zip(self.metrics, self.tolerances, strict=True)
            ]
        )


def endpoints(index: Index, ids: Iterable[int]) -> list[Endpoint]:
    """Describe records of an index as one side of pairs.

    Args:
        index: All that was recorded.
        ids: Of the records, in any order.
    """
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
