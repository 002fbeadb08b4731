"""Pair the calls of two sides: anchors first, then what contains them, then what lies between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing.result import PairedBy
from padiff.pairing.weights.matching import Matching
from padiff.pairing.weights.nesting import Nesting, pair_nesting

from .aligned import pair_anchors, pair_left
from .anchors import anchors_of
from .bare import pair_bare
from .exchanged import pair_exchanged
from .free import pair_free
from .likeness import CallLikeness
from .onesided import opaque_of

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from padiff.pairing.view import View

__all__ = ["CallPairs", "pair_around", "pair_calls"]


class CallPairs(Matching):
    """The call pairs, and of the containers the share of their content that is paired."""

    def __init__(self) -> None:
        super().__init__()
        self.share: dict[int, float] = {}
        """By reference call; absent for leaves."""

    def reversed(self) -> CallPairs:
        """Give the same pairs with the sides exchanged."""
        found = CallPairs()
        for reference, candidate in self:
            found.add(candidate, reference, self.by[reference])
        found.share = {self.ahead[one]: share for one, share in self.share.items()}
        return found


def pair_calls(
    reference: View, candidate: View, fixed: Sequence[tuple[int, int]] = ()
) -> CallPairs:
    """Pair all calls of both sides that do the same job.

    Args:
        reference: One side.
        candidate: The other.
        fixed: Pairs of modules that the user decided.
    """
    pairs = CallPairs()
    for module, other in fixed:
        ran = reference.executed[module], candidate.executed[other]
        for one, two in zip(*ran, strict=False):
            pairs.add(one, two, PairedBy.MAP)
    opaque = opaque_of(reference, candidate)
    alike = CallLikeness(reference, candidate)
    for one, two in sorted(pairs, reverse=True):
        if reference.inner[one] and candidate.inner[two]:
            _pair_region(alike, pairs, opaque, (one, two))
    for one, two in zip(reference.top, candidate.top, strict=False):
        if reference.calls[one].module == candidate.calls[two].module == 0:
            pairs.add(one, two, PairedBy.STRUCTURE)
    _pair_region(alike, pairs, opaque)
    for one, two in _closed(reference, candidate, pairs):
        _pair_region(alike, pairs, frozenset(), (one, two))
    pair_bare(alike, pairs)
    pair_exchanged(reference, candidate, pairs)
    return pairs


def _closed(reference: View, candidate: View, pairs: CallPairs) -> list[tuple[int, int]]:
    """List paired calls whose content was not looked at: attention, modules with own weights."""
    return [
        (one, two)
        for one, two in pairs
        if reference.inner[one]
        and candidate.inner[two]
        and not any(call in pairs.ahead for call in reference.inner[one])
    ]


def _pair_region(
    alike: CallLikeness,
    pairs: CallPairs,
    opaque: frozenset[str],
    within: tuple[int, int] | None = None,
) -> None:
    views = reference, candidate = alike.views
    limits = within or (None, None)
    both = [anchors_of(v, opaque, w) for v, w in zip(views, limits, strict=True)]
    anchors = both[0], both[1]
    pair_anchors(reference, candidate, pairs, anchors)
    _pair_containers(alike, pairs, anchors, limits[0])
    pair_left(reference, candidate, pairs, anchors)
    pair_free(alike, pairs, anchors, limits)


def _pair_containers(
    alike: CallLikeness,
    pairs: CallPairs,
    anchors: tuple[Sequence[int], Sequence[int]],
    limit: int | None = None,
) -> None:
    """Pair the calls that contain paired anchors, inside a call of the reference or anywhere."""
    reference, candidate = alike.views
    leaves = [(one, pairs.ahead[one]) for one in anchors[0] if one in pairs.ahead]
    nestings = [
        Nesting(parents=view.parents, leaves=side)
        for view, side in zip((reference, candidate), anchors, strict=True)
    ]

    for found in pair_nesting(nestings[0], nestings[1], leaves, pairs, alike.containers):
        if limit is not None and found.reference not in reference.inside(limit):
            continue
        if found.reference in reference.hidden or found.candidate in candidate.hidden:
            continue
        pairs.add(found.reference, found.candidate, PairedBy.STRUCTURE)
        if pairs.has(found.reference, found.candidate):
            pairs.share[found.reference] = found.share


def pair_around(
    reference: View,
    candidate: View,
    pairs: CallPairs,
    hidden: tuple[Container[int], Container[int]],
) -> None:
    """Pair what contains paired calls once more, without the calls that only one side makes.

    Args:
        reference: One side.
        candidate: The other.
        pairs: The pairs so far; further ones are added.
        hidden: Calls of each side that the other does without calling a module.
    """
    views = reference, candidate
    opaque = opaque_of(reference, candidate)
    shown = [
        [call for call in anchors_of(view, opaque) if call not in side]
        for view, side in zip(views, hidden, strict=True)
    ]
    alike = CallLikeness(reference, candidate)
    _pair_containers(alike, pairs, (shown[0], shown[1]))
