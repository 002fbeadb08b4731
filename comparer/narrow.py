"""Leave out what the user did not ask for: phases and modules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .selection import matches_within

if TYPE_CHECKING:
    from padiff.dumpfile import Index
    from padiff.pairing import Pairing

    from .settings import CompareSettings

__all__ = ["narrow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """Which records of one side are wanted."""

    index: Index
    wanted: frozenset[int]
    """Module ids."""
    settings: CompareSettings

    def holds(self, record: int) -> bool:
        """Tell whether a record is wanted."""
        found = self.index.records[record]
        phases = self.settings.phases
        return found.module in self.wanted and (phases is None or found.phase in phases)


def narrow(
    pairing: Pairing, reference: Index, candidate: Index, settings: CompareSettings
) -> Pairing:
    """Keep the pairs of which either side is wanted, and the unmatched records that are.

    ``exclude`` wins over ``include``; both take a module with all that is inside it.
    """
    if not (settings.include or settings.exclude or settings.phases is not None):
        return pairing
    sides = _select(reference, settings), _select(candidate, settings)
    excluded = _excluded(reference, settings), _excluded(candidate, settings)
    records = tuple(
        pair
        for pair in pairing.records
        if (any(map(sides[0].holds, pair.reference)) or sides[1].holds(pair.candidate))
        and not any(reference.records[place].module in excluded[0] for place in pair.reference)
        and candidate.records[pair.candidate].module not in excluded[1]
    )
    unmatched = tuple(
        alone for alone in pairing.unmatched if sides[alone.side == "candidate"].holds(alone.record)
    )
    return replace(pairing, records=records, unmatched=unmatched)


def _select(index: Index, settings: CompareSettings) -> _Selection:
    included = _named(index, settings.include) if settings.include else range(len(index.modules))
    wanted = frozenset(included) - _excluded(index, settings)
    return _Selection(index=index, wanted=wanted, settings=settings)


def _excluded(index: Index, settings: CompareSettings) -> frozenset[int]:
    return _named(index, settings.exclude)


def _named(index: Index, patterns: tuple[str, ...]) -> frozenset[int]:
    """Find the modules that the patterns name, by any of their paths, and all inside them."""
    if not patterns:
        return frozenset()
    class_names = {module.path: module.class_name for module in index.modules}
    return frozenset(
        module.id
        for module in index.modules
        if any(
            matches_within(pattern, path, class_names)
            for pattern in patterns
            for path in (module.path, *module.aliases)
        )
    )
