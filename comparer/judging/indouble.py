"""Arrays in double precision, for sums and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["in_double"]


def in_double(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Give a copy in float64, of complex numbers in complex128: no imaginary part is lost.

    Args:
        array: Shape (*S), any dtype of numbers or booleans.
    """
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
