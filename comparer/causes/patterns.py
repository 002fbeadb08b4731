"""Shapes that an error can have: each function looks at one, and speaks only if the numbers do.

All but ``place`` take both sides as float64 arrays of one shape, without nan or inf.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName
from .contrast import EXPLAINED, NEAR, little

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import JSON

    from .contrast import Contrast
    from .profile import AxisProfile

__all__ = [
    "bias",
    "factor",
    "feature_factor",
    "frame",
    "lower_precision",
    "offset",
    "place",
    "reordered",
    "shifted",
]

FEW_SHARE = 0.5
"""Up to this share of an axis counts as only some of its indices."""
BORDER = 4
"""Widest border, in elements, that counts as one."""
SHOWN = 6
"""Indices that are written out."""
MANTISSA = {"bfloat16": 16, "TF32 or float16": 13}
"""Bits of a float32's mantissa that are zero after rounding to a shorter format."""
FLOAT32_UNIT = 2.0**-24
SHORTEST_STEP = 2.0**-6
"""Relative error up to which rounding to a shorter format explains an element."""
FIRST = 64
"""Elements whose last bits are looked at before those of all."""
FEW_PER_ENTRY = 4
"""Elements that each entry of a vector must explain to mean something."""
WIDE = 4
"""Indices from which an axis can be seen to have moved."""
SORTING = 16
"""Work for each element to sort both sides."""
LARGEST_ROOT = 100_000
MIN_FACTOR = 1e-100
"""Smaller factors, and larger ones than its inverse, have no square that float64 can hold."""
SAME, SAME_UNITS = 1e-5, 4.0
"""How far elements in another order may be from the same ones, relative in L2: what rounding did
before them in float32, and unit roundoffs of the dtype."""
_STAYS = 1e-3


def factor(sides: Contrast) -> Cause | None:
    """See whether the candidate is a multiple of the reference."""
    reference, candidate = sides.reference, sides.candidate
    square = float(np.vdot(reference, reference))
    if not square or reference.size < 2:  # noqa: PLR2004
        return None
    scale = float(np.vdot(reference, candidate)) / square
    if not sides.may_be(scale * sides.some(reference), candidate):
        return None
    left = sides.left(scale * reference)
    if left > sides.allowed or not scale:
        return None
    if left * sides.error > little(candidate, sides.unit):
        return None  # next to nothing is any multiple of anything
    if abs(scale + 1) < _STAYS + sides.unit:
        return Cause(
            name=CauseName.SIGN,
            text="the candidate is the reference with the opposite sign",
            numbers={"factor": scale, "left_over": left},
        )
    return Cause(
        name=CauseName.FACTOR,
        text=f"the candidate is {_short(scale, sides)} times the reference"
        f"{_in_words(scale, reference.shape)}: a "
        "scale is missing or doubled",
        numbers={"factor": scale, "left_over": left},
    )


def _short(number: float, sides: Contrast) -> str:
    """Give as many digits of a fitted number as the dtype bears."""
    return f"{number:.6g}" if sides.unit <= FLOAT32_UNIT else f"{number:.3g}"


def _in_words(scale: float, shape: tuple[int, ...]) -> str:
    """Say of what whole number a factor is the inverse or the root, empty if of none.

    Every factor near 1 is some ``sqrt(n / (n - 1))``: only that of a number of elements which the
    tensor has along axes side by side says something.
    """
    if not MIN_FACTOR < abs(scale) < 1 / MIN_FACTOR:
        return ""
    for power, words in ((-1, "1/{}"), (-2, "1/sqrt({})"), (2, "sqrt({})")):
        whole = abs(scale) ** power
        near = round(whole)
        is_whole = abs(abs(scale) - round(abs(scale))) <= _STAYS * abs(scale)
        if not is_whole and 1 < near < LARGEST_ROOT and abs(whole - near) <= _STAYS * whole:
            return f" ({'-' if scale < 0 else ''}{words.format(near)})"
    square = min(scale * scale, 1 / (scale * scale))
    count = round(1 / (1 - square)) if square < 1 else 0
    if count in _counts(shape) and count >= WIDE and abs((1 - square) * count - 1) <= _STAYS:
        ends = (count - 1, count) if abs(scale) < 1 else (count, count - 1)
        return f" (sqrt({ends[0]}/{ends[1]}), as of a deviation with and without correction)"
    return ""


def _counts(shape: tuple[int, ...]) -> set[int]:
    """Return how many elements there are along each run of axes."""
    axes = range(len(shape))
    return {math.prod(shape[first : last + 1]) for first in axes for last in axes[first:]}


def offset(sides: Contrast) -> Cause | None:
    """See whether the candidate is the reference plus one number."""
    if sides.reference.size < 2:  # noqa: PLR2004
        return None
    shift = float((sides.candidate - sides.reference).mean())
    if not sides.may_be(sides.some(sides.reference) + shift, sides.candidate):
        return None
    left = sides.left(sides.reference + shift)
    if left > sides.allowed:
        return None
    return Cause(
        name=CauseName.OFFSET,
        text=f"the candidate is the reference plus {_short(shift, sides)} everywhere",
        numbers={"offset": shift, "left_over": left},
    )


def bias(sides: Contrast, known: Array | None) -> Cause | None:
    """See whether the difference is one vector along an axis: a bias too few or too many.

    Args:
        sides: Shape (*S).
        known: The module's bias, shape (channels,), None if it has none.
    """
    reference, difference = sides.reference, sides.candidate - sides.reference
    for axis in _feature_axes(reference):
        others = tuple(other for other in range(reference.ndim) if other != axis)
        vector = difference.mean(axis=others, keepdims=True)
        left = sides.left(reference + vector)
        if left > sides.allowed:
            continue
        text = f"the difference is one number per {sides.axes[axis]}"
        sign = _multiple_of(vector.ravel(), known, sides.allowed)
        if sign:
            text += ": the reference's bias, " + ("left out" if sign < 0 else "added once more")
        return Cause(name=CauseName.BIAS, text=text, numbers={"axis": axis, "left_over": left})
    return None


def feature_factor(sides: Contrast, known: Array | None) -> Cause | None:
    """See whether the candidate is the reference times one number per feature: a weight left out.

    Args:
        sides: Shape (*S).
        known: The module's weight, shape (channels,), None if it has none.
    """
    reference, candidate = sides.reference, sides.candidate
    for axis in _feature_axes(reference):
        others = tuple(other for other in range(reference.ndim) if other != axis)
        squares = (reference * reference).sum(axis=others, keepdims=True)
        if not squares.all():
            continue
        scales = (reference * candidate).sum(axis=others, keepdims=True) / squares
        left = sides.left(reference * scales)
        if left > sides.allowed:
            continue
        text = f"the candidate is the reference times one number per {sides.axes[axis]}"
        text += f" ({scales.min():.4g} to {scales.max():.4g})"
        inverse = 1 / scales.ravel() if scales.all() else None
        if inverse is not None and _multiple_of(inverse, known, sides.allowed) > 0:
            text += ": the reference's weight, left out"
        return Cause(
            name=CauseName.FEATURE_FACTOR, text=text, numbers={"axis": axis, "left_over": left}
        )
    return None


def _feature_axes(array: Array) -> list[int]:
    """Give the axes along which layers have a bias; enough elements for each entry of it."""
    axes = dict.fromkeys((array.ndim - 1, 1))
    return [
        axis
        for axis in axes
        if 0 <= axis < array.ndim and array.size >= FEW_PER_ENTRY * array.shape[axis]
    ]


def _multiple_of(vector: Array, known: Array | None, allowed: float) -> int:
    """Tell whether a vector is the bias (1) or its negative (-1)."""
    if known is None or known.shape != vector.shape or not known.any():
        return 0
    for sign in (1, -1):
        if np.linalg.norm(vector - sign * known) <= allowed * np.linalg.norm(known):
            return sign
    return 0


def reordered(sides: Contrast) -> Cause | None:
    """See whether the candidate holds the reference's elements in another order."""
    reference, candidate = sides.reference, sides.candidate
    if reference.size and reference.min() == reference.max():
        return None
    for first, second in combinations(range(reference.ndim), 2):
        if reference.shape[first] == reference.shape[second] > 1:
            swapped = reference.swapaxes(first, second)
            if sides.fits(swapped):
                return Cause(
                    name=CauseName.TRANSPOSED,
                    text=f"equal after transposing axes {first} and {second}",
                    numbers={"axes": [first, second]},
                )
    for axis, size in enumerate(reference.shape):
        if size > 1 and sides.fits(np.flip(reference, axis)):
            return Cause(
                name=CauseName.PERMUTED,
                text=f"equal after reversing axis {axis} ({sides.axes[axis]})",
                numbers={"axis": axis},
            )
    noise = SAME + SAME_UNITS * sides.unit
    sizes = sides.lengths
    most = min(EXPLAINED * sides.error, noise * sizes[0]) * NEAR
    if abs(sizes[1] - sizes[0]) > most or not sides.budget.grants(SORTING * sides.size):
        return None  # in whatever order, they are as far apart as their lengths at least
    known, found = np.sort(reference, axis=None), np.sort(candidate, axis=None)
    left = np.linalg.norm(found - known)
    # unrelated samples of one distribution are about 1 / sqrt(size) apart once they are sorted
    is_telling = noise * np.sqrt(known.size) < 1 and left <= EXPLAINED * sides.error
    if known.size > 2 and is_telling and left <= noise * np.linalg.norm(known):  # noqa: PLR2004
        return Cause(name=CauseName.PERMUTED, text="the same elements in another order", numbers={})
    return None


def shifted(sides: Contrast) -> Cause | None:
    """See whether the candidate is the reference moved by one along an axis or two: off by one."""
    reference, candidate = sides.reference, sides.candidate
    first = 1 if reference.ndim > 1 else 0  # the rows of a batch do not move
    wide = [axis for axis in range(first, reference.ndim) if reference.shape[axis] >= WIDE]
    steps: list[tuple[tuple[int, int], ...]] = [((axis, by),) for axis in wide for by in (1, -1)]
    if len(wide) > 1:
        steps += [((wide[-2], one), (wide[-1], two)) for one in (1, -1) for two in (1, -1)]
    for moves in steps:
        kept: list[slice] = [slice(None)] * reference.ndim
        source = list(kept)
        for axis, by in moves:
            kept[axis] = slice(1, None) if by > 0 else slice(None, -1)
            source[axis] = slice(None, -1) if by > 0 else slice(1, None)
        inner = replace(sides, reference=reference[tuple(kept)], candidate=candidate[tuple(kept)])
        if inner.error and inner.fits(reference[tuple(source)]):
            where = " and ".join(f"{by:+d} along {sides.axes[axis]}" for axis, by in moves)
            return Cause(
                name=CauseName.SHIFTED,
                text=f"the candidate is the reference moved by {where}: off by one",
                numbers={"axes": [axis for axis, _ in moves], "by": [by for _, by in moves]},
            )
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
        is_sequence = axis.name in {"token", "batch"}
        if is_sequence and bad == tuple(range(len(bad))) and len(bad) >= FEW_SHARE * axis.size:
            text = f"only up to {axis.name} {bad[-1]} of {axis.size}: a mask or positions"
            found.append(Cause(name=CauseName.HEAD, text=text, numbers=where | {"to": bad[-1]}))
        elif is_sequence and bad[0] and bad == tuple(range(bad[0], axis.size)):
            text = f"only from {axis.name} {bad[0]} of {axis.size} on: {_behind(axis)}"
            found.append(Cause(name=CauseName.TAIL, text=text, numbers=where | {"from": bad[0]}))
        elif width and axis.name in {"row", "column", "depth", "position"}:
            text = f"only at the border: {axis.name}s within {width} of an end of {axis.size}"
            found.append(Cause(name=CauseName.BORDER, text=text, numbers=where | {"width": width}))
        elif (block := _blocks(axis, heads)) is not None:
            text = f"only in head {_list(block)} of {heads}"
            found.append(Cause(name=CauseName.HEADS, text=text, numbers={"heads": list(block)}))
        elif len(bad) <= FEW_SHARE * axis.size:
            text = f"only in {axis.name} {_list(bad)} of {axis.size} (axis {axis.axis})"
            found.append(Cause(name=CauseName.SOME, text=text, numbers=where))
    return found


def _behind(axis: AxisProfile) -> str:
    """Say what leaves the beginning of a sequence as it is."""
    if axis.name == "token" and axis.mismatched[0] == 1:  # it has but itself to look at
        return "a mask, positions, or anything in the scores of a causal attention"
    return "a mask, positions, or what is carried from token to token"


def frame(agree: Array) -> Cause | None:
    """See whether all that is off lies within a few elements of an edge: another padding.

    Args:
        agree: Shape (batch, channel, *space): whether each element agrees.
    """
    space = agree.shape[2:]
    if len(space) < 2 or agree.all():  # noqa: PLR2004
        return None
    for width in range(1, BORDER + 1):
        if min(space) <= 2 * width:
            return None
        inner = (slice(None), slice(None), *(slice(width, -width) for _ in space))
        edge = np.ones(agree.shape, bool)
        edge[inner] = False
        if agree[inner].all():
            share = 1 - np.count_nonzero(agree[edge]) / np.count_nonzero(edge)
            text = f"only at the border: within {width} of an edge of {space}, {share:.0%} of it"
            return Cause(
                name=CauseName.BORDER,
                text=f"{text}: another padding",
                numbers={"width": width, "share": share},
            )
    return None


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


def lower_precision(sides: Contrast) -> Cause | None:
    """See whether the candidate passed through a shorter floating-point format than it has."""
    reference, candidate = sides.reference, sides.candidate
    if sides.unit > FLOAT32_UNIT:
        return None
    for name, bits in MANTISSA.items():
        if _is_short(candidate, bits) and not _is_short(reference, bits):
            return Cause(
                name=CauseName.PRECISION,
                text=f"every element of the candidate is one of {name}: lower precision",
                numbers={"free_bits": 23 - bits},
            )
    size = np.abs(reference)
    least = 0.01 * size.max(initial=0.0)
    large = size > least
    if _is_off_by_more(sides, least) or np.count_nonzero(large) < 8:  # noqa: PLR2004
        return None
    signed = (candidate - reference)[large] / reference[large]
    ratio = np.abs(signed)
    middle, top = float(np.median(ratio)), float(ratio.max())
    if abs(float(signed.mean())) > 0.5 * float(ratio.mean()):
        return (
            None  # rounding errs to both sides; what shrinks or grows all elements is no rounding
        )
    if 2.0**-14 <= middle <= top <= min(8 * middle, SHORTEST_STEP):
        return Cause(
            name=CauseName.PRECISION,
            text=f"the error is proportional to the value ({middle:.2g}): lower precision",
            numbers={"median_relative": middle, "max_relative": top},
        )
    return None


def _is_off_by_more(sides: Contrast, least: float) -> bool:
    """Return whether some element is off by more than a shorter format rounds by."""
    known, found = sides.some(sides.reference), sides.some(sides.candidate)
    large = np.abs(known) > least
    return bool((np.abs(found - known)[large] / np.abs(known)[large] > SHORTEST_STEP).any())


def _is_short(values: Array, bits: int) -> bool:
    """Tell whether the last bits of all elements, as float32, are zero; of enough, not all 0."""
    first = values.reshape(-1)[:FIRST].astype(np.float32)
    if (first.view(np.uint32) & np.uint32((1 << bits) - 1)).any():
        return False
    raw = values.astype(np.float32)
    if np.count_nonzero(raw) < 8 or not np.array_equal(raw, values):  # noqa: PLR2004
        return False
    return not (raw.view(np.uint32) & np.uint32((1 << bits) - 1)).any()
