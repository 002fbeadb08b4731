"""Measure how far a candidate array is from its reference, in one blocked pass.

Large floating arrays are swept in their own precision (float32 for everything narrower), a block
at a time; the sums of the blocks are added in float64. What the sweep finds is only a screen:
whether elements agree, and every maximum, is decided in float64 on the elements in question, so
that the result is that of float64 formulas over the whole arrays. Blocks that hold nan or inf,
small arrays, integers, booleans and complex numbers take the float64 way entirely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import CompareError

from .blocks import BLOCK_BYTES, Array, Room, is_floating, paired_blocks
from .sweep import Sweep
from .tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.comparer.result import Metrics, Tolerance

__all__ = ["kind_of_dtype", "measure"]


def kind_of_dtype(dtype: np.dtype[Any]) -> str:
    """Name the kind within which arrays can be compared: bool, integer, float or complex."""
    if is_floating(dtype):
        return "float"
    return {"b": "bool", "i": "integer", "u": "integer", "c": "complex"}.get(dtype.kind, dtype.name)


def measure(
    reference: Array,
    candidate: Array,
    tolerance: Tolerance,
    *,
    mean: bool = False,
    release: Callable[[], None] = lambda: None,
    room: Room | None = None,
) -> Metrics:
    """Measure the candidate against the reference.

    Args:
        reference: Shape (*S), any dtype that a dump can hold; any strides, never copied whole.
        candidate: Shape (*S), of the same kind (bool, integer, float, complex).
        tolerance: Decides which elements agree, and the one of (atol, rtol) that is held fixed
            when the smallest passing other one is sought.
        mean: Whether ``reference_mean_abs`` is wanted of floating arrays too.
        release: Called now and then on the way through large arrays, to give back the memory of
            mapped files.
        room: Memory that earlier calls of the same thread have used; None takes fresh one.

    Returns:
        All metrics. Empty arrays have size 0 and None for all maxima and means.

    Raises:
        CompareError: The shapes differ (nothing is broadcast), or the kinds do.

    Source:
        The rule is that of ``numpy.isclose`` and ``torch.testing.assert_close``; relative_l2 is
        the normwise relative error of Higham, Accuracy and Stability of Numerical Algorithms,
        2nd ed., section 1.2.

    >>> from padiff.comparer import Tolerance
    >>> found = measure(np.array([1.0, 2.0]), np.array([1.0, 2.5]), Tolerance(atol=0.1, rtol=0.0))
    >>> found.mismatched, found.max_abs, found.max_abs_index, found.max_rel
    (1, 0.5, (1,), 0.25)
    """
    kind = _common_kind(reference, candidate)
    tally = Tally(tolerance)
    with np.errstate(all="ignore"):
        if kind == "float":
            sweep = Sweep(tally, room or Room(), mean=mean)
            sweep.take(reference, candidate, release=release)
        elif kind == "complex":
            _sweep_complex(reference, candidate, tally)
        else:
            _sweep_integers(reference, candidate, tally)
    return tally.metrics(candidate.shape, mean=mean)


def _common_kind(reference: Array, candidate: Array) -> str:
    """Name the kind of two arrays; those of other shapes or kinds are refused."""
    kinds = kind_of_dtype(reference.dtype), kind_of_dtype(candidate.dtype)
    if reference.shape != candidate.shape or kinds[0] != kinds[1]:
        raise CompareError(
            f"cannot measure {candidate.dtype} {candidate.shape} against"
            f" {reference.dtype} {reference.shape}: expected equal shapes and kinds"
        )
    return kinds[0]


def _sweep_complex(reference: Array, candidate: Array, tally: Tally) -> None:
    length = BLOCK_BYTES // np.dtype(np.complex128).itemsize
    for start, block_reference, block_candidate in paired_blocks(
        reference, candidate, length=length
    ):
        tally.add(
            start, block_reference.astype(np.complex128), block_candidate.astype(np.complex128)
        )


def _sweep_integers(reference: Array, candidate: Array, tally: Tally) -> None:
    length = BLOCK_BYTES // np.dtype(np.float64).itemsize
    for start, block_reference, block_candidate in paired_blocks(
        reference, candidate, length=length
    ):
        tally.add(
            start,
            block_reference.astype(np.float64),
            block_candidate.astype(np.float64),
            distance=_distance(block_reference, block_candidate),
        )


def _distance(reference: Array, candidate: Array) -> Array:
    """Give |candidate - reference| of integers or booleans as float64, 0 only where equal."""
    if reference.dtype.kind == "b":
        return np.not_equal(reference, candidate).astype(np.float64)
    if reference.dtype != candidate.dtype:
        same = np.equal(reference, candidate)
        wide = np.abs(candidate.astype(np.float64) - reference.astype(np.float64))
        # Neighbours above 2**53 may round to one float64; they are at least 1 apart.
        return np.where(same, 0.0, np.maximum(wide, 1.0))
    high = np.maximum(reference, candidate).astype(np.uint64)
    low = np.minimum(reference, candidate).astype(np.uint64)
    # Two's complement wraps, so that the difference is right for int64's extremes too.
    distance: Array = np.subtract(high, low).astype(np.float64)
    return distance
