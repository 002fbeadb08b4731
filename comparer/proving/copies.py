"""Same leaves? Weights, buffers and inputs of the candidate are copies of the reference's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from padiff.dumpfile import LeafKind, numpy_dtype
from padiff.pairing.steps import PICKING
from padiff.program import DERIVED_ROUNDINGS, UNIT_ROUNDOFF

from .remade import making_of
from .result import Answer, LeafDifference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.program import Value
    from padiff.program.primitives import Array

    from .earlier import Earlier
    from .leaves import LeafPair, Leaves
    from .side import Side

__all__ = [
    "find_changed_gradients",
    "find_differences",
    "find_differing_buffers",
    "find_lost_gradients",
    "find_ties",
    "is_copy",
]

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
