"""Pair the tensors within two calls, or that an optimizer keeps: by slot, size and order.

What frameworks call the tensors of an optimizer was measured on torch 2.13 and paddle 3.3: after a
step of the same optimizer the tensors named in one row hold the same values (docs/training.md).
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.names import likeness, words_of

from .repeated import may_be_part, may_repeat
from .sketch import alikeness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.view import View

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
    """Yield the places of what may be partners: all with all, of many those of about one place."""
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
    """Return whether it is an element of a tuple, and not the first."""
    last = slot.rpartition("[")[2].removesuffix("]")
    return last.isdigit() and last != "0"


@lru_cache(maxsize=4096)
def plain_slot(slot: str) -> tuple[str, ...]:
    """Return the parts of a slot without the kind of container; a bare tensor is the first part."""
    parts = tuple(next(filter(None, match), "0") for match in _PART.findall(slot))
    return parts or ("0",)


MOST_NAMES = 3
"""Calls that the note names."""


def arguments_of(reference: View, one: int, candidate: View, two: int) -> dict[str, str] | None:
    """Find which slot of a call's inputs holds what a slot of its partner's holds, bit by bit.

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


_SAME = (
    frozenset({"exp_avg", "moment1", "moment", "m"}),
    frozenset({"exp_avg_sq", "moment2", "v"}),
    frozenset({"max_exp_avg_sq", "moment2_max"}),
    frozenset({"momentum_buffer", "velocity", "v"}),
    frozenset({"square_avg", "mean_square", "avg_squared_grad", "v"}),
    frozenset({"grad_avg", "mean_grad"}),
    frozenset({"sum", "moment"}),
    frozenset({"acc_delta", "avg_squared_update"}),
    frozenset({"exp_inf", "inf_norm"}),
    frozenset({"prev", "prevs"}),
    frozenset({"step_size", "learning_rates"}),
)
"""``moment`` is Adamax's first moment in Paddle and Adagrad's sum; ``m`` and ``v`` are what papers
call them, and optimizers written by hand."""

_COUNTERS = frozenset(
    {"step", "beta1_pow_acc", "beta2_pow_acc", "mu_product", "eta", "mu", "ax", "master_weight"}
    | {"momentum", "beta1_pow", "beta2_pow", "momentum_decay_pow", "rho"}
)
"""What one framework keeps and the other computes anew, or keeps elsewhere. Paddle's RMSProp keeps
its last update as ``momentum``, learning rate included, also where it has no momentum."""


def split_slot(slot: str) -> tuple[str, str]:
    """Take a slot of role ``optimizer_state`` apart.

    >>> split_slot(".weight['exp_avg']")
    ('.weight', 'exp_avg')
    """
    weight, bracket, rest = slot.rpartition("[")
    try:
        name = ast.literal_eval(rest.removesuffix("]"))
    except (ValueError, SyntaxError):
        name = rest
    return (weight, str(name)) if bracket else (slot, "")


def is_same_state(one: str, two: str) -> bool:
    """Return whether two names mean the same tensor of an optimizer.

    >>> is_same_state("exp_avg", "moment1"), is_same_state("exp_avg", "moment2")
    (True, False)
    >>> is_same_state("m", "moment1"), is_same_state("v", "velocity"), is_same_state("m", "v")
    (True, True, False)
    """
    one, two = one.strip("_"), two.strip("_")
    return one == two or any(one in names and two in names for names in _SAME)


def is_counter(name: str) -> bool:
    """Return whether the other framework is known to keep no such thing."""
    return name.strip("_") in _COUNTERS
