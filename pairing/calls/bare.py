"""Pair layers that lie at one place and that only one side gives parameters: quantised ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing.result import PairedBy

if TYPE_CHECKING:
    from padiff.pairing.view import View

    from .calls import CallPairs
    from .likeness import CallLikeness

__all__ = ["pair_bare"]


def pair_bare(alike: CallLikeness, pairs: CallPairs) -> None:
    """Pair calls of equal path in paired calls, where one side's layer owns parameters.

    A quantised Linear packs its weight into what is no parameter, a PReLU that became a ReLU has
    none: no weight can tell that they are partners, and they are no calls that are free of any.
    Both are leaves that own something on one side at most, and give outputs of one size.

    Args:
        alike: Knows both sides.
        pairs: The pairs so far; further ones are added.
    """
    reference, candidate = alike.views
    by_path = {module.path: module.id for module in candidate.modules}
    for module in reference.modules:
        other = by_path.get(module.path)
        if other is None or bool(reference.weights[module.id]) is bool(candidate.weights[other]):
            continue
        ran = reference.executed[module.id], candidate.executed[other]
        if len(ran[0]) != len(ran[1]):
            continue
        for one, two in zip(*ran, strict=True):
            if _is_open(reference, candidate, pairs, one, two) and alike.is_same_size(
                np.array([one]), np.array([two])
            ):
                pairs.add(one, two, PairedBy.NAME)


def _is_open(reference: View, candidate: View, pairs: CallPairs, one: int, two: int) -> bool:
    """Tell whether two leaves have no partner yet, in calls that are partners."""
    parents = reference.calls[one].parent, candidate.calls[two].parent
    return (
        one not in pairs.ahead
        and two not in pairs.back
        and one not in reference.hidden
        and two not in candidate.hidden
        and not (reference.inner[one] or candidate.inner[two])
        and None not in parents
        and pairs.ahead.get(parents[0] or 0) == parents[1]
    )
