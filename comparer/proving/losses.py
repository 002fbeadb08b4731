"""What backward passes begin with, whether or not somebody recorded it as a loss.

Gradients are those of the sum of all that the backward passes of a step begin with. Where the sums
are two functions, two gradients may each be what its own program says, and still not be the same.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, Phase, ProgramError
from padiff.program import execute

from .copies import is_as_arrived
from .executed import LIMITS, is_near

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .leaves import Leaves
    from .side import Side


def are_other_losses(
    sides: tuple[Side, Side], leaves: Leaves, numbers: tuple[Sequence[int], Sequence[int]]
) -> bool:
    """Return whether backward passes are known to begin with two functions.

    What scales the loss, and takes that off the gradients before they are recorded, is none.
    """
    losses = [*map(_losses, sides)]
    if not all(losses) or any(map(_is_scaled, sides)):
        return False
    known, found = (
        sorted(own[side.lowered.terms[value]] for value in those)
        for side, those, own in zip(sides, losses, numbers, strict=True)
    )
    if known == found:
        return False
    given = leaves.of_reference(*sides), leaves.of_candidate(*sides)
    try:
        totals = [
            np.sum([*execute(side.lowered, held, those, limits=LIMITS).values()])
            for side, held, those in zip(sides, given, losses, strict=True)
        ]
    except (ProgramError, DumpFormatError):
        return False  # nothing is known of them
    return not is_near(np.asarray(totals[1]), np.asarray(totals[0]))


def _losses(side: Side) -> list[int]:
    """Return the numbers that a gradient arrived at, and that nothing made another such one of."""
    got_gradient = side.recorded.got_gradient
    run = (one for one in side.program.operators if one.phase is not Phase.UPDATE)
    taken = {value for one in run if any(map(got_gradient, one.outputs)) for value in one.taken}
    return [
        one.id
        for one in side.program.values
        if one.producer is not None
        and one.id in side.lowered.terms
        and one.id not in taken
        and prod(one.shape) == 1
        and got_gradient(one.id)
    ]


def _is_scaled(side: Side) -> bool:
    """Return whether no gradient is taken as it arrived."""
    gradients = [one.id for one in side.program.values if one.kind is LeafKind.GRADIENT]
    return bool(gradients) and not any(is_as_arrived(side, one) for one in gradients)
