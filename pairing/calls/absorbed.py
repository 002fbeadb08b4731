"""Layers whose partner goes on to do what another module or function does on this side.

A norm folded into the product before it, a vector that one author adds after a layer and another
keeps as that layer's bias: the output of the one layer is not the output of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.weights.moved import MOVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from padiff.pairing.result import RecordPair
    from padiff.pairing.view import View
    from padiff.pairing.weights.folded import Fold

    from .calls import CallPairs

__all__ = ["Absorbed", "absorbed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorbed:
    """What the outputs of one side's calls are on the other side."""

    ends: dict[int, int | None] = field(default_factory=dict)
    """By call: the call whose output the partner gives, None if a function gives it."""
    reasons: dict[int, str] = field(default_factory=dict)
    """By value that only this side has: why."""


def absorbed(
    views: tuple[View, View],
    calls: CallPairs,
    folds: Iterable[Fold],
    weights: Iterable[RecordPair],
) -> tuple[Absorbed, Absorbed]:
    """Find the calls of each side whose partners do more.

    Args:
        views: Both sides.
        calls: The paired calls.
        folds: Norms that one side folded into the layer before.
        weights: The pairs of weights.
    """
    found = Absorbed(), Absorbed()
    for fold in folds:
        other = views[1 - fold.side].modules[fold.partner].path
        norm = views[fold.side].modules[fold.norm].path
        for call, end in fold.calls:
            _note(
                views[fold.side], found[fold.side], call, end, f"before {norm!r}, which {other!r}"
            )
    for pair in weights:
        if pair.note == MOVED:
            one, two = views[0].records[pair.reference[0]], views[1].records[pair.candidate]
            _take(views, 0, (one.module, two.module), calls.back, found[0])
            _take(views, 1, (two.module, one.module), calls.ahead, found[1])
    return found


def _take(
    views: tuple[View, View],
    side: int,
    modules: tuple[int, int],
    partners: Mapping[int, int],
    found: Absorbed,
) -> None:
    """Note the layer before a vector that stands apart, if its partner keeps the vector."""
    view, (apart, keeper) = views[side], modules
    for call in views[1 - side].executed[keeper]:
        mine = partners.get(call)
        if mine is not None and view.calls[mine].module != apart and not view.inner[mine]:
            keeps = views[1 - side].modules[keeper].path
            end = _fed(view, mine, view.executed[apart])
            _note(view, found, mine, end, f"before what {keeps!r}")


def _fed(view: View, call: int, others: Sequence[int]) -> int | None:
    """Give the one of some calls without inner ones that takes the output of a call as it is."""
    made = view.main(call, Role.OUTPUT)
    if made is None or made.value is None:
        return None
    for other in others:
        given = view.main(other, Role.INPUT)
        if given is not None and given.value == made.value and not view.inner[other]:
            return other
    return None


def _note(view: View, found: Absorbed, call: int, end: int | None, before: str) -> None:
    there = "reference" if view.name == "candidate" else "candidate"
    found.ends[call] = end
    for role in (Role.OUTPUT, Role.GRAD_OUTPUT):
        for record in view.select(call, role):
            if record.value is not None:
                found.reasons.setdefault(record.value, f"{before} of the {there} does as well")
