"""Arguments that are no tensors and that two partners were called with: flags, sizes, scales."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.comparer.judging.tolerance import has_default, loosest_of
from padiff.comparer.result import Tolerance
from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.dumpfile import JSON, CallInfo, Index
    from padiff.pairing import Pairing

_CLOSE = Tolerance(atol=0.0, rtol=1e-6)
"""Within which numbers are equal: frameworks keep some as float32."""
_MOST = 8
"""Lines for one call."""
_KEYWORD = "['"


def argument_differences(
    reference: CallInfo, candidate: CallInfo, *, is_same: bool
) -> tuple[str, ...]:
    """List the arguments of two calls that differ and are no tensors.

    Args:
        reference: A call of the reference.
        candidate: Its partner.
        is_same: Whether both sides are of one framework, in which words mean the same, and what one
            call leaves out has the same default. Else only numbers and flags are compared.
    """
    known, found = (of_role(call, Role.INPUT) for call in (reference, candidate))
    lines = [
        f"argument {place}: {known[place]!r} on the reference, {found[place]!r} on the candidate"
        for place in known.keys() & found.keys()
        if _differ(known[place], found[place], is_same=is_same)
    ]
    sides = (("reference", known), ("candidate", found))
    for (name, given), (other, left) in (sides, sides[::-1]) if is_same else ():
        lines += [
            f"argument {place}: {value!r} on the {name}, not given on the {other}"
            for place, value in given.items()
            if place not in left and place.startswith(_KEYWORD) and is_plain(value) and value
            if not _is_positional(given) and not _is_positional(left)
        ]
    return tuple(sorted(lines)[:_MOST])


def result_notes(pairing: Pairing, indexes: tuple[Index, Index]) -> tuple[str, ...]:
    """Describe what a model gave that is no tensor and differs, and where it gave none at all."""
    notes: dict[str, None] = {}
    both = [
        (indexes[0].calls[pair.reference], indexes[1].calls[pair.candidate])
        for pair in pairing.calls
    ]
    whole = [
        sides
        for sides in both
        if sides[0].parent is None and not indexes[0].modules[sides[0].module].path
    ]
    giving = [
        {one.call for one in index.records if one.call in calls and one.role is Role.OUTPUT}
        for index, calls in zip(
            indexes, ({sides[at].id for sides in whole} for at in (0, 1)), strict=True
        )
    ]
    has_results = all(any(one.role is Role.RESULT for one in index.records) for index in indexes)
    for sides in whole:
        known, found = (of_role(call, Role.OUTPUT) for call in sides)
        notes |= {
            f"the model's output{place} is {known[place]!r} on the reference, {found[place]!r} on "
            "the candidate": None
            for place in sorted(known.keys() & found.keys())
            if _differ(known[place], found[place], is_same=True)
        }
        for name, calls, call in zip(("reference", "candidate"), giving, sides, strict=True):
            if call.id not in calls and not has_results:
                said = f"the {name} recorded no tensor in what the model gave: no result is judged"
                notes[said] = None
    return tuple(notes)


def of_role(call: CallInfo, role: Role) -> Mapping[str, JSON]:
    """Return the values of a call that are not tensors, by their slot."""
    return {
        name.removeprefix(role): value
        for name, value in call.literals.items()
        if name.startswith(role)
    }


def _is_positional(given: Mapping[str, JSON]) -> bool:
    """Return whether a place is filled by position, which may be a keyword on the other side."""
    return any(not place.startswith(_KEYWORD) for place in given)


def _differ(known: JSON, found: JSON, *, is_same: bool, closeness: Tolerance = _CLOSE) -> bool:
    if isinstance(known, list) and isinstance(found, list):
        return len(known) != len(found) or any(
            _differ(one, other, is_same=is_same, closeness=closeness)
            for one, other in zip(known, found, strict=True)
        )
    if isinstance(known, int | float) and isinstance(found, int | float):
        if float in {type(known), type(found)}:
            near = {"rel_tol": closeness.rtol, "abs_tol": closeness.atol}
            return not math.isclose(known, found, **near)
        return known != found
    return is_same and is_plain(known) and is_plain(found) and known != found


def is_plain(value: JSON) -> bool:
    """Return whether a value stands for itself; of objects only the class is known."""
    return value is not None and not (isinstance(value, str) and value.startswith("<"))


MOST = 8
"""Places that are named in one report of a step."""


def inner_notes(
    pairing: Pairing, indexes: tuple[Index, Index], *, is_same: bool
) -> tuple[str, ...]:
    """Name values beside tensors that differ between inner calls, and objects nobody looked into.

    Args:
        pairing: Which calls are partners.
        indexes: The reference's and the candidate's.
        is_same: Whether both sides are of one framework. Else text is not compared: both frameworks
            have names of their own for the same thing.
    """
    beside = list(_beside(pairing, indexes))
    if not beside:
        return ()
    loosest = _loosest(indexes)
    given = _objects_of_models(indexes)
    different: dict[str, None] = {}
    unseen: dict[str, None] = {}
    for name, known, found in beside:
        different |= {
            f"{name}{place} is {known[place]!r} on the reference, {value!r} on the candidate": None
            for place, value in found.items()
            if place in known and _differ(known[place], value, is_same=is_same, closeness=loosest)
        }
        unseen |= {
            f"{name}{place} ({_class_of(value)})": None
            for place, value in (*known.items(), *found.items())
            if _is_object(value) and value not in given
        }
    notes = [f"inner modules give other values beside tensors: {one}" for one in _first(different)]
    if unseen:
        notes.append(f"objects that inner modules give are not judged: {', '.join(_first(unseen))}")
    return tuple(notes)


def _beside(
    pairing: Pairing, indexes: tuple[Index, Index]
) -> Iterator[tuple[str, Mapping[str, JSON], Mapping[str, JSON]]]:
    """Yield the reference's module path and both sides' values beside tensors of inner calls."""
    for pair in pairing.calls:
        calls = indexes[0].calls[pair.reference], indexes[1].calls[pair.candidate]
        if None in (calls[0].parent, calls[1].parent):
            continue
        known, found = (of_role(call, Role.OUTPUT) for call in calls)
        if known or found:
            yield indexes[0].modules[calls[0].module].path, known, found


def _first(found: dict[str, None]) -> Iterator[str]:
    """Yield the first places in execution order, and how many more there are."""
    names = list(found)
    yield from names[:MOST]
    if len(names) > MOST:
        yield f"and {len(names) - MOST} more"


def _loosest(indexes: tuple[Index, Index]) -> Tolerance:
    """Return what numbers computed by either side may be off by."""
    dtypes = {
        value.dtype for index in indexes for value in index.values if has_default(value.dtype)
    }
    return loosest_of(tuple(sorted(dtypes)) or ("float64",))


def _objects_of_models(indexes: tuple[Index, Index]) -> frozenset[JSON]:
    """Return the classes of objects that a model itself gives: a cache that goes through it all."""
    return frozenset(
        value
        for index in indexes
        for call in index.calls
        if call.parent is None
        for value in of_role(call, Role.OUTPUT).values()
        if _is_object(value)
    )


def _is_object(value: JSON) -> bool:
    """Return whether a value is only named, by its class."""
    return isinstance(value, str) and value.startswith("<")


def _class_of(value: JSON) -> str:
    return str(value).strip("<>").rpartition(".")[2]
