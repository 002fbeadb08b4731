"""Make judged pairs of what pairing and judging know, many at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile.bulk import build_all
from padiff.pairing.rule import IDENTITY

from .ends import endpoints

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.comparer.result import GoldenErrors, Metrics, Tolerance
    from padiff.dumpfile import Index
    from padiff.pairing import RecordPair

    from .basis import Basis

__all__ = ["Builder", "Measured", "Plain"]


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


class Judged(Protocol):
    """Pairs that were judged together, by row."""

    def built(self, rows: Sequence[int]) -> list[JudgedPair]:
        """Make judged pairs of some rows."""


@dataclass(frozen=True, kw_only=True)
class Plain:
    """Pairs that agree, by their place among all."""

    builder: Builder
    pairs: Sequence[RecordPair]
    groups: Sequence[tuple[Sequence[int], Judged]]
    """Those that were measured, with the places of their rows; the digests of the others are
    equal."""

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

    @cached_property
    def _rows(self) -> list[dict[int, int]]:
        """Give for each group the row of each of its places."""
        return [{at: row for row, at in enumerate(places)} for places, _ in self.groups]
