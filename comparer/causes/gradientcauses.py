"""Whether a gradient lacks a part that another recorded gradient is: a branch that is cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.judging.blocks import Array

    from .contrast import Contrast

__all__ = ["branch"]

PASSES = 2
"""Work for each element to try one gradient."""


def branch(sides: Contrast, gradients: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the sides add up different parts of a total gradient.

    Args:
        sides: The total gradient of what a call was given.
        gradients: What came back to that call and the calls inside it, by name.
    """
    for name, gradient in gradients:
        if gradient.shape != sides.reference.shape or not gradient.any():
            continue
        if not sides.budget.grants(PASSES * sides.size):
            return None
        if sides.fits(sides.reference - gradient):
            text = f"the candidate's gradient lacks that of {name}"
        elif sides.fits(gradient) and not sides.is_reference(gradient):
            text = f"the candidate's gradient is that of {name} alone"
        elif sides.fits(sides.reference + gradient):
            text = f"the candidate's gradient holds that of {name} besides"
        else:
            continue
        return Cause(
            name=CauseName.CUT,
            text=f"{text}: a branch is cut off on one side (detach, no_grad, stop_gradient)",
            numbers={"gradient": name},
        )
    return None
