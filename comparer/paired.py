"""What was compared with what, by name: modules and calls, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .result import CallPlace, PairedCalls, PairedModules

if TYPE_CHECKING:
    from padiff.dumpfile import Index
    from padiff.pairing import Pairing

__all__ = ["paired_calls", "paired_modules"]


def paired_modules(
    pairing: Pairing, reference: Index, candidate: Index
) -> tuple[PairedModules, ...]:
    """Name the pairs of modules."""
    known, found = reference.modules, candidate.modules
    return tuple(
        PairedModules(
            reference=known[one.reference].path,
            candidate=found[one.candidate].path,
            paired_by=one.paired_by,
            confidence=one.confidence,
            alternatives=tuple(found[other].path for other in one.alternatives),
        )
        for one in pairing.modules
    )


def paired_calls(pairing: Pairing, reference: Index, candidate: Index) -> tuple[PairedCalls, ...]:
    """Name the pairs of calls."""
    return tuple(
        PairedCalls(
            reference=_place(reference, one.reference),
            candidate=_place(candidate, one.candidate),
            paired_by=one.paired_by,
            confidence=one.confidence,
            alternatives=tuple(_place(candidate, other) for other in one.alternatives),
        )
        for one in pairing.calls
    )


def _place(index: Index, call: int) -> CallPlace:
    info = index.calls[call]
    return CallPlace(module=index.modules[info.module].path, call=info.index)
