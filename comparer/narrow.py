"""Leave out what the user did not ask for: phases and modules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase

from .judgedpairs import picked
from .locating.locate import Located
from .result import Divergence, Kind
from .selection import named_modules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index
    from padiff.pairing import Pairing

    from .judging.judge import Judgement
    from .settings import CompareSettings

__all__ = ["narrow", "reported"]

EARLIER = "the {phase} pass diverged first, at {place}: run without --phase"
_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """Which records of one side are wanted."""

    index: Index
    wanted: frozenset[int]
    """Module ids."""
    phases: frozenset[Phase]

    def holds(self, record: int) -> bool:
        """Tell whether a record is wanted."""
        found = self.index.records[record]
        return found.module in self.wanted and found.phase in self.phases


def narrow(
    pairing: Pairing, reference: Index, candidate: Index, settings: CompareSettings
) -> Pairing:
    """Keep the pairs of which either side is wanted, and the unmatched records that are.

    The phases before a wanted one stay: what diverged there explains what diverges here.
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


def reported(
    judgement: Judgement, located: Located, phases: Sequence[Phase] | None
) -> tuple[Judgement, Located, tuple[str, ...]]:
    """Leave out the phases that were judged only to explain those that are wanted.

    Args:
        judgement: The verdicts of all phases up to the last wanted one.
        located: The same pairs with their kinds, and the divergences.
        phases: The wanted ones; None wants all.

    Returns:
        Verdicts and divergences of the wanted phases, and notes. If a phase before them diverged
        first, the first divergence that is left says so, or a note if none is left.
    """
    if phases is None:
        return judgement, located, ()
    places = [
        place for place, pair in enumerate(located.pairs) if pair.end.address.phase in set(phases)
    ]
    pairs = tuple(picked(located.pairs, places))
    divergences = [found for found in located.divergences if found.phase in phases]
    first = next((one for one in located.divergences if one.kind is Kind.ORIGIN), None)
    line = "" if first is None or first.phase in phases else _earlier(first)
    notes = (line,) if line and not divergences else ()
    if line and divergences:
        at = next((at for at, one in enumerate(divergences) if one.kind is Kind.ORIGIN), 0)
        shown = divergences[at]
        divergences[at] = replace(shown, evidence=(line, *shown.evidence))
    records = tuple(judgement.records[place] for place in places)
    return (
        replace(judgement, pairs=pairs, records=records),
        Located(divergences=tuple(divergences), pairs=pairs),
        notes,
    )


def _earlier(first: Divergence) -> str:
    """Name the origin in a phase that is not reported."""
    address = first.pair.end.address
    place = (address.module or "(root)") + (f"#{address.call}" if address.call else "")
    return EARLIER.format(phase=first.phase, place=f"{place} {address.role}{address.slot}")


def _select(index: Index, settings: CompareSettings) -> _Selection:
    included = (
        named_modules(index, settings.include) if settings.include else range(len(index.modules))
    )
    wanted = frozenset(included) - _excluded(index, settings)
    last = max(map(_PHASES.index, settings.phases or _PHASES))
    return _Selection(index=index, wanted=wanted, phases=frozenset(_PHASES[: last + 1]))


def _excluded(index: Index, settings: CompareSettings) -> frozenset[int]:
    return named_modules(index, settings.exclude)
