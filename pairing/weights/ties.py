"""Weights that are one tensor on one side and several on the other."""

from __future__ import annotations

from collections import defaultdict
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
    ahead: dict[int, dict[int, str]] = defaultdict(dict)
    back: dict[int, dict[int, str]] = defaultdict(dict)
    for pair in pairs:
        one = reference.index.records[pair.reference[0]]
        two = candidate.index.records[pair.candidate]
        is_whole = len(pair.reference) == 1 and prod(one.shape) == prod(two.shape)
        is_whole = is_whole and one.role is Role.WEIGHT
        if is_whole and one.tensor is not None and two.tensor is not None:
            ahead[one.tensor].setdefault(two.tensor, weight_name(candidate, two))
            back[two.tensor].setdefault(one.tensor, weight_name(reference, one))
    sides = (
        (SideName.REFERENCE, SideName.CANDIDATE, ahead),
        (SideName.CANDIDATE, SideName.REFERENCE, back),
    )
    for tied, untied, found in sides:
        for names in found.values():
            if len(names) > 1:
                shown = " and ".join(map(repr, names.values()))
                yield (
                    f"{shown} of the {untied} are one tensor on the {tied}: gradients add up "
                    "there, and only there"
                )
