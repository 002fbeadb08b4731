"""Whether elements of one sign differ by a factor, and those of the other agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from .contrast import Contrast

__all__ = ["slope"]

LEAST_BELOW = 8
"""Elements of each sign from which on one factor for those of one sign means something."""


def slope(sides: Contrast) -> Cause | None:
    """See whether negative elements differ by a factor, and the others agree: a leaky ReLU's."""
    reference = sides.reference
    below = reference < 0
    square = float(np.vdot(reference[below], reference[below]))
    if not square or min(below.sum(), (~below).sum()) < LEAST_BELOW:
        return None
    times = float(np.vdot(reference[below], sides.candidate[below])) / square
    if times < 0 or not sides.fits(np.where(below, times * reference, reference)):
        return None
    much = "0" if not sides.candidate[below].any() else f"{times:.4g}"
    return Cause(
        name=CauseName.FUNCTION,
        text=f"elements that are positive agree, the negative ones are {much} times the "
        "reference's: another slope of a leaky ReLU",
        numbers={"times": times},
    )
