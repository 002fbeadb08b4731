"""What was compared with what, by name: modules and calls, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile.bulk import build_all

from .result import CallPlace, PairedCalls, PairedModules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index
    from padiff.pairing import Pairing

__all__ = ["paired_calls", "paired_modules"]


def paired_modules(
    pairing: Pairing, reference: Index, candidate: Index
) -> tuple[PairedModules, ...]:
    """Name the pairs of modules."""
    known, pairs = reference.modules, pairing.modules
    paths = [module.path for module in candidate.modules]
    return tuple(
        build_all(
            PairedModules,
            len(pairs),
            reference=[known[one.reference].path for one in pairs],
            candidate=[paths[one.candidate] for one in pairs],
            paired_by=[one.paired_by for one in pairs],
            confidence=[one.confidence for one in pairs],
            alternatives=[tuple([paths[other] for other in one.alternatives]) for one in pairs],
        )
    )


def paired_calls(pairing: Pairing, reference: Index, candidate: Index) -> tuple[PairedCalls, ...]:
    """Name the pairs of calls."""
    places = _places(candidate, [other for one in pairing.calls for other in one.alternatives])
    others = iter(places)
    return tuple(
        build_all(
            PairedCalls,
            len(pairing.calls),
            reference=_places(reference, [one.reference for one in pairing.calls]),
            candidate=_places(candidate, [one.candidate for one in pairing.calls]),
            paired_by=[one.paired_by for one in pairing.calls],
            confidence=[one.confidence for one in pairing.calls],
            alternatives=[tuple([next(others) for _ in one.alternatives]) for one in pairing.calls],
        )
    )


def _places(index: Index, calls: Sequence[int]) -> list[CallPlace]:
    """Name calls by their modules."""
    infos = [index.calls[call] for call in calls]
    return build_all(
        CallPlace,
        len(infos),
        module=[index.modules[info.module].path for info in infos],
        call=[info.index for info in infos],
    )
