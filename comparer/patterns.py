"""Shapes that an error can have: each function looks at one, and speaks only if the numbers do.

All take the reference and the candidate as float64 arrays of one shape, without nan or inf.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName
from .profile import axis_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import JSON

    from .blocks import Array
    from .profile import AxisProfile

__all__ = ["bias", "factor", "lower_precision", "offset", "place", "reordered", "residual"]

EXPLAINED = 0.02
"""Share of the error, in L2, that may be left over by an explanation."""
FEW_SHARE = 0.5
"""Up to this share of an axis counts as only some of its indices."""
BORDER = 4
"""Widest border, in elements, that counts as one."""
SHOWN = 6
"""Indices that are written out."""
MANTISSA = {"bfloat16": 16, "TF32 or float16": 13}
"""Bits of a float32's mantissa that are zero after rounding to a shorter format."""
_STAYS = 1e-3


def residual(reference: Array, candidate: Array, explained: Array) -> float:
    """Give the share of the error, in L2, that an explanation of the candidate leaves over.

    0 where ``explained`` is the candidate, 1 or more where it is no better than the reference.
    """
    before = float(np.linalg.norm((candidate - reference).ravel()))
    left = float(np.linalg.norm((candidate - explained).ravel()))
    return left / before if before else 0.0


def factor(reference: Array, candidate: Array) -> Cause | None:
    """See whether the candidate is a multiple of the reference."""
    square = float(np.vdot(reference, reference))
    if not square or reference.size < 2:  # noqa: PLR2004
        return None
    scale = float(np.vdot(reference, candidate)) / square
    left = residual(reference, candidate, scale * reference)
    if left > EXPLAINED or not scale:
        return None
    if abs(scale + 1) < _STAYS:
        return Cause(
            name=CauseName.SIGN,
            text="the candidate is the reference with the opposite sign",
            numbers={"factor": scale, "left_over": left},
        )
    return Cause(
        name=CauseName.FACTOR,
        text=f"the candidate is {scale:.6g} times the reference: a scale is missing or doubled",
        numbers={"factor": scale, "left_over": left},
    )


def offset(reference: Array, candidate: Array) -> Cause | None:
    """See whether the candidate is the reference plus one number."""
    if reference.size < 2:  # noqa: PLR2004
        return None
    shift = float((candidate - reference).mean())
    left = residual(reference, candidate, reference + shift)
    if left > EXPLAINED:
        return None
    return Cause(
        name=CauseName.OFFSET,
        text=f"the candidate is the reference plus {shift:.6g} everywhere",
        numbers={"offset": shift, "left_over": left},
    )


def bias(reference: Array, candidate: Array, known: Array | None) -> Cause | None:
    """See whether the difference is one vector along an axis: a bias too few or too many.

    Args:
        reference: Shape (*S).
        candidate: Shape (*S).
        known: The module's bias, shape (channels,), None if it has none.
    """
    difference = candidate - reference
    for axis in dict.fromkeys((reference.ndim - 1, 1)):
        if not 0 <= axis < reference.ndim or reference.size <= reference.shape[axis]:
            continue
        others = tuple(other for other in range(reference.ndim) if other != axis)
        vector = difference.mean(axis=others, keepdims=True)
        left = residual(reference, candidate, reference + vector)
        if left > EXPLAINED:
            continue
        text = f"the difference is one number per {axis_names(reference.ndim)[axis]}"
        sign = _multiple_of(vector.ravel(), known)
        if sign:
            text += ": the reference's bias, " + ("left out" if sign < 0 else "added once more")
        return Cause(name=CauseName.BIAS, text=text, numbers={"axis": axis, "left_over": left})
    return None


def _multiple_of(vector: Array, known: Array | None) -> int:
    """Tell whether a vector is the bias (1) or its negative (-1)."""
    if known is None or known.shape != vector.shape or not known.any():
        return 0
    for sign in (1, -1):
        if np.linalg.norm(vector - sign * known) <= EXPLAINED * np.linalg.norm(known):
            return sign
    return 0


def reordered(reference: Array, candidate: Array) -> Cause | None:
    """See whether the candidate holds the reference's elements in another order."""
    limit = EXPLAINED
    for first, second in combinations(range(reference.ndim), 2):
        if reference.shape[first] == reference.shape[second] > 1:
            swapped = reference.swapaxes(first, second)
            if residual(reference, candidate, swapped) <= limit:
                return Cause(
                    name=CauseName.TRANSPOSED,
                    text=f"equal after transposing axes {first} and {second}",
                    numbers={"axes": [first, second]},
                )
    for axis, size in enumerate(reference.shape):
        if size > 1 and residual(reference, candidate, np.flip(reference, axis)) <= limit:
            name = axis_names(reference.ndim)[axis]
            return Cause(
                name=CauseName.PERMUTED,
                text=f"equal after reversing axis {axis} ({name})",
                numbers={"axis": axis},
            )
    known, found = np.sort(reference, axis=None), np.sort(candidate, axis=None)
    if known.size > 2 and residual(reference, candidate, candidate + (found - known).reshape(  # noqa: PLR2004
        reference.shape)) <= limit and known[0] != known[-1]:  # fmt: skip
        return Cause(name=CauseName.PERMUTED, text="the same elements in another order", numbers={})
    return None


def place(profiles: Sequence[AxisProfile], *, heads: int | None = None) -> list[Cause]:
    """See whether the error is only at some indices of an axis.

    Args:
        profiles: One for each axis.
        heads: Into how many heads the last axis falls, None if unknown.
    """
    found = []
    for axis in profiles:
        bad = axis.mismatched
        if not bad or len(bad) == axis.size:
            continue
        where: dict[str, JSON] = {
            "axis": axis.axis,
            "size": axis.size,
            "indices": list(bad[:SHOWN]),
        }
        width = _border(axis)
        if bad[0] and bad == tuple(range(bad[0], axis.size)) and axis.name in {"token", "batch"}:
            text = f"only from {axis.name} {bad[0]} of {axis.size} on: a mask or positions"
            found.append(Cause(name=CauseName.TAIL, text=text, numbers=where | {"from": bad[0]}))
        elif width and axis.name in {"row", "column", "depth"}:
            text = f"only at the border: {axis.name}s within {width} of an end of {axis.size}"
            found.append(Cause(name=CauseName.BORDER, text=text, numbers=where | {"width": width}))
        elif (block := _blocks(axis, heads)) is not None:
            text = f"only in head {_list(block)} of {heads}"
            found.append(Cause(name=CauseName.HEADS, text=text, numbers={"heads": list(block)}))
        elif len(bad) <= FEW_SHARE * axis.size:
            text = f"only in {axis.name} {_list(bad)} of {axis.size} (axis {axis.axis})"
            found.append(Cause(name=CauseName.SOME, text=text, numbers=where))
    return found


def _border(axis: AxisProfile) -> int:
    """Give how deep the error reaches from the ends, 0 if there is error in the middle."""
    depth = max(min(index, axis.size - 1 - index) for index in axis.mismatched) + 1
    return depth if depth <= BORDER and 2 * depth < axis.size else 0


def _blocks(axis: AxisProfile, heads: int | None) -> tuple[int, ...] | None:
    """Give the heads that hold all of the error, None if it is in all of them."""
    if not heads or heads < 2 or axis.size % heads or axis.name != "feature":  # noqa: PLR2004
        return None
    width = axis.size // heads
    block = tuple(sorted({index // width for index in axis.mismatched}))
    return block if len(block) < heads and len(axis.mismatched) > width // 2 else None


def _list(indices: Sequence[int]) -> str:
    shown = ", ".join(map(str, indices[:SHOWN]))
    return shown + (f" and {len(indices) - SHOWN} more" if len(indices) > SHOWN else "")


def lower_precision(reference: Array, candidate: Array) -> Cause | None:
    """See whether the candidate passed through a shorter floating-point format."""
    for name, bits in MANTISSA.items():
        if _is_short(candidate, bits) and not _is_short(reference, bits):
            return Cause(
                name=CauseName.PRECISION,
                text=f"every element of the candidate is one of {name}: lower precision",
                numbers={"free_bits": 23 - bits},
            )
    size = np.abs(reference)
    large = size > 0.01 * size.max(initial=0.0)
    if np.count_nonzero(large) < 8:  # noqa: PLR2004
        return None
    signed = (candidate - reference)[large] / reference[large]
    ratio = np.abs(signed)
    middle, top = float(np.median(ratio)), float(ratio.max())
    if abs(float(signed.mean())) > 0.5 * float(ratio.mean()):
        return (
            None  # rounding errs to both sides; what shrinks or grows all elements is no rounding
        )
    if 2.0**-14 <= middle <= top <= min(8 * middle, 2.0**-6):
        return Cause(
            name=CauseName.PRECISION,
            text=f"the error is proportional to the value ({middle:.2g}): lower precision",
            numbers={"median_relative": middle, "max_relative": top},
        )
    return None


def _is_short(values: Array, bits: int) -> bool:
    """Tell whether the last bits of all elements, as float32, are zero; of enough, not all 0."""
    raw = values.astype(np.float32)
    if np.count_nonzero(raw) < 8 or not np.array_equal(raw, values):  # noqa: PLR2004
        return False
    return not (raw.view(np.uint32) & np.uint32((1 << bits) - 1)).any()
