"""A tensor against a longer one of which only a part counts: padding and causal convolutions.

One author pads on both sides and cuts off what is too long, another pads on one side only, a
third before the layer and not inside. That only a part of an output is used is seen in its gradient
alone, which is zero elsewhere; that an input is padded, in its own zeros. No agreement of the two
sides is needed, so that a fault in the part still shows, and so does one more element that is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Content, DumpError, Role
from padiff.pairing.rule import IDENTITY, Rule

if TYPE_CHECKING:
    from padiff.dumpfile import RecordInfo
    from padiff.pairing.steps import Shape
    from padiff.pairing.view import View

__all__ = ["may_be_part", "part_of"]


def may_be_part(one: Shape, two: Shape) -> bool:
    """Tell whether one of two shapes could be a part of the other, from sizes alone.

    >>> may_be_part((2, 8, 15), (2, 8, 12)), may_be_part((2, 8, 12), (2, 8, 15))
    (True, True)
    >>> may_be_part((3, 9), (2, 10)), may_be_part((3, 9), (3, 0)), may_be_part((3, 9), (3, 9))
    (False, False, False)
    """
    return bool(_axes(one, two) or _axes(two, one))


def part_of(view: View, record: RecordInfo, short: Shape) -> Rule:
    """Give the rule that takes the part of a tensor that counts, if it has the size of another.

    Args:
        view: The side of the longer tensor.
        record: An input or output of a call, the longer one.
        short: Shape of the shorter one.

    Returns:
        The identity if what tells is not recorded in full, or tells of another part.
    """
    axes = _axes(record.shape, short)
    telling = record if record.role is Role.INPUT else _gradient(view, record)
    if not axes or telling is None or telling.value is None:
        return IDENTITY
    if view.values[telling.value].content is not Content.FULL:
        return IDENTITY
    try:
        filled = np.asarray(view.side.array(telling)) != 0
    except DumpError:
        return IDENTITY
    steps = []
    for axis in axes:
        others = tuple(place for place in range(filled.ndim) if place != axis)
        (used,) = np.nonzero(np.any(filled, axis=others))
        if not used.size or used[-1] - used[0] + 1 != short[axis]:
            return IDENTITY
        steps.append(f"groups 1 {used[0]}:{used[-1] + 1} {axis}")
    return Rule.parse(" | ".join(steps))


def _gradient(view: View, record: RecordInfo) -> RecordInfo | None:
    """Give the gradient of an output."""
    if record.call is None or record.role is not Role.OUTPUT:
        return None
    gradients = view.select(record.call, Role.GRAD_OUTPUT)
    same = (one for one in gradients if (one.slot, one.shape) == (record.slot, record.shape))
    return next(same, None)


def _axes(long: Shape, short: Shape) -> list[int]:
    """Give the axes along which a shape is longer than another, if it is shorter along none."""
    if len(long) != len(short):
        return []
    both = list(zip(long, short, strict=True))
    unlike = [axis for axis, (one, two) in enumerate(both) if one != two]
    return unlike if all(one >= two > 0 for one, two in both) else []
