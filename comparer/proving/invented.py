"""Elements for leaves of which both dumps keep statistics alone: others like them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ProgramError
from padiff.program import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from padiff.program.primitives import Array

    from .side import Side

__all__ = ["invented"]


def invented(side: Side, value: int) -> Array:
    """Draw the elements of a leaf by its statistics, the same for the same digest.

    Args:
        side: Whose leaf.
        value: Its id.

    Returns:
        float64 within the smallest and the largest element, about as large on average.

    Raises:
        ProgramError: The leaf is not of real numbers, or its statistics do not tell its range.
    """
    end, info = side.program.values[value], side.recorded.info(value)
    is_real = end.dtype in UNIT_ROUNDOFF and "complex" not in end.dtype
    told = None if info is None or not is_real else info.statistics
    if told is None or told.minimum is None or told.maximum is None or told.nonfinite:
        raise ProgramError(f"value {value} has no elements in {str(side.file.path)!r}")
    mean, size = told.mean or 0.0, max(info.size if info else 0, 1)
    spread = max((told.l2 or 0.0) ** 2 / size - mean**2, 0.0) ** 0.5
    random = np.random.default_rng(int(info.digest, 16) if info else 0)
    return np.clip(random.normal(mean, spread, end.shape), told.minimum, told.maximum)
