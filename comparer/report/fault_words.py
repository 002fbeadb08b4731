"""What execution found, in words."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from padiff.comparer.auditing.result import Reason
from padiff.comparer.proving import (
    CoarserValue,
    Edit,
    LeafDifference,
    Parting,
    UnsoundValue,
    UpdateDifference,
)

from .edit_words import worded_edit
from .numbers import count, factor, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.auditing.result import AuditedValue
    from padiff.comparer.proving import Influence, Place
    from padiff.comparer.result import Divergence

__all__ = [
    "evidence_of",
    "worded_construction",
    "worded_ends",
    "worded_influence",
    "worded_leaf",
    "worded_place",
    "worded_unsound",
]


def evidence_of(found: Divergence) -> tuple[str, ...]:
    """Return all that speaks for an origin: what was proved first, a line each."""
    proved = (line for fault in found.faults for line in _lines(fault))
    return (*proved, *found.evidence)


@singledispatch
def _lines(fault: object) -> Iterator[str]:
    """Yield what is said of something that execution found."""
    raise TypeError(f"expected a fault, found {type(fault).__name__}")


@_lines.register(Edit)
def _(fault: Edit) -> Iterator[str]:
    times = f" ({count(fault.times)} times)" if fault.times > 1 else ""
    yield f"proved: {worded_edit(fault)}{times}{worded_influence(fault.influence)}"
    yield from worded_ends(fault.reference, fault.candidate)


@_lines.register(Parting)
def _(fault: Parting) -> Iterator[str]:
    yield "executed in float64, the programs part here"
    yield from worded_ends(fault.reference, fault.candidate)


@_lines.register(LeafDifference)
def _(fault: LeafDifference) -> Iterator[str]:
    yield f"not the reference's: {worded_leaf(fault)}{worded_influence(fault.influence)}"
    yield from worded_construction(fault)


@_lines.register(CoarserValue)
def _(fault: CoarserValue) -> Iterator[str]:
    what = f"{fault.candidate} where the reference has {fault.reference}"
    yield f"lost precision: {what}, at {worded_place(fault.place)}"


@_lines.register(UnsoundValue)
def _(fault: UnsoundValue) -> Iterator[str]:
    side = "candidate" if fault.is_candidate else "reference"
    yield f"not what the {side}'s own program says: {worded_unsound(fault.value)}"


@_lines.register(UpdateDifference)
def _(fault: UpdateDifference) -> Iterator[str]:
    error = number(fault.error)
    yield f"another update: {fault.candidate} is left off by up to {error} of its size"


def worded_construction(one: LeafDifference) -> Iterator[str]:
    """Yield what is proved of how a buffer was computed while the model was built."""
    for edit in one.edits:
        yield f"proved of how it was made: {worded_edit(edit)}"
        yield from worded_ends(edit.reference, edit.candidate)


def worded_influence(found: Influence | None) -> str:
    """Return how far a fault alone moves the result, as a clause; empty if nobody asked for it."""
    if found is None:
        return ""
    if found.relative_l2 is None:
        return "; how far it moves the result was not measured"
    return f"; moves the result by {number(found.relative_l2)} of its size"


def worded_ends(reference: Place | None, candidate: Place | None) -> Iterator[str]:
    """Yield where something is on each side, a line each."""
    for side, place in (("reference", reference), ("candidate", candidate)):
        if place is not None:
            yield f"{side} at {worded_place(place)}"


def worded_place(place: Place) -> str:
    """Return the operator, module and line of a place."""
    module = f"{place.module or '(root)'} ({place.class_name})" if place.class_name else "no module"
    site = "" if place.site is None else f", {place.site.file}:{place.site.line}"
    return f"{place.operator} of {module}{site}"


def worded_leaf(one: LeafDifference) -> str:
    """Return how a leaf differs, on one line."""
    name = one.candidate or one.reference
    if one.kind == "tie":
        return f"parameter {name}: of its own, where the reference shares {one.reference}"
    if one.holds:
        return f"{one.kind} {name}: it holds what is {one.holds} in the reference"
    if one.largest is None and one.kind != "gradient":
        return f"{one.kind} {name}: not bit-equal; the reference keeps no elements of it"
    if one.largest is None:
        place = "" if one.place is None else f", cut off by {worded_place(one.place)}"
        return f"{one.kind} of {name}: on one side only{place}"
    return (
        f"{one.kind} {name}: {count(one.elements)} of {count(one.of)} elements, "
        f"by up to {number(one.largest)} of its size"
    )


def worded_unsound(one: AuditedValue) -> str:
    """Return what is wrong with an audited value, on one line."""
    what = f"{one.check} of {one.operator}" if one.check == "gradient" else one.operator
    reason: str = one.reason
    if one.reason is Reason.SCALED and one.factor is not None:
        reason = f"it is {factor(one.factor)} times what it should be"
    return f"{what} of {one.module or '(root)'}: {reason}"
