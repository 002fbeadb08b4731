"""Many layers that are given one value: each is told by what it alone changes.

Of more than four there are more orders than can be tried. But where every one of them leads to a
value of its own, as the heads of a network do, it is enough to let each take every place once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.pairing.weights.tried import changed, errors_at, told_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from contextlib import AbstractContextManager

    from padiff.pairing.side import Side
    from padiff.pairing.weights.siblings import Siblings
    from padiff.pairing.weights.tried import Meeting


def order_one_by_one(
    reference: Side,
    siblings: Siblings,
    run: Callable[[Mapping[int, int]], AbstractContextManager[Side]],
    meetings: Callable[[Side], list[Meeting]],
) -> tuple[int, ...] | None:
    """Return the order in which the reference's layers take the places of the candidate's.

    Runs the model twice for each layer.

    Args:
        reference: The reference's run.
        siblings: Who may be exchanged.
        run: Runs the model with other partners for some layers, by module of the candidate.
        meetings: Gives the values of a run that are evidence.

    Returns:
        Modules of the reference, in the order of the candidate's; None where a layer changes
        nothing by itself, or what it changes does not single out one partner, or two have the same.
    """
    mine, theirs = siblings.candidate, siblings.reference
    count = len(mine)
    with run({}) as first:
        every = meetings(first)
        touched: list[set[int]] = []
        for place, module in enumerate(mine):
            with run({module: theirs[(place + 1) % count]}) as other:
                touched.append({one.pair.candidate for one in changed(first, other, every)})
        own = _own(every, touched)
        if not all(own):
            return None
        errors = [[errors_at(reference, first, one) for one in own]]
    for shift in range(1, count):
        partners = {module: theirs[(at + shift) % count] for at, module in enumerate(mine)}
        with run(partners) as other:
            errors.append([errors_at(reference, other, one) for one in own])
    found: list[int] = []
    for place, values in enumerate(own):
        told = told_by(values, [tried[place] for tried in errors])
        if told is None:
            return None
        found.append(theirs[(place + told) % count])
    return tuple(found) if len(set(found)) == count else None


def _own(every: Sequence[Meeting], touched: Sequence[Set[int]]) -> list[list[Meeting]]:
    """Return for each layer the values that it alone changes.

    Args:
        every: All values that are evidence.
        touched: For each layer the candidate's records that it changes.
    """
    uses = Counter(record for records in touched for record in records)
    return [
        [one for one in every if one.pair.candidate in records and uses[one.pair.candidate] == 1]
        for records in touched
    ]
