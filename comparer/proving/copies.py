"""Same leaves? Weights, buffers and inputs of the candidate are copies of the reference's.

Of a leaf that is none it is told how it is made of the elements that it should hold. Weights are
loaded transposed, gates and heads in another order, scales are multiplied in: then the elements are
all there, and how they became what the candidate holds can be proved.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from padiff.dumpfile import LeafKind, numpy_dtype
from padiff.pairing.steps import PICKING
from padiff.program import DERIVED_ROUNDINGS, UNIT_ROUNDOFF

from .result import Answer, LeafDifference, Made, Making

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.pairing import Rule
    from padiff.program import Value
    from padiff.program.primitives import Array

    from .earlier import Earlier
    from .leaves import LeafPair, Leaves
    from .side import Side


_COPIED = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER, LeafKind.INPUT, LeafKind.STATE})
_UPDATED = _COPIED - {LeafKind.INPUT}
"""What the update of the step before may have made."""


def find_differences(
    leaves: Leaves, reference: Side, candidate: Side, earlier: Earlier | None, unjudged: list[str]
) -> Iterator[LeafDifference]:
    """Yield the leaves that are no copies, in the candidate's order.

    A parameter or an input is a copy if it is equal, or equal after rounding to the coarser dtype
    of the two. A buffer may have been computed by each side: its elements may be off by a few
    roundings of its root mean square. What is the result of an earlier update is no leaf.

    Args:
        leaves: Of both sides.
        reference: Its side.
        candidate: Its side.
        earlier: What the step before left; None in the first step.
        unjudged: Gets the names of leaves that differ, and may do so: the update that they rest on
            was not proven, or the reference keeps no elements that tell by how much.

    Raises:
        DumpFormatError: Elements are damaged.
        ProgramError: Elements lack.
    """
    names = _names_by_digest(reference)
    for value, pair in sorted(leaves.pairs.items()):
        end = candidate.program.values[value]
        if end.kind in _COPIED and not _is_equal_by_digest(pair, reference, candidate):
            is_kept = all(map(reference.recorded.has_elements, pair.reference))
            found = (_difference if is_kept else _unmeasured)(pair, end, reference, candidate)
            if found is None:
                continue
            is_sure = is_kept or _differs_surely(pair, end, reference, candidate)
            answer = None if is_sure else Answer.UNKNOWN
            if earlier is not None and end.kind in _UPDATED:
                answer = earlier.answer((reference, candidate), pair.reference, value)
            if answer is None:
                info = candidate.recorded.info(value)
                holds = "" if info is None else names.get(info.digest, "")
                yield replace(found, holds=holds)
            elif answer is Answer.UNKNOWN:
                unjudged.append(end.name)


def is_copy(pair: LeafPair, reference: Side, candidate: Side) -> bool:
    """Return whether a leaf is a copy of its partner, or nobody recorded whether it is."""
    kept = [*map(reference.recorded.has_elements, pair.reference)]
    is_kept = all(kept) and candidate.recorded.has_elements(pair.candidate)
    if _is_equal_by_digest(pair, reference, candidate) or not is_kept:
        return True
    return _difference(pair, candidate.program.values[pair.candidate], reference, candidate) is None


def find_differing_buffers(leaves: Leaves, reference: Side, candidate: Side) -> Iterator[LeafPair]:
    """Yield the buffers that the forward pass reads, and that are no copies."""
    for value, pair in sorted(leaves.pairs.items()):
        end = candidate.program.values[value]
        if end.kind is not LeafKind.BUFFER or _is_equal_by_digest(pair, reference, candidate):
            continue
        is_read = candidate.lowered.terms[value] in candidate.read_forward
        is_kept = all(map(reference.recorded.has_elements, pair.reference))
        is_kept = is_kept and candidate.recorded.has_elements(value)
        if is_read and is_kept and _difference(pair, end, reference, candidate) is not None:
            yield pair


def _names_by_digest(side: Side) -> dict[str, str]:
    """Return the names of the leaves of a side by what they hold, of more than one element."""
    names: dict[str, str] = {}
    for value in side.program.values:
        info = side.recorded.info(value.id) if value.kind in _COPIED else None
        if info is not None and info.size > 1:
            names.setdefault(info.digest, value.name)
    return names


def find_changed_gradients(
    leaves: Leaves, reference: Side, candidate: Side, unjudged: list[str]
) -> Iterator[LeafDifference]:
    """Yield the gradients that the update of one side took otherwise than they arrived.

    Those of an earlier step may still be in them. Where they are on both sides, the gradients are
    named in ``unjudged`` unless they are equal: what they were added up from was not recorded.
    """
    for value, pair in sorted(leaves.pairs.items()):
        end = candidate.program.values[value]
        if end.kind is not LeafKind.GRADIENT or _is_equal_by_digest(pair, reference, candidate):
            continue
        if candidate.lowered.terms[value] not in candidate.read:
            continue  # left from the step before, and cleared ahead of the update
        arrived = {
            *(is_as_arrived(reference, one) for one in pair.reference),
            is_as_arrived(candidate, value),
        }
        if arrived == {False}:
            unjudged.append(end.name)
        elif len(arrived) > 1:
            found = _difference(pair, end, reference, candidate)
            if found is not None:
                yield found


def is_as_arrived(side: Side, value: int) -> bool:
    """Return whether the update took the gradient that the backward pass of its step gave."""
    taken = side.recorded.info(value)
    name = side.program.values[value].name
    arrived = (
        side.recorded.gradient_info(one.id)
        for one in side.program.values
        if one.kind is LeafKind.PARAMETER and one.name == name
    )
    return taken is not None and any(
        one is not None and one.digest == taken.digest for one in arrived
    )


def find_ties(leaves: Leaves, reference: Side, candidate: Side) -> Iterator[LeafDifference]:
    """Yield the parameters that are one in the reference and several in the candidate.

    The function is the same; each of them gets a share of the gradient, if there are any.
    """
    known, found = reference.program.values, candidate.program.values
    partners: dict[tuple[int, ...], int] = {}
    for value, pair in sorted(leaves.pairs.items()):
        end = found[value]
        whole = sum(math.prod(known[one].shape) for one in pair.reference)
        is_whole = end.kind is LeafKind.PARAMETER and math.prod(end.shape) == whole
        if not is_whole or not candidate.recorded.got_gradient(value):
            continue
        first = partners.setdefault(tuple(pair.reference), value)
        if first != value:
            yield LeafDifference(
                reference=known[pair.reference[0]].name,
                candidate=end.name,
                kind="tie",
                elements=whole,
                of=whole,
                largest=None,
            )


def find_lost_gradients(
    leaves: Leaves, reference: Side, candidate: Side, unjudged: list[str]
) -> Iterator[LeafDifference]:
    """Yield the parameters that a gradient reached on one side only, where both ran backward.

    What is a part of a larger parameter on the other side, as experts are of a stack, has zeros
    there where it has no gradient. Its name goes to ``unjudged`` where the dump lacks that part.
    """
    values = [side.program.values for side in (reference, candidate)]
    if not all(
        any(side.recorded.got_gradient(value.id) for value in those)
        for side, those in zip((reference, candidate), values, strict=True)
    ):
        return
    for value, pair in sorted(leaves.pairs.items()):
        end = values[1][value]
        got = {reference.recorded.got_gradient(one) for one in pair.reference}
        ends = (candidate, value), *((reference, one) for one in pair.reference)
        is_held = all(one in side.recorded.records for side, one in ends)  # else it changed before
        is_weight = is_held and end.kind is LeafKind.PARAMETER
        is_weight = is_weight and not _is_left_behind(pair, leaves, reference, candidate)
        if is_weight and got != {candidate.recorded.got_gradient(value)}:
            is_same = _is_part_of_zeros(pair, end.shape, reference, candidate)
            if is_same is None:
                unjudged.append(end.name)
            if is_same in (None, True):
                continue
            first = values[0][pair.reference[0]]
            count = math.prod(end.shape)
            yield LeafDifference(
                reference=first.name,
                candidate=end.name,
                kind="gradient",
                elements=count,
                of=count,
                largest=None,
            )


def _is_left_behind(pair: LeafPair, leaves: Leaves, reference: Side, candidate: Side) -> bool:
    """Return whether one side folded a weight into another one, and reads it no more."""
    ends = (reference, pair.reference), (candidate, (pair.candidate,))
    is_read = [
        any(side.lowered.terms.get(value) in side.read for value in values) for side, values in ends
    ]
    is_folded = [
        ids.issuperset(values) for ids, (_, values) in zip(leaves.folded, ends, strict=True)
    ]
    return (is_folded[0] and not is_read[1]) or (is_folded[1] and not is_read[0])


def _is_part_of_zeros(
    pair: LeafPair, shape: tuple[int, ...], reference: Side, candidate: Side
) -> bool | None:
    """Return whether the parts without a gradient on one side have zeros on the other.

    Returns:
        False for parameters that are whole on both sides: an optimizer skips one without a
        gradient and decays one of zeros. None where elements lack.
    """
    is_part = len(pair.reference) > 1 or any(step.verb in PICKING for step in pair.rule.steps)
    if not is_part:
        return False
    values = reference.program.values
    parts = []
    for value in pair.reference:
        part: Array | None = np.zeros(values[value].shape)
        if reference.recorded.got_gradient(value):
            part = reference.recorded.gradient(value)
        if part is None:
            return None
        parts.append(part)
    if not candidate.recorded.got_gradient(pair.candidate):
        return not np.any(pair.rule.apply(parts, shape))
    absent = [
        np.full(values[value].shape, not reference.recorded.got_gradient(value))
        for value in pair.reference
    ]
    found = candidate.recorded.gradient(pair.candidate)
    return None if found is None else not np.any(found[pair.rule.apply(absent, shape)])


def _is_equal_by_digest(pair: LeafPair, reference: Side, candidate: Side) -> bool:
    if pair.rule.steps or len(pair.reference) != 1:
        return False
    one, two = reference.recorded.info(pair.reference[0]), candidate.recorded.info(pair.candidate)
    return (
        one is not None and two is not None and (one.digest, one.dtype) == (two.digest, two.dtype)
    )


def _difference(
    pair: LeafPair, end: Value, reference: Side, candidate: Side
) -> LeafDifference | None:
    parts = [reference.recorded_leaf(value)() for value in pair.reference]
    known = pair.rule.apply(parts, end.shape)
    found = candidate.recorded_leaf(pair.candidate)()
    if known.dtype == found.dtype and np.array_equal(known, found):
        return None
    kinds = {reference.program.values[value].dtype for value in pair.reference} | {end.dtype}
    one, two = _wide(known), _wide(found)
    with np.errstate(all="ignore"):
        is_alike = (one == two) | (np.isnan(one) & np.isnan(two))
        off = np.where(is_alike, 0.0, np.abs(one - two))
        allowed = _allowed(end, kinds, one)
        count = int(np.count_nonzero(~(off <= allowed)))
        size = float(np.sqrt(np.mean(np.square(np.abs(one))))) if one.size else 0.0
    if not count:
        return None
    first = reference.program.values[pair.reference[0]]
    unit = max(UNIT_ROUNDOFF.get(dtype, 0.0) for dtype in kinds)
    return LeafDifference(
        reference=first.name,
        candidate=end.name,
        kind=end.kind.value if end.kind else "",
        elements=count,
        of=int(one.size),
        largest=float(np.max(off)) / size if size else float(np.max(off)),
        made=making_of(pair.rule, parts, found, unit),
    )


def _unmeasured(
    pair: LeafPair, end: Value, reference: Side, _candidate: Side
) -> LeafDifference | None:
    """Return a difference of unknown size: the reference's dump keeps no elements."""
    count = math.prod(end.shape)
    return LeafDifference(
        reference=reference.program.values[pair.reference[0]].name,
        candidate=end.name,
        kind=end.kind.value if end.kind else "",
        elements=count,
        of=count,
        largest=None,
    )


def _differs_surely(pair: LeafPair, end: Value, reference: Side, candidate: Side) -> bool:
    """Return whether digests that differ tell that a leaf is no copy.

    They do not where elements lie otherwise or are of another dtype, nor of a buffer that each
    side may have computed, if its size is the same but for a few roundings.
    """
    one, two = reference.recorded.info(pair.reference[0]), candidate.recorded.info(pair.candidate)
    if one is None or two is None or one.dtype != two.dtype:
        return False
    if pair.rule.steps or len(pair.reference) != 1:
        return False
    if end.kind is not LeafKind.BUFFER or one.statistics.l2 is None or two.statistics.l2 is None:
        return end.kind is not LeafKind.BUFFER
    off = abs(one.statistics.l2 - two.statistics.l2)
    unit = UNIT_ROUNDOFF.get(one.dtype, 0.0)
    return off > DERIVED_ROUNDINGS * unit * max(one.statistics.l2, two.statistics.l2)


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _allowed(end: Value, dtypes: set[str], known: Array) -> Array | float:
    """Return by how much the elements of a copy may be off."""
    unit = max(UNIT_ROUNDOFF.get(dtype, 0.0) for dtype in dtypes)
    if end.kind is LeafKind.BUFFER:
        size = float(np.sqrt(np.mean(np.square(np.abs(known))))) if known.size else 0.0
        return DERIVED_ROUNDINGS * unit * size
    if len(dtypes) == 1:
        return 0.0
    coarsest = max(dtypes, key=lambda dtype: UNIT_ROUNDOFF.get(dtype, 0.0))
    return np.maximum(unit * np.abs(known), _smallest(coarsest) / 2)


def _smallest(dtype: str) -> float:
    """Return the distance of the smallest numbers of a dtype, which are rounded to it."""
    if dtype not in UNIT_ROUNDOFF or "complex" in dtype:
        return 0.0
    return float(ml_dtypes.finfo(numpy_dtype(dtype)).smallest_subnormal)  # type: ignore[no-untyped-call]


_MOST_AXES = 5
"""Axes of which all orders are tried: 120."""
_FEW_BLOCKS, _MOST_BLOCKS = 8, 64
"""Blocks along an axis that are told one by one, before others are looked for and behind that."""
_ROUNDINGS = 4
"""Units of rounding of each element by which a product or a sum with a number may be off: it was
rounded, the number was, and both sides may have rounded what they began with."""
_SUMMED = 1e-9
"""Relative difference of two float64 sums of the same elements, added in another order."""


def making_of(rule: Rule, parts: Sequence[Array], found: Array, unit: float) -> Made | None:
    """Return how a leaf is made of what it should hold; None if that is not known.

    Args:
        rule: Lays the reference's elements out as the candidate has them.
        parts: The elements that the reference has; real.
        found: What the candidate holds; not what the rule makes of them, but of its shape.
        unit: Unit roundoff of the coarser dtype of the two.

    >>> from padiff.pairing import IDENTITY
    >>> making_of(IDENTITY, [np.array([[1.0, 2.0], [3.0, 4.0]])], np.array([[1.0, 3.0], [2, 4]]), 0)
    Made(kind=<Making.AXES: 'axes'>, axis=None, numbers=(1, 0), rule='')
    """
    if found.size <= 1 or found.dtype.kind == "c":
        return None
    first = found.flat[0]
    if (found == first).all():
        return Made(kind=Making.CONSTANT, numbers=(float(first),))
    if rule.steps and len(parts) == 1 and np.array_equal(parts[0].astype(found.dtype), found):
        return Made(kind=Making.PLAIN, rule=str(rule))
    known = rule.apply(parts, found.shape).astype(found.dtype)
    if _may_hold_the_same(known, found):
        return next(_orders(known, found), None)
    return _scaled(known, found, unit)


def _may_hold_the_same(known: Array, found: Array) -> bool:
    """Return whether nothing that no order changes tells two arrays apart."""
    one, two = (array.astype(np.float64) for array in (known, found))
    with np.errstate(all="ignore"):
        size = float(np.abs(one).sum())
        return (
            bool(np.isfinite(size))
            and float(one.min()) == float(two.min())
            and float(one.max()) == float(two.max())
            and abs(float(one.sum() - two.sum())) <= _SUMMED * size
        )


def _orders(known: Array, found: Array) -> Iterator[Made]:
    """Yield the orders of the known elements that give those that were found, simple ones first."""
    axes = range(known.ndim)
    for order in permutations(axes) if known.ndim <= _MOST_AXES else ():
        moved = known.transpose(order)
        if moved.shape == found.shape and np.array_equal(moved, found):
            yield Made(kind=Making.AXES, numbers=order)
    for axis in axes:
        places = _places(known, found, axis)
        if places is not None:
            yield _along(axis, places)
    if np.array_equal(np.sort(known, axis=None), np.sort(found, axis=None)):
        yield Made(kind=Making.ORDER)


def _places(known: Array, found: Array, axis: int) -> Array | None:
    """Return which index of the known array each index along an axis holds; None if none does."""
    rows = [_rows(array, axis) for array in (known, found)]
    open_: dict[bytes, list[int]] = {}
    for place in range(len(rows[0]) - 1, -1, -1):
        open_.setdefault(rows[0][place], []).append(place)
    places = []
    for row in rows[1]:
        left = open_.get(row)
        if not left:
            return None
        places.append(left.pop())
    return np.array(places)


def _rows(array: Array, axis: int) -> list[bytes]:
    """Return the bytes of what stands at each index along an axis."""
    moved = np.ascontiguousarray(np.moveaxis(array, axis, 0))
    return [row.tobytes() for row in moved]


def _along(axis: int, places: Array) -> Made:
    """Return how indices along an axis were moved: in blocks, nested otherwise, or in any way."""
    count = len(places)
    if np.array_equal(places, np.arange(count)[::-1]):
        return Made(kind=Making.REVERSED, axis=axis)
    order = _blocks(places, range(2, min(_FEW_BLOCKS, count) + 1))
    if order:
        return Made(kind=Making.BLOCKS, axis=axis, numbers=order)
    form = _nesting(places)
    if form:
        return Made(kind=Making.NESTED, axis=axis, numbers=form)
    order = _blocks(places, range(_FEW_BLOCKS + 1, min(_MOST_BLOCKS, count // 2) + 1))
    kind = Making.BLOCKS if order else Making.ORDER
    return Made(kind=kind, axis=axis, numbers=order)


def _blocks(places: Array, counts: range) -> tuple[int, ...]:
    """Return the order of blocks of one size, as few as possible; empty if they are none."""
    for count in counts:
        size, rest = divmod(len(places), count)
        if not rest:
            cut = places.reshape(count, size)
            firsts = cut[:, :1]
            if not (firsts % size).any() and (cut == firsts + np.arange(size)).all():
                return tuple((firsts[:, 0] // size).tolist())
    return ()


def _nesting(places: Array) -> tuple[int, ...]:
    """Return the lengths of three axes of which the last two changed places; empty for none."""
    inner, middle = int(places[1]), int(np.flatnonzero(places == 1)[0])
    if min(inner, middle) <= 1 or len(places) % (inner * middle):
        return ()
    form = len(places) // (inner * middle), middle, inner
    nested = np.arange(len(places)).reshape(form).swapaxes(1, 2).reshape(-1)
    return form if np.array_equal(nested, places) else ()


def _scaled(known: Array, found: Array, unit: float) -> Made | None:
    """Return the number that every element was multiplied by, or that was added to it."""
    one, two = (array.astype(np.float64) for array in (known, found))
    with np.errstate(all="ignore"):
        size = float(np.vdot(one, one))
        if not np.isfinite(size) or not np.isfinite(two).all() or size == 0.0:
            return None
        scale = float(np.vdot(one, two)) / size
        if scale and bool((np.abs(two - scale * one) <= _ROUNDINGS * unit * np.abs(two)).all()):
            return Made(kind=Making.SCALED, numbers=(scale,))
        shift = float(np.mean(two - one))
        off = np.abs(two - one - shift)
        if bool((off <= _ROUNDINGS * unit * (np.abs(one) + np.abs(two))).all()):
            return Made(kind=Making.SHIFTED, numbers=(shift,))
    return None
