"""Values that modules inside the model give beside tensors, such as numbers, text and objects.

They are no part of the model's result and no verdict rests on them. Where they differ, or cannot
be compared, the report says so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.comparer.judging.dtypebounds import has_default, loosest_of
from padiff.dumpfile import Role

from .arguments import is_plain, of_role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.comparer.result import Tolerance
    from padiff.dumpfile import JSON, Index
    from padiff.pairing import Pairing

__all__ = ["inner_notes"]

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
            if place in known and _differ(known[place], value, loosest, is_same=is_same)
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


def _differ(known: JSON, found: JSON, loosest: Tolerance, *, is_same: bool) -> bool:
    if isinstance(known, list) and isinstance(found, list):
        return len(known) != len(found) or any(
            _differ(one, other, loosest, is_same=is_same)
            for one, other in zip(known, found, strict=True)
        )
    if isinstance(known, int | float) and isinstance(found, int | float):
        if float in {type(known), type(found)}:
            return not math.isclose(known, found, rel_tol=loosest.rtol, abs_tol=loosest.atol)
        return known != found
    return is_same and is_plain(known) and is_plain(found) and known != found
