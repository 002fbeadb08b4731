"""Two arrays that should be equal, and whether an explanation leaves nothing but rounding over."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .budget import Budget
from .profile import axis_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from padiff.comparer.judging.blocks import Array

    from .budget import Way

__all__ = ["EXPLAINED", "MOST_LEFT", "NEAR", "SOME", "Contrast", "little", "unit_roundoff"]

EXPLAINED = 0.02
"""Share of the error, in L2, that may be left over by an explanation, besides rounding."""
MOST_LEFT = 0.3
"""Share that may be left over with rounding: more is no explanation, however coarse the dtype."""

LITTLE, COARSE_UNITS = 2e-3, 16.0
"""What may be left over of a tensor that is said to be simply made of another, in L2: this share,
and unit roundoffs of a coarse dtype, whatever the error."""
SOME = 1 << 12
"""Elements, nearly, that a first look is at."""
NEAR = 1 + 1e-9
"""Rounding of two sums over the same elements."""
_UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_COARSEST = 2.0**-4
"""Of the 8-bit formats with the fewest digits."""


def unit_roundoff(dtype: str) -> float:
    """Give half the distance from 1 to the next number of a floating-point dtype; 0 for integers.

    Args:
        dtype: Name as in ``padiff.dumpfile``.
    """
    if dtype.startswith(("int", "uint")):
        return 0.0
    return _UNITS.get(dtype, _COARSEST)


def little(explained: Array, unit: float) -> float:
    """Give how much may be left over, in L2, of a tensor that is simply made of another.

    However large the error is: next to nothing is any multiple of anything.

    Args:
        explained: The tensor.
        unit: Unit roundoff of its dtype.
    """
    return max(LITTLE, COARSE_UNITS * unit) * float(np.linalg.norm(explained.ravel()))


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """What a tensor should be and what it is."""

    reference: Array
    """Shape (*S), float64, finite."""
    candidate: Array
    """Shape (*S), float64, finite."""
    unit: float
    """Unit roundoff of the coarser of the two dtypes: half the distance from 1 to the next."""
    is_line: bool = False
    """Whether its axes are batch, channel and position, not batch, token and feature."""
    is_state: bool = False
    """Whether it is no activation, but a weight, its gradient or what an optimizer keeps for it."""
    budget: Budget = field(default_factory=Budget)
    """Who looks for an explanation asks it before."""

    @property
    def size(self) -> int:
        """Count the elements of a side."""
        return int(self.reference.size)

    @property
    def axes(self) -> tuple[str, ...]:
        """Name its axes."""
        return axis_names(self.reference.ndim, is_line=self.is_line, is_state=self.is_state)

    @cached_property
    def error(self) -> float:
        """Give ``||candidate - reference||``."""
        return float(np.linalg.norm((self.candidate - self.reference).ravel()))

    @cached_property
    def lengths(self) -> tuple[float, float]:
        """Return the L2 norm of the reference and of the candidate."""
        return (
            float(np.linalg.norm(self.reference.ravel())),
            float(np.linalg.norm(self.candidate.ravel())),
        )

    @property
    def is_measurable(self) -> bool:
        """Return whether all elements are finite, and small enough for sums of their squares.

        The mask of a float64 model may hold the least float64, whose square is infinite.
        """
        return math.isfinite(self.error) and all(map(math.isfinite, self.lengths))

    @cached_property
    def allowed(self) -> float:
        """Give the share of the error that may be left over.

        Rounding changes each element by up to ``unit`` times its size, on either side.
        """
        if not self.error:
            return 0.0
        noise = self.unit * math.hypot(*self.lengths)
        return min(EXPLAINED + noise / self.error, MOST_LEFT)

    @cached_property
    def limit(self) -> float:
        """Give how far, in L2, what is computed may be from the side that it is to be."""
        return self.allowed * self.error

    def tries(self, ways: Iterable[Way], times: int = 1) -> Iterator[Way]:
        """Yield ways to explain it while there is work left for one more.

        Args:
            ways: What is tried.
            times: How often each of them goes through all elements.
        """
        return self.budget.tries(ways, times * self.size)

    def some(self, array: Array) -> Array:
        """Give the elements of a tensor of the same shape at which functions are tried first."""
        result: Array = array.reshape(-1)[:: self.step]
        return result

    @property
    def step(self) -> int:
        """Give the distance between these; odd, so that they are in all columns of a matrix."""
        return self.size // SOME | 1

    def may_be(self, made: Array, side: Array) -> bool:
        """Tell from some elements whether something computed may be one of the sides.

        What is farther off there than it may be in all is none, however the other elements are.

        Args:
            made: What was computed of ``some`` elements.
            side: ``reference`` or ``candidate``.
        """
        return float(np.linalg.norm(made - self.some(side))) <= self.limit * NEAR

    def is_side(self, made: Array, side: Array) -> bool:
        """Tell whether something computed is one of the sides, ``reference`` or ``candidate``.

        What is left over is little of that side, too: where the other side is much larger, the
        error is, and next to that anything is like anything small.
        """
        is_it = self.is_reference(made) if side is self.reference else self.fits(made)
        share = max(EXPLAINED, COARSE_UNITS * self.unit)
        return is_it and bool(
            np.linalg.norm((made - side).ravel()) <= share * np.linalg.norm(side.ravel())
        )

    def left(self, explained: Array) -> float:
        """Give the share of the error, in L2, that an explanation of the candidate leaves over.

        0 where ``explained`` is the candidate, 1 or more where it is no better than the reference.
        """
        if not self.error:
            return 0.0
        return float(np.linalg.norm((self.candidate - explained).ravel())) / self.error

    def fits(self, explained: Array) -> bool:
        """Tell whether an explanation of the candidate leaves no more over than it may."""
        return explained.shape == self.candidate.shape and self.left(explained) <= self.allowed

    def is_reference(self, computed: Array) -> bool:
        """Tell whether something computed is the reference, to less than what diverged."""
        if computed.shape != self.reference.shape:
            return False
        off = float(np.linalg.norm((computed - self.reference).ravel()))
        return off <= self.limit
