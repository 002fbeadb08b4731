"""What layers of tests are given: arrays drawn by seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def normal(*shape: int, seed: int = 0) -> Array:
    """Draw from a seeded normal distribution."""
    made: Array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return made


TOKENS = normal(2, 6, 8, seed=2)
