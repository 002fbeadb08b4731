"""What a pairing of modules left over, and what comes nearest to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role
from padiff.pairing.kinds import kind_of
from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import Absence, Pairing, SideName

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from padiff.pairing.side import Side

__all__ = ["Remains", "remains_of"]

_MAX_ALONE = 1000
"""With more modules alone than this on one side, nothing is suggested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Paths of the modules without partner that ran or own weights."""

    suggested: tuple[tuple[str, str], ...]
    """One of each side that have the same kind and sizes, or like names."""
    reference: tuple[str, ...]
    """Of the reference, with nothing like them."""
    candidate: tuple[str, ...]
    covered: tuple[tuple[SideName, str], ...]
    """Those whose values are all judged elsewhere, or known to be one-sided."""


def remains_of(pairing: Pairing, reference: Side, candidate: Side) -> Remains:
    """Find what has no partner, and suggest one where something comes near."""
    lost = _lost(pairing, reference, candidate)
    covered: list[tuple[SideName, str]] = []
    alone: list[list[int]] = []
    taken = (
        {pair.reference for pair in pairing.modules},
        {pair.candidate for pair in pairing.modules},
    )
    sides = ((SideName.REFERENCE, reference), (SideName.CANDIDATE, candidate))
    for place, (name, side) in enumerate(sides):
        used = {record.module for record in side.index.records} - taken[place]
        alone.append(sorted(used & lost[place]))
        covered += [(name, side.index.modules[m].path) for m in sorted(used - lost[place])]
    suggested = _suggest(reference, alone[0], candidate, alone[1])
    paths = [
        [side.index.modules[m].path for m in left]
        for (_, side), left in zip(sides, alone, strict=True)
    ]
    return Remains(
        suggested=tuple(suggested),
        reference=_outermost(paths[0], {pair[0] for pair in suggested}),
        candidate=_outermost(paths[1], {pair[1] for pair in suggested}),
        covered=tuple(covered),
    )


def _outermost(paths: Sequence[str], suggested: set[str]) -> tuple[str, ...]:
    """Leave out what is suggested, and what lies inside another path."""
    found: list[str] = []
    known: set[str] = set()
    for path in paths:
        parts = path.split(".")
        around = {".".join(parts[:count]) for count in range(1, len(parts))}
        if path not in suggested:
            known.add(path)
            found += [] if around & known else [path]
    return tuple(found)


def _lost(pairing: Pairing, reference: Side, candidate: Side) -> tuple[set[int], set[int]]:
    """Give the modules of which something is judged nowhere."""
    lost: tuple[set[int], set[int]] = (set(), set())
    for one in pairing.unmatched:
        if one.absence is Absence.MISSING:
            is_reference = one.side is SideName.REFERENCE
            side = reference if is_reference else candidate
            lost[0 if is_reference else 1].add(side.index.records[one.record].module)
    return lost


def _suggest(
    reference: Side, mine: Sequence[int], candidate: Side, theirs: Sequence[int]
) -> list[tuple[str, str]]:
    """Pair what has the same kind and sizes, the likest names first."""
    if max(len(mine), len(theirs)) > _MAX_ALONE:
        return []
    jobs = _jobs(reference, mine), _jobs(candidate, theirs)
    by_job: dict[Hashable, list[int]] = defaultdict(list)
    for module in theirs:
        by_job[jobs[1][module]].append(module)
    ranked = []
    for module in mine:
        path = reference.index.modules[module].path
        for other in by_job.get(jobs[0][module], ()):
            other_path = candidate.index.modules[other].path
            near = likeness(words_of(path), words_of(other_path))
            ranked.append((-near, abs(mine.index(module) - theirs.index(other)), path, other_path))
    found: list[tuple[str, str]] = []
    taken: tuple[set[str], set[str]] = (set(), set())
    for _, _, path, other_path in sorted(ranked):
        if path not in taken[0] and other_path not in taken[1]:
            found.append((path, other_path))
            taken[0].add(path)
            taken[1].add(other_path)
    order = {reference.index.modules[module].path: module for module in mine}
    return sorted(found, key=lambda pair: order[pair[0]])


def _jobs(side: Side, modules: Sequence[int]) -> dict[int, Hashable]:
    """Give kind and sizes of the weights of each module."""
    sizes: dict[int, list[int]] = {module: [] for module in modules}
    for record in side.index.records:
        if record.role is Role.WEIGHT and record.phase is Phase.FORWARD and record.module in sizes:
            sizes[record.module].append(prod(record.shape))
    kinds = {module: kind_of(side.index.modules[module]) for module in modules}
    return {module: (kinds[module], tuple(sorted(sizes[module]))) for module in modules}
