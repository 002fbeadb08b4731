"""Whether gradients of weights are not what the recorded calls give: a penalty in the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.locating.calltree import is_bad
from padiff.dumpfile import Role
from padiff.pairing import kind_of

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

    from .causesides import Sides

__all__ = ["penalty"]

PRODUCTS = 16
"""Products of a matrix that take as long as going through an element."""
FEW = 2
"""Modules from which on it is no single layer's fault."""
MORE = 1e-3
"""Share of a gradient, in L2, that is more than rounding."""


def penalty(sides: Sides) -> Cause | None:
    """See whether something besides the calls adds to the gradients of weights, otherwise on each.

    All that went through the calls agrees, forward and backward, and the gradients of several
    weights do not; and that of a linear layer is not the product of what its calls were given
    and of the gradients that came back to them, on a side or both. What is tied to another
    layer's weight holds that one's gradient, too, and says nothing.
    """
    bad = [
        position
        for position, pair in enumerate(sides.tree.pairs)
        if is_bad(pair) and pair.reference is not None
    ]
    tree = sides.tree
    roles = {tree.reference.records[tree.records[one][0][0]].role for one in bad}
    modules = {tree.reference.records[tree.records[one][0][0]].module for one in bad}
    if len(modules) < FEW or roles != {Role.WEIGHT_GRAD}:
        return None
    for position in bad:
        ends = tree.records[position]
        is_tied = _is_tied(sides.reference, ends[0][0]) or _is_tied(sides.candidate, ends[1])
        both = None if is_tied else sides.read(position)
        given = None if both is None else _given(sides, ends[0][0])
        laid = None if given is None else sides.laid_out(position, given)
        if both is None or laid is None or laid.shape != both.reference.shape:
            continue
        more = {
            name: float(np.linalg.norm(side - laid)) > MORE * float(np.linalg.norm(side))
            for name, side in (("reference", both.reference), ("candidate", both.candidate))
        }
        if any(more.values()):
            return _cause(more, len(bad))
    return None


def _cause(more: dict[str, bool], count: int) -> Cause:
    ends = [name for name, has_more in more.items() if has_more]
    where = "on both sides, and not the same" if len(ends) > 1 else f"on the {ends[0]}"
    return Cause(
        name=CauseName.LOSS,
        text=f"gradients of {count} weights are not what the recorded calls give {where}: "
        "something else adds to them or changes them, as a penalty in the loss does",
        numbers={"weights": count},
    )


def _is_tied(side: Side, gradient: int | None) -> bool:
    """Tell whether the weight that a gradient belongs to is the tensor of another one, too."""
    if gradient is None:
        return False
    found = side.index.records[gradient]
    weights = [one for one in side.index.records if one.role is Role.WEIGHT]
    own = {
        one.tensor
        for one in weights
        if one.tensor is not None and (one.module, one.slot) == (found.module, found.slot)
    }
    return sum(one.tensor in own for one in weights) > 1


def _given(sides: Sides, record: int) -> Array | None:
    """Give the gradient of a linear layer's weight by its calls; None for what else there is."""
    side = sides.reference
    index = side.index
    weight = index.records[record]
    module = index.modules[weight.module]
    if kind_of(module) != "linear" or len(weight.shape) != 2:  # noqa: PLR2004
        return None
    calls = [call.id for call in index.calls if call.module == module.id]
    total: Array = np.zeros(weight.shape)
    for call in calls:
        x, gradient = (_only(side, call, role) for role in (Role.INPUT, Role.GRAD_OUTPUT))
        if x is None or gradient is None:
            return None
        rows = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
        if rows[0].shape[0] != rows[1].shape[0]:
            return None
        if not sides.budget.grants(2 * x.size + x.size * rows[1].shape[1] // PRODUCTS):
            return None
        made = rows[0].T @ rows[1]
        total = total + (made if side.framework == "paddle" else made.T)
    return total if calls else None


def _only(side: Side, call: int, role: Role) -> Array | None:
    found: list[RecordInfo] = [
        one for one in side.index.records if one.call == call and one.role is role
    ]
    if len(found) != 1 or found[0].value is None:
        return None
    return side.array(found[0]).astype(np.float64)
