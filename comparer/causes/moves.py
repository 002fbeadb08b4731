"""How a step moved one weight on both sides, and of what: gradient, moments, learning rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.locating.calltree import is_bad
from padiff.dumpfile import Phase, Role
from padiff.pairing import split_slot

from .causesides import Two

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .causesides import Sides

__all__ = ["Move", "moves", "rate"]

MOST_WEIGHTS = 8
"""Diverged weights that are looked into, those with most elements first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What one weight was, what was done to it, and what it became."""

    name: str
    """Full name on the reference."""
    before: Two
    after: Two
    raw: Two | None
    """The gradient as the backward pass left it."""
    taken: Two | None
    """The gradient that the optimizer took: after a clip, if it clips."""
    states: Mapping[str, Two]
    """What the optimizer keeps for it after the update, by the reference's names.

    What only the reference keeps stands for both: the candidate may update by code of its own.
    """
    is_bad: bool
    """Whether the weight diverged."""

    @property
    def moved(self) -> Two:
        """Give by how much it moved on either side."""
        return Two(
            reference=self.after.reference - self.before.reference,
            candidate=self.after.candidate - self.before.candidate,
        )


def moves(sides: Sides) -> Iterator[Move]:
    """Yield the moves of the largest weights, diverged ones first."""
    tree = sides.tree
    found: dict[tuple[int, str], dict[tuple[Phase, Role, str], int]] = {}
    for place, pair in enumerate(tree.pairs):
        end = pair.reference
        if end is None:
            continue
        slot, name = end.address.slot, ""
        if end.address.role is Role.OPTIMIZER_STATE:
            slot, name = split_slot(slot)
        if end.address.role in (Role.WEIGHT, Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE):
            key = end.address.phase, end.address.role, name
            found.setdefault((end.module, slot), {})[key] = place
    after = (Phase.UPDATE, Role.WEIGHT, "")
    ready = [places for places in found.values() if after in places]
    ready.sort(key=lambda places: _rank(sides, places[after]))
    for places in ready[:MOST_WEIGHTS]:
        move = _move(sides, places)
        if move is not None:
            yield move


def rate(sides: Sides) -> Two | None:
    """Give the learning rate of both sides, None where there is not exactly one."""
    tree = sides.tree
    rates = [place for place in tree.updates if _role(sides, place) is Role.LR]
    return sides.read(rates[0]) if len(rates) == 1 else None


def _rank(sides: Sides, place: int) -> tuple[bool, int, int]:
    pair = sides.tree.pairs[place]
    size = 0 if pair.reference is None else int(np.prod(pair.reference.shape))
    return not is_bad(pair), -size, place


def _move(sides: Sides, places: Mapping[tuple[Phase, Role, str], int]) -> Move | None:
    def two(phase: Phase, role: Role) -> Two | None:
        place = places.get((phase, role, ""))
        return None if place is None else sides.read(place)

    before, after = two(Phase.FORWARD, Role.WEIGHT), two(Phase.UPDATE, Role.WEIGHT)
    if before is None or after is None:
        return None
    raw = two(Phase.BACKWARD, Role.WEIGHT_GRAD)
    pair = sides.tree.pairs[places[Phase.UPDATE, Role.WEIGHT, ""]]
    shape, end = after.candidate.shape, pair.reference
    states = {
        name: sides.read(place) or sides.read_alone(place, pair.layout, shape)
        for (_, role, name), place in places.items()
        if role is Role.OPTIMIZER_STATE
    }
    return Move(
        name="" if end is None else f"{end.address.module}{end.address.slot}".lstrip("."),
        before=before,
        after=after,
        raw=raw,
        taken=two(Phase.UPDATE, Role.WEIGHT_GRAD) or raw,
        states={
            name: state
            for name, state in states.items()
            if state is not None and state.candidate.shape == state.reference.shape == shape
        },
        is_bad=is_bad(pair),
    )


def _role(sides: Sides, place: int) -> Role | None:
    end = sides.tree.pairs[place].reference
    return None if end is None else end.address.role
