"""Judge a pair of which not all elements were recorded: by a sample, by statistics, by digests.

Each says what it is. A sample is judged element by element, and the statistics of the whole tensors
besides; statistics out of bounds prove a divergence, within bounds they prove nothing; digests tell
only whether all bits are equal.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict
from padiff.comparer.settings import Mode
from padiff.dumpfile import Content, Statistics
from padiff.pairing import elements_of, holds_all, match_elements

from .metrics import index_of, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.comparer.result import JudgedPair, Metrics, Tolerance
    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.pairing import Matched, Rule, Side


class Partial:
    """Both sides of a pair of which not all elements were recorded."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        references: Sequence[RecordInfo],
        record: RecordInfo,
        rule: Rule,
    ) -> None:
        """Look at what there is."""
        self.sides, self.references, self.record, self.rule = sides, references, record, rule
        self.is_unknown = is_reordered([one.shape for one in references], record.shape, rule)
        self.size = math.prod(record.shape)
        self.known = [sides[0].index.values[one.value or 0] for one in references]
        self.found = sides[1].index.values[record.value or 0]

    @property
    def has_statistics(self) -> bool:
        """Return whether statistics of all parts are there."""
        return all(value.content is not Content.DIGEST for value in (*self.known, self.found))

    @property
    def is_same_bytes_if_equal(self) -> bool:
        """Return whether digests would be equal if all elements were."""
        is_one = len(self.known) == 1 and self.known[0].dtype == self.found.dtype
        return is_one and self.rule.is_identity and not self.is_unknown

    def matched(self) -> Matched | None:
        """Return the elements that both sides hold, None if there are too few.

        Raises:
            DumpFormatError: They cannot be read.
        """
        if self.is_unknown:
            return None
        known = [elements_of(self.sides[0], one) for one in self.references]
        found = elements_of(self.sides[1], self.record)
        parts = [part for part in known if part is not None]
        if found is None or len(parts) < len(known):
            return None
        return match_elements(self.rule, parts, found)

    def statistics(self) -> tuple[Statistics, Statistics] | None:
        """Return statistics of equal elements of both sides, None if those are of others."""
        if not self.has_statistics or not holds_all(self.rule):
            return None
        if sum(value.size for value in self.known) != self.found.size:
            return None
        return _joined(self.known), self.found.statistics


def is_reordered(references: Sequence[tuple[int, ...]], shape: tuple[int, ...], rule: Rule) -> bool:
    """Return whether the axes stand in another order and no rule says in which.

    Which axis is which cannot be verified without elements; statistics do not depend on it.
    """
    if len(references) != 1 or not rule.is_identity or references[0] == shape:
        return False
    return _sizes(references[0]) == _sizes(shape)


def _sizes(shape: tuple[int, ...]) -> list[int]:
    return sorted(size for size in shape if size != 1)


def judge_partly(
    judged: JudgedPair,
    partial: Partial,
    tolerance: Tolerance,
    mode: Mode,
    is_match: Callable[[Metrics, Tolerance], bool],
) -> JudgedPair:
    """Judge by the best evidence that there is.

    Args:
        judged: The pair so far.
        partial: Its two sides.
        tolerance: When elements agree.
        mode: What of them must; statistics decide only about every element.
        is_match: Decides by metrics.

    Raises:
        DumpFormatError: Elements cannot be read.
    """
    statistics = partial.statistics() if mode is Mode.STRICT else None
    differs = "" if statistics is None else disagreement(*statistics, tolerance, size=partial.size)
    matched = partial.matched()
    if matched is not None:
        return _by_sample(judged, partial, matched, tolerance, differs, mode, is_match)
    if statistics is not None:
        return replace(
            judged,
            verdict=Verdict.DIVERGED if differs else Verdict.MATCH,
            tolerance=tolerance,
            by_statistics=True,
            fatal=bool(differs),
            reason=differs,
        )
    if not partial.has_statistics and partial.is_same_bytes_if_equal:
        return replace(
            judged,
            verdict=Verdict.DIVERGED,
            by_digest=True,
            fatal=True,
            reason="not bit-equal; by how much is not known, as only digests were recorded",
        )
    return replace(judged, verdict=Verdict.SKIPPED, reason=_why_not(partial, mode))


def _by_sample(
    judged: JudgedPair,
    partial: Partial,
    matched: Matched,
    tolerance: Tolerance,
    differs: str,
    mode: Mode,
    is_match: Callable[[Metrics, Tolerance], bool],
) -> JudgedPair:
    metrics = measure(matched.reference, matched.candidate, tolerance, mean=mode is Mode.MEAN)
    metrics = replace(
        metrics,
        max_abs_index=_index(metrics.max_abs_index, matched, partial.record.shape),
        max_rel_index=_index(metrics.max_rel_index, matched, partial.record.shape),
    )
    agrees = is_match(metrics, tolerance)
    return replace(
        judged,
        verdict=Verdict.MATCH if agrees and not differs else Verdict.DIVERGED,
        metrics=metrics,
        tolerance=tolerance,
        sampled_of=partial.size,
        fatal=not agrees or bool(differs),
        reason=f"outside the sample: {differs}" if agrees and differs else "",
    )


def _index(
    place: tuple[int, ...] | None, matched: Matched, shape: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the index in the whole tensor for one in the sample."""
    return None if place is None else index_of(int(matched.places[place[0]]), shape)


def _joined(values: Sequence[ValueInfo]) -> Statistics:
    """Return the statistics of all elements of several values."""
    if len(values) == 1:
        return values[0].statistics
    parts = [value.statistics for value in values]
    lows = [part.minimum for part in parts if part.minimum is not None]
    highs = [part.maximum for part in parts if part.maximum is not None]
    sizes = [value.size - value.statistics.nonfinite for value in values]
    total = math.fsum((part.mean or 0.0) * n for part, n in zip(parts, sizes, strict=True))
    return Statistics(
        minimum=min(lows, default=None),
        maximum=max(highs, default=None),
        mean=total / sum(sizes) if lows else None,
        l2=math.hypot(*(part.l2 or 0.0 for part in parts)) if lows else None,
        nan=sum(part.nan for part in parts),
        posinf=sum(part.posinf for part in parts),
        neginf=sum(part.neginf for part in parts),
        zeros=sum(part.zeros for part in parts),
    )


def _why_not(partial: Partial, mode: Mode) -> str:
    """Explain why nothing that was recorded can decide."""
    if not partial.has_statistics:
        return "only digests were recorded, of tensors in another layout or dtype"
    if mode is not Mode.STRICT:
        return f"only statistics were recorded, which decide nothing in mode {mode}"
    return "only statistics were recorded, of tensors that are cut differently"


ROUNDING = 1e-6
"""Relative slack for sums that were rounded on two machines."""


def disagreement(
    reference: Statistics, candidate: Statistics, tolerance: Tolerance, *, size: int
) -> str:
    """Describe which statistic no two agreeing tensors could have; empty if there is none.

    From ``|c - r| <= atol + rtol * |r|`` for all elements follow, with ``m`` the largest ``|r|``:
    smallest, largest and mean value differ by at most ``atol + rtol * m``, and the norms by at most
    ``sqrt(size) * atol + rtol * ||r||`` (triangle inequality). nan and inf are at the same places.

    Args:
        reference: Of the tensor held to be right; the same elements in any order.
        candidate: Of the other one.
        tolerance: What decides whether elements agree.
        size: Number of elements.

    >>> from padiff.comparer import Tolerance
    >>> from padiff.dumpfile import Statistics
    >>> known = Statistics(minimum=-1.0, maximum=1.0, mean=0.0, l2=2.0)
    >>> found = Statistics(minimum=-1.0, maximum=1.5, mean=0.0, l2=2.0)
    >>> disagreement(known, found, Tolerance(atol=0.1, rtol=0.0), size=9)
    'maximum 1 on the reference, 1.5 on the candidate'
    """
    for name in ("nan", "posinf", "neginf"):
        if getattr(reference, name) != getattr(candidate, name):
            return _words(name, getattr(reference, name), getattr(candidate, name))
    largest = max(abs(reference.minimum or 0.0), abs(reference.maximum or 0.0))
    each = tolerance.atol + tolerance.rtol * largest + ROUNDING * largest
    norm = reference.l2 or 0.0
    whole = math.sqrt(size) * tolerance.atol + (tolerance.rtol + ROUNDING) * norm
    for name, allowed in (("minimum", each), ("maximum", each), ("mean", each), ("l2", whole)):
        one, other = getattr(reference, name), getattr(candidate, name)
        if (one is None) is not (other is None):
            return _words(name, one, other)
        if one is not None and other is not None and not abs(other - one) <= allowed:
            return _words(name, one, other)
    return ""


def _words(name: str, reference: float | None, candidate: float | None) -> str:
    shown = ["none" if value is None else f"{value:.6g}" for value in (reference, candidate)]
    return f"{name} {shown[0]} on the reference, {shown[1]} on the candidate"
