"""What is known of dtypes: their default tolerances, and their spacing."""

from __future__ import annotations

from functools import lru_cache

from padiff.comparer.result import Tolerance

__all__ = [
    "EXACT",
    "default_of",
    "epsilon_of",
    "has_default",
    "loosest_of",
]

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


@lru_cache(maxsize=256)
def loosest_of(dtypes: tuple[str, ...]) -> Tolerance:
    """Take the loosest of each default of some dtypes, at least one."""
    defaults = [_DEFAULTS.get(name, EXACT) for name in dtypes]
    return Tolerance(
        atol=max(default.atol for default in defaults),
        rtol=max(default.rtol for default in defaults),
    )


def epsilon_of(dtype: str) -> float:
    """Give the spacing of 1.0 in a dtype, 0 for one that has none."""
    return _EPSILONS.get(dtype, 0.0)


def default_of(dtype: str) -> Tolerance:
    """Give the tolerance that a dtype has without any option."""
    return _DEFAULTS.get(dtype, EXACT)


def has_default(dtype: str) -> bool:
    """Tell whether a dtype has a tolerance above 0 without any option."""
    return dtype in _DEFAULTS
