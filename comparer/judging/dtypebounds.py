"""What is known of dtypes: their default tolerances, and how far rounding takes what they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import Tolerance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .blocks import Array
    from .sums import SumColumns, Sums

__all__ = [
    "EXACT",
    "ROUNDING_FACTOR",
    "Loosest",
    "default_of",
    "epsilon_of",
    "has_default",
    "loosest_of",
    "rounding_of",
]

ROUNDING_FACTOR = 3.0
"""Times the dtype's default rtol and the largest element: what rounding may add up to in a correct
port. Measured (docs/decisions/0004-rounding.md): 19 epsilons of the largest element on correct
float32 ports of up to 50 layers; this allows 33."""

LAYER_FACTOR = 1.5
"""Times ``sqrt(n) * unit roundoff``, the error of n roundings that are independent of each other
(Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41,
2019: their lambda). Measured: docs/decisions/0004-rounding.md."""
BLOCKED = 8
"""Partial sums that kernels keep side by side: a sum of K terms rounds K / 8 times in a row."""

EXACT = Tolerance(atol=0.0, rtol=0.0)
"""For integers and booleans: token ids, masks and counters are right or wrong."""

_DEFAULTS = {
    "float16": Tolerance(atol=1e-5, rtol=1e-3),
    "bfloat16": Tolerance(atol=1e-5, rtol=1.6e-2),
    "float32": Tolerance(atol=1e-5, rtol=1.3e-6),
    "float64": Tolerance(atol=1e-7, rtol=1e-7),
    "complex64": Tolerance(atol=1e-5, rtol=1.3e-6),
    "complex128": Tolerance(atol=1e-7, rtol=1e-7),
    # Not in torch's table. Its bfloat16 row is two units in the last place; so are these.
    "float8_e4m3fn": Tolerance(atol=1e-5, rtol=0.25),
    "float8_e4m3fnuz": Tolerance(atol=1e-5, rtol=0.25),
    "float8_e5m2": Tolerance(atol=1e-5, rtol=0.5),
    "float8_e5m2fnuz": Tolerance(atol=1e-5, rtol=0.5),
}
"""Source: ``_DTYPE_PRECISIONS`` in torch/testing/_comparison.py, torch 2.13."""

_EPSILONS = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
"""Spacing of 1.0 by dtype (IEEE 754); of complex numbers, that of their parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loosest:
    """The loosest of several dtypes."""

    atol: float
    rtol: float
    epsilon: float
    result_square: float
    """Unit roundoff of what a layer gives, squared."""
    partial_square: float
    """Unit roundoff of what it keeps while it adds up, squared."""

    def rounding(self, sums: Sums, rtol: float) -> float:
        """Bound rounding as ``rounding_of`` says."""
        square = sums.calls * self.result_square + sums.terms / BLOCKED * self.partial_square
        return max(ROUNDING_FACTOR * rtol, LAYER_FACTOR * math.sqrt(square)) * sums.size

    def rounding_columns(self, sums: SumColumns, at: Array) -> Array:
        """Give the same bound for each of some rows at the default rtol."""
        calls, terms, size = (
            column[at].astype(np.float64) for column in (sums.calls, sums.terms, sums.size)
        )
        square = calls * self.result_square + terms / BLOCKED * self.partial_square
        found: Array = np.fmax(ROUNDING_FACTOR * self.rtol, LAYER_FACTOR * np.sqrt(square)) * size
        return found


@lru_cache(maxsize=256)
def loosest_of(dtypes: tuple[str, ...]) -> Loosest:
    """Take the loosest of each default of some dtypes, at least one."""
    defaults = [_DEFAULTS.get(name, EXACT) for name in dtypes]
    epsilon = max(map(epsilon_of, dtypes))
    result = epsilon / 2
    return Loosest(
        atol=max(default.atol for default in defaults),
        rtol=max(default.rtol for default in defaults),
        epsilon=epsilon,
        result_square=result**2,
        partial_square=min(result, _EPSILONS["float32"] / 2) ** 2,
    )


def epsilon_of(dtype: str) -> float:
    """Give the spacing of 1.0 in a dtype, 0 for one that has none."""
    return _EPSILONS.get(dtype, 0.0)


def rounding_of(sums: Sums, rtol: float, dtypes: Sequence[str]) -> float:
    """Bound how far rounding alone may take an element of a correct run, to first order.

    Args:
        sums: What the record is the sum of.
        rtol: The default of the looser dtype: a few roundings of a result.
        dtypes: Those of the record and the models; sums are kept in float32 or wider.
    """
    return loosest_of(tuple(dtypes)).rounding(sums, rtol)


def default_of(dtype: str) -> Tolerance:
    """Give the tolerance that a dtype has without any option."""
    return _DEFAULTS.get(dtype, EXACT)


def has_default(dtype: str) -> bool:
    """Tell whether a dtype has a tolerance above 0 without any option."""
    return dtype in _DEFAULTS
