"""Arguments that one author hands over in another order, to a call that makes the same of them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.view import View

__all__ = ["arguments_of", "by_argument", "order_notes"]

MOST_NAMES = 3
"""Calls that the note names."""


def arguments_of(reference: View, one: int, candidate: View, two: int) -> dict[str, str] | None:
    """Find which slot of a call's inputs holds what a slot of its partner's holds, bit by bit.

    Args:
        reference: One side.
        one: A call of it.
        candidate: The other.
        two: The partner of the call.

    Returns:
        The candidate's slot by the reference's; None unless all inputs and all outputs of the two
        calls are bit-equal, the inputs at other places.
    """
    known, found = (
        (view.select(call, Role.INPUT), view.select(call, Role.OUTPUT))
        for view, call in ((reference, one), (candidate, two))
    )
    if len(known[0]) != len(found[0]) or len(known[0]) < 2:  # noqa: PLR2004 -- one has no order
        return None
    sides = (reference, known), (candidate, found)
    inputs, outputs = (
        [[_content(view, record) for record in call[role]] for view, call in sides]
        for role in (0, 1)
    )
    if inputs[0] == inputs[1] or outputs[0] != outputs[1] or not outputs[0]:
        return None
    if sorted(map(repr, inputs[0])) != sorted(map(repr, inputs[1])):
        return None
    left: dict[object, list[str]] = defaultdict(list)
    for content, record in zip(inputs[1], found[0], strict=True):
        left[content].append(record.slot)
    return {
        record.slot: left[content].pop(0)
        for content, record in zip(inputs[0], known[0], strict=True)
    }


def by_argument(
    slots: dict[str, str], mine: Sequence[RecordInfo], theirs: Sequence[RecordInfo]
) -> list[tuple[int, int]]:
    """Pair the inputs, or their gradients, of two calls by what slot holds which argument."""
    others = {record.slot: record.id for record in theirs}
    return [
        (record.id, others[slots[record.slot]])
        for record in mine
        if slots.get(record.slot) in others
    ]


def order_notes(
    reference: View, candidate: View, calls: Iterable[tuple[int, int]]
) -> tuple[str, ...]:
    """Name the paired calls whose arguments are handed over in another order."""
    names: dict[str, None] = {}
    for one, two in calls:
        if arguments_of(reference, one, candidate, two) is not None:
            names[reference.path(one) or "(root)"] = None
    if not names:
        return ()
    shown = ", ".join(list(names)[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    what = "arguments are handed over in another order, and what is made of them is bit-equal"
    return (f"{what}: {shown}{more}",)


def _content(view: View, record: RecordInfo) -> object:
    if record.value is None:
        return None
    return view.values[record.value].digest, record.shape
