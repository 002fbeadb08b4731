"""From numbers to a verdict on one pair: the same rules for dumps and for a finished report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.comparer.result import GoldenErrors
from padiff.comparer.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from padiff.comparer.result import Comparison, Metrics, Tolerance
    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import Address

MORE_PRECISE = "more precise than the reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What is known of the elements of a pair at some tolerance."""

    size: int
    least: int
    """At least so many do not agree."""
    most: int
    """At most so many do not: the same number where they were counted."""
    nonfinite: int
    """So many hold nan or inf on one side only."""
    mean_abs: float | None
    reference_mean_abs: float | None

    @classmethod
    def of(cls, metrics: Metrics) -> Counted:
        """Take the counts at the tolerance that was measured with."""
        return cls(
            size=metrics.size,
            least=metrics.mismatched,
            most=metrics.mismatched,
            nonfinite=metrics.nonfinite_mismatched,
            mean_abs=metrics.mean_abs,
            reference_mean_abs=metrics.reference_mean_abs,
        )


def agrees(found: Counted, tolerance: Tolerance, mode: Mode, share: float) -> bool | None:
    """Return whether a pair matches; None where the counts do not decide it.

    Args:
        found: What is known of its elements.
        tolerance: Which elements agree; in mode ``mean``, which means.
        mode: What must lie within it.
        share: Share of the elements that may disagree, nan and inf on one side excepted.
    """
    if found.most == 0:
        return True
    if found.nonfinite:
        return False
    if mode is Mode.MEAN:
        mean, size = found.mean_abs, found.reference_mean_abs
        is_inexact = tolerance.atol > 0 or tolerance.rtol > 0
        if mean is None or size is None or not is_inexact:
            return False
        return mean <= tolerance.atol + tolerance.rtol * size
    if found.most <= share * found.size:
        return True
    return False if found.least > share * found.size else None


def by_errors(
    errors: GoldenErrors, bound: float, *, factor: float, is_finite: bool
) -> tuple[bool, str]:
    """Return whether the candidate's error against a golden run is no worse than the reference's.

    Args:
        errors: Of both sides.
        bound: What rounding explains; below it nothing is an error.
        factor: How many times the reference's error the candidate's may be.
        is_finite: Whether nan and inf stand at the same places on both sides.

    Returns:
        The answer, and the words for a report.
    """
    known, found = errors.reference, errors.candidate
    words = f"error against the golden run: candidate {found:.3g}, reference {known:.3g}"
    if not is_finite or not found <= max(factor * known, bound):
        return False, words
    if factor * found < known and known > bound:
        words += f": {MORE_PRECISE}"
    return True, words


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWay:
    """The largest absolute error of each record against the golden run."""

    reference: Mapping[Address, float]
    candidate: Mapping[Address, float]

    def errors(self, reference: Address, candidate: Address) -> GoldenErrors | None:
        """Return the errors of both sides of a pair; None where one has no golden partner."""
        known, found = self.reference.get(reference), self.candidate.get(candidate)
        if known is None or found is None:
            return None
        return GoldenErrors(reference=known, candidate=found)


def measure_golden(
    paths: tuple[Path, Path, Path],
    settings: CompareSettings,
    compare: Callable[[Path, Path, CompareSettings], Comparison],
) -> ThreeWay:
    """Measure both sides against the golden run."""
    plain = replace(settings, golden=None, floor=None, map_file=None)
    golden, reference, candidate = paths
    return ThreeWay(
        reference=dict(_errors(compare(golden, reference, plain))),
        candidate=dict(_errors(compare(golden, candidate, plain))),
    )


def count_more_precise(comparison: Comparison) -> int:
    """Count the records in which the candidate is nearer to the golden run."""
    return sum(pair.reason.endswith(MORE_PRECISE) for pair in comparison.pairs)


def _errors(found: Comparison) -> Iterator[tuple[Address, float]]:
    for pair in found.pairs:
        if pair.candidate is None or pair.reference is None:
            continue
        if pair.equal_digest:
            yield pair.candidate.address, 0.0
        elif pair.metrics is not None and pair.metrics.max_abs is not None:
            yield pair.candidate.address, pair.metrics.max_abs
