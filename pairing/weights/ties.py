"""Weights that are one tensor on one side and several on the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.result import SideName

from .weight_text import weight_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from padiff.pairing.side import Side

    from .weight_plan import WeightPair

__all__ = ["tie_notes"]


def tie_notes(reference: Side, candidate: Side, pairs: Iterable[WeightPair]) -> Iterator[str]:
    """Say which weights are tied on one side only: their gradients add up there.

    Outputs agree as long as the values do; gradients do not, and the next update parts them.
    """
    tensors: dict[tuple[int, int], WeightPair] = {}
    for pair in pairs:
        mine = reference.index.records[pair.reference[0]]
        theirs = candidate.index.records[pair.candidate]
        is_whole = len(pair.reference) == 1 and prod(mine.shape) == prod(theirs.shape)
        is_whole = is_whole and mine.role is Role.WEIGHT
        if is_whole and mine.tensor is not None and theirs.tensor is not None:
            tensors.setdefault((mine.tensor, theirs.tensor), pair)
    counts = [Counter(tensor[side] for tensor in tensors) for side in (0, 1)]
    ahead: dict[int, list[str]] = defaultdict(list)
    back: dict[int, list[str]] = defaultdict(list)
    for (one, two), pair in tensors.items():
        if counts[0][one] > 1:
            ahead[one].append(weight_name(candidate, candidate.index.records[pair.candidate]))
        if counts[1][two] > 1:
            back[two].append(weight_name(reference, reference.index.records[pair.reference[0]]))
    sides = (
        (SideName.REFERENCE, SideName.CANDIDATE, ahead),
        (SideName.CANDIDATE, SideName.REFERENCE, back),
    )
    for tied, untied, found in sides:
        for names in found.values():
            yield (
                f"{' and '.join(map(repr, names))} of the {untied} are one tensor on the {tied}: "
                "gradients add up there, and only there"
            )
