"""Judge by a third, more precise run of the same model: whose error against it is larger?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.comparer.result import GoldenErrors

from .decision import MORE_PRECISE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from padiff.comparer.result import Comparison
    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import Address

__all__ = ["ThreeWay", "count_more_precise", "measure_golden"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeWay:
    """The largest absolute error of each record against the golden run."""

    reference: Mapping[Address, float]
    candidate: Mapping[Address, float]

    def errors(self, reference: Address, candidate: Address) -> GoldenErrors | None:
        """Give the errors of both sides of a pair; None where one has no partner in the golden."""
        known, found = self.reference.get(reference), self.candidate.get(candidate)
        if known is None or found is None:
            return None
        return GoldenErrors(reference=known, candidate=found)


def measure_golden(
    paths: tuple[Path, Path, Path],
    settings: CompareSettings,
    compare: Callable[[Path, Path, CompareSettings], Comparison],
) -> ThreeWay:
    """Measure both sides against the golden run.

    Args:
        paths: Of the golden dump, of the reference, of the candidate.
        settings: Those of the whole comparison.
        compare: Compares two dumps.
    """
    plain = replace(settings, golden=None, floor=None, map_file=None)
    golden, reference, candidate = paths
    return ThreeWay(
        reference=dict(_errors(compare(golden, reference, plain))),
        candidate=dict(_errors(compare(golden, candidate, plain))),
    )


def count_more_precise(comparison: Comparison) -> int:
    """Count the records in which the candidate is nearer to the golden run."""
    pairs = (pair for step in comparison.steps for pair in step.pairs)
    return sum(pair.reason.endswith(MORE_PRECISE) for pair in pairs)


def _errors(found: Comparison) -> Iterator[tuple[Address, float]]:
    for step in found.steps:
        for pair in step.pairs:
            if pair.candidate is None or pair.reference is None:
                continue
            if pair.equal_digest:
                yield pair.candidate.address, 0.0
            elif pair.metrics is not None and pair.metrics.max_abs is not None:
                yield pair.candidate.address, pair.metrics.max_abs
