"""Pair the tensors within two calls: slots by name, then by size and order."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.names import likeness, words_of

from .padded import may_be_part
from .repeated import may_repeat
from .sketch import alikeness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.view import View

__all__ = ["pair_slots", "plain_slot"]

_MAX_SCORED = 4096
"""More pairs of slots than this, and only those of one name or of about one place are scored."""
_REACH = 8
WEAKEST = 0.1
"""Score of tensors of other sizes that stand at the same place."""
_PART = re.compile(r"\[(\d+)\]|\['([^']*)'\]|\.(\w+)")


def pair_slots(
    reference: View,
    mine: Sequence[RecordInfo],
    candidate: View,
    theirs: Sequence[RecordInfo],
) -> list[tuple[int, int]]:
    """Pair the records of one role of two paired calls.

    Equal slots of equal size come first; then a bare tensor is the first of a tuple, a field of a
    dataclass the key of a dict, and the rest goes by size and order, values breaking ties.

    Returns:
        Pairs of record ids, ascending by reference.
    """
    if len(mine) == len(theirs) == 1 and mine[0].slot == theirs[0].slot:
        one, two = mine[0], theirs[0]
        if one.shape == two.shape and one.value is not None and two.value is not None:
            return [(one.id, two.id)]
    scored = []
    is_shifted = len(mine) != len(theirs)
    for place, other in _possible(mine, theirs):
        one, two = mine[place], theirs[other]
        score = _score(reference, one, candidate, two)
        if is_shifted and score == WEAKEST and _is_later(one.slot):
            continue  # the place in a tuple says nothing where one side has more in it
        if score > 0:
            scored.append((-score + 0.05 * abs(place - other), one.id, two.id))
    taken: tuple[set[int], set[int]] = (set(), set())
    found = []
    for _, first, second in sorted(scored):
        if first not in taken[0] and second not in taken[1]:
            taken[0].add(first)
            taken[1].add(second)
            found.append((first, second))
    return sorted(found)


def _possible(
    mine: Sequence[RecordInfo], theirs: Sequence[RecordInfo]
) -> Iterator[tuple[int, int]]:
    """Give the places of what may be partners: all with all, of many those of about one place."""
    if len(mine) * len(theirs) <= _MAX_SCORED:
        yield from product(range(len(mine)), range(len(theirs)))
        return
    named: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for other, two in enumerate(theirs):
        named[plain_slot(two.slot)].append(other)
    for place, one in enumerate(mine):
        near = range(max(0, place - _REACH), min(len(theirs), place + _REACH + 1))
        for other in {*near, *named.get(plain_slot(one.slot), ())}:
            yield place, other


def _score(reference: View, one: RecordInfo, candidate: View, two: RecordInfo) -> float:
    is_equal_slot = one.slot == two.slot
    is_none = one.value is None, two.value is None
    if any(is_none):
        if all(is_none):
            return 2.0 if is_equal_slot else 0.5
        return 1.5 if is_equal_slot else 0.3 * (plain_slot(one.slot) == plain_slot(two.slot))
    if prod(one.shape) != prod(two.shape):
        is_output = one.role in {Role.OUTPUT, Role.GRAD_OUTPUT}
        is_like = may_repeat(one.shape, two.shape) or may_be_part(one.shape, two.shape)
        is_like = is_like or 1 in {prod(one.shape), prod(two.shape)}
        return WEAKEST if is_equal_slot and (is_output or is_like) else 0.0
    score = 1.0 + 0.5 * (one.shape == two.shape)
    if is_equal_slot:
        score += 2.0
    elif plain_slot(one.slot) == plain_slot(two.slot):
        score += 1.5
    else:
        score += 0.5 * likeness(words_of(one.slot), words_of(two.slot))
    return score + 1.2 * (alikeness(reference, one, candidate, two) or 0.0)


def _is_later(slot: str) -> bool:
    """Tell whether it is an element of a tuple, and not the first."""
    last = slot.rpartition("[")[2].removesuffix("]")
    return last.isdigit() and last != "0"


@lru_cache(maxsize=4096)
def plain_slot(slot: str) -> tuple[str, ...]:
    """Give the parts of a slot without the kind of container; a bare tensor is the first part."""
    parts = tuple(next(filter(None, match), "0") for match in _PART.findall(slot))
    return parts or ("0",)
