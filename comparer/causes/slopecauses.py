"""Whether only elements on one side of a number differ: cut off there, or of another slope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName
from .contrast import EXPLAINED, little

if TYPE_CHECKING:
    from .contrast import Contrast

__all__ = ["clamped", "slope"]

LEAST_BELOW = 8
"""Elements of each sign from which on one factor for those of one sign means something."""


def clamped(sides: Contrast) -> Cause | None:
    """See whether one side is the other, cut off at its extremes."""
    for name, other, wide, narrow in (
        ("candidate", "reference", sides.reference, sides.candidate),
        ("reference", "candidate", sides.candidate, sides.reference),
    ):
        low, high = float(narrow.min()), float(narrow.max())
        cut = np.clip(wide, low, high)
        left = float(np.linalg.norm((cut - narrow).ravel()))
        if low == high or left > min(EXPLAINED * sides.error, little(narrow, sides.unit)):
            continue
        ends = [
            f"at {word} {f'{end:.6g}'}"
            for word, end, is_cut in (("least", low, wide < low), ("most", high, wide > high))
            if is_cut.sum() > 1
        ]
        if ends:
            return Cause(
                name=CauseName.FUNCTION,
                text=f"the {name} is the {other}, clamped to {' and '.join(ends)}",
                numbers={"low": low, "high": high, "side": name},
            )
    return None


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
