"""What measuring costs, one thread, against numpy.allclose and memcpy on the same arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from padiff.comparer import Tolerance, measure

from .figure import Figure
from .rounds import take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]

TOLERANCE = Tolerance(atol=1e-5, rtol=1.3e-6)


def figures(*, quick: bool) -> Iterator[Figure]:
    """Measure pairs that pass, pairs that diverge, half of them zeros, and bfloat16."""
    size = 4_000_000 if quick else 16_000_000
    rounds = 3 if quick else 9
    cases = {
        "passing float32": _pair(size, noise=1e-7, zeros=0.0),
        "passing float32, half zeros": _pair(size, noise=1e-7, zeros=0.5),
        "diverged float32": _pair(size, noise=1e-3, zeros=0.0),
        "passing bfloat16": tuple(
            array.astype(ml_dtypes.bfloat16) for array in _pair(size, noise=0.0, zeros=0.0)
        ),
    }
    for name, (reference, candidate) in cases.items():
        yield from _ratios(name, reference, candidate, rounds=rounds)


def _pair(size: int, *, noise: float, zeros: float) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    reference = random.standard_normal(size, dtype=np.float32)
    if zeros:
        reference[random.random(size, dtype=np.float32) < zeros] = 0
    factor = 1 + np.float32(noise) * random.standard_normal(size, dtype=np.float32)
    return reference, reference * factor


def _ratios(name: str, reference: Array, candidate: Array, *, rounds: int) -> Iterator[Figure]:
    copies = np.empty_like(reference), np.empty_like(candidate)
    is_gated = name == "passing float32"

    def copy() -> None:
        np.copyto(copies[0], reference)
        np.copyto(copies[1], candidate)

    taken = take_turns(
        {
            "measure": lambda: measure(reference, candidate, TOLERANCE),
            "allclose": lambda: np.allclose(candidate, reference, rtol=1.3e-6, atol=1e-5),
            "memcpy": copy,
        },
        rounds=rounds,
    )
    speed = 2 * reference.nbytes / taken.median("measure") / 1e9
    yield Figure(
        name=f"{name}: speed over numpy.allclose",
        value=taken.ratio("allclose", "measure"),
        at_least=2.5 if is_gated else None,
        detail=f"{speed:.2f} GB/s; rounds {taken.spread('allclose', 'measure')}; in processor time "
        f"{taken.processor_ratio('allclose', 'measure'):.2f}",
    )
    yield Figure(
        name=f"{name}: share of memcpy's speed",
        value=taken.ratio("memcpy", "measure"),
        at_least=0.25 if is_gated else None,
        detail=f"both arrays copied; rounds {taken.spread('memcpy', 'measure')}; in processor time "
        f"{taken.processor_ratio('memcpy', 'measure'):.2f}",
    )
