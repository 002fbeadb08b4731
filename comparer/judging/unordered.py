"""Whether two tensors hold the same elements, in whatever order, as far as a tolerance sees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .metrics import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Tolerance

    from .blocks import Array

__all__ = ["hold_the_same"]

MOST_LEFT = 0.1
"""Share of what differs in place, in L2, that may still differ once both are sorted: what is off by
rounding alone differs less once it is sorted, too, and is in its place."""
UNRELATED = 0.3
"""Times ``1 / sqrt(size)``, in relative L2: by about that two unrelated samples of one distribution
differ once they are sorted, and the same elements must be much nearer."""


def hold_the_same(known: Sequence[Array], found: Array, tolerance: Tolerance) -> bool:
    """Tell whether a tensor holds the elements of others, each as often, within a tolerance.

    If any permutation makes all elements agree, sorting both does: what is allowed to differ grows
    more slowly than the elements. Where the sizes differ, zeros are left out: windows that do not
    fill a tensor are padded.

    Args:
        known: Of any shapes; real.
        found: Of any shape; real.
        tolerance: When two elements agree.
    """
    flat = [np.asarray(one).ravel() for one in known]
    whole = flat[0] if len(flat) == 1 else np.concatenate(flat)
    sides = [np.sort(_floats(one), axis=None) for one in (whole, found)]
    if sides[0].size != sides[1].size:
        sides = [one[one != 0] for one in sides]
    if sides[0].size != sides[1].size or not sides[0].size or sides[0][0] == sides[0][-1]:
        return False
    left = measure(sides[0], sides[1], tolerance)
    rest = left.relative_l2 or 0.0
    if left.mismatched or rest * math.sqrt(left.size) > UNRELATED:
        return False
    if whole.size != found.size:
        return True
    direct = measure(_floats(whole), _floats(found).ravel(), tolerance)
    return bool(rest <= MOST_LEFT * (direct.relative_l2 or 0.0))


def _floats(array: Array) -> Array:
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
