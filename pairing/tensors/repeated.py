"""A tensor against a repetition of it, or against a longer one of which only a part counts.

One author hands on positions as (1, seq, width) and lets the next operation broadcast them, another
expands them to (batch, seq, width) first; one keeps the angles of a rotary embedding once, another
twice, one half beside the other. That a tensor repeats itself is seen in that tensor alone: no
agreement of the two sides is needed, so that a fault in them still shows.

One author pads on both sides and cuts off what is too long, another pads on one side only, a
third before the layer and not inside. That only a part of an output is used is seen in its gradient
alone, which is zero elsewhere; that an input is padded, in its own zeros. No agreement of the two
sides is needed, so that a fault in the part still shows, and so does one more element that is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Content, DumpError, Role
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import Step, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.view import View

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
_MAX_AXES = 6
_ROUNDING = 1e-6
"""Relative to the largest element: what the rows of one product may differ by."""


@dataclass(frozen=True, slots=True)
class _Fold:
    """One way to see a tensor as a repetition.

    Its shape, the last axis perhaps cut in two, and the axes along which it is the same.
    """

    shape: Shape
    same: tuple[int, ...]
    is_twice: bool
    """Whether the last axis is cut."""

    @property
    def is_whole(self) -> bool:
        """Return whether anything is repeated along an axis of its own."""
        return len(self.same) > self.is_twice

    @property
    def core(self) -> Shape:
        """Return the shape of what is repeated, without axes of length 1."""
        kept = (size for axis, size in enumerate(self.shape) if axis not in self.same)
        return tuple(size for size in kept if size != 1)

    def reduced(self, own: Shape) -> tuple[Step, ...]:
        """Return the steps from a tensor of its own shape to what it repeats."""
        return (*self._cut(own), *self._first()) if self.same else ()

    def summed(self, own: Shape) -> tuple[Step, ...]:
        """Return the steps from a gradient to the gradient of what is repeated."""
        return (*self._cut(own), Step(Verb.SUM, self.same)) if self.same else ()

    def repeated(self, before: Shape, own: Shape) -> tuple[Step, ...]:
        """Return the steps from what is repeated to a tensor of its own shape."""
        single = tuple(1 if axis in self.same else size for axis, size in enumerate(self.shape))
        if not self.same:
            return () if before == own else (Step(Verb.RESHAPE),)
        padded = (1,) * (len(single) - len(before)) + before
        steps = [] if padded == single else [Step(Verb.RESHAPE, single)]
        if self.shape == own:
            return (*steps, Step(Verb.EXPAND))
        return (*steps, Step(Verb.EXPAND, self.shape), Step(Verb.RESHAPE))

    def _cut(self, own: Shape) -> tuple[Step, ...]:
        return () if self.shape == own else (Step(Verb.RESHAPE, self.shape),)

    def _first(self) -> Iterator[Step]:
        count = len(self.same)
        if self.same != tuple(range(count)):
            kept = (axis for axis in range(len(self.shape)) if axis not in self.same)
            yield Step(Verb.PERMUTE, (*self.same, *kept))
        for _ in range(count):
            yield Step(Verb.TAKE, (0,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """How one of two tensors repeats the other, or both repeat a third."""

    values: Rule
    """From the reference's values to the candidate's."""
    gradients: tuple[Rule, Rule]
    """What to do to the gradients of the reference and of the candidate, so that they are equal."""


@lru_cache(maxsize=4096)
def may_repeat(reference: Shape, candidate: Shape) -> bool:
    """Return whether one shape could be a repetition of the other, from sizes alone.

    >>> may_repeat((1, 12, 64), (2, 12, 64)), may_repeat((1, 12, 64), (2, 12, 32))
    (True, True)
    >>> may_repeat((4, 1), (1, 3)), may_repeat((2, 3), (5, 3))
    (False, False)
    """
    return next(_matches(_folds(reference), _folds(candidate)), None) is not None


def assume_repetition(reference: Shape, candidate: Shape) -> Repetition | None:
    """Return the likeliest way in which one shape repeats the other; for want of elements."""
    found = max(
        _matches(_folds(reference), _folds(candidate)),
        key=lambda pair: prod(pair[0].core),
        default=None,
    )
    return None if found is None else _written(found, reference, candidate)


def find_repetition(reference: Array, candidate: Array) -> Repetition | None:
    """Find what two tensors of different size both repeat, the largest there is.

    Returns:
        None if neither does, if it is not clear along which axis, or if all elements of either are
        the same, which would repeat itself in any way.
    """
    found: list[tuple[_Fold, _Fold]] = []
    sides = _wide(reference), _wide(candidate)
    if all(_is_telling(array) for array in sides):
        folds = [[f for f in _folds(array.shape) if _holds(f, array)] for array in sides]
        found = list(_matches(*folds))
    largest = max((prod(one.core) for one, _ in found), default=0)
    best = [pair for pair in found if prod(pair[0].core) == largest]
    return _written(best[0], reference.shape, candidate.shape) if len(best) == 1 else None


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _is_telling(array: Array) -> bool:
    return bool(array.size) and bool(np.any(array != array.flat[0]))


def _written(folds: tuple[_Fold, _Fold], reference: Shape, candidate: Shape) -> Repetition:
    reduced = Rule(folds[0].reduced(reference))
    before = reduced.shape_of([reference])
    sums = folds[0].summed(reference), folds[1].summed(candidate)
    target = Rule(sums[1]).shape_of([candidate])
    turn = () if Rule(sums[0]).shape_of([reference]) == target else (Step(Verb.RESHAPE),)
    return Repetition(
        values=Rule((*reduced.steps, *folds[1].repeated(before, candidate))),
        gradients=(Rule((*sums[0], *turn)), Rule(sums[1])),
    )


def _folds(shape: Shape) -> list[_Fold]:
    """List the ways to see a tensor of a shape as a repetition, the tensor itself included."""
    if not 0 < len(shape) <= _MAX_AXES or 0 in shape:
        return []
    half, is_odd = divmod(shape[-1], 2)
    found = list(_along(shape, shape, ()))
    if half and not is_odd:
        last = len(shape) - 1
        found += _along(shape, (*shape[:-1], 2, half), (last,))
        found += _along(shape, (*shape[:-1], half, 2), (last + 1,))
    return found


def _along(shape: Shape, cut: Shape, always: tuple[int, ...]) -> Iterator[_Fold]:
    axes = [axis for axis in range(len(shape) - len(always)) if cut[axis] > 1]
    for count in range(len(axes) + 1):
        for more in combinations(axes, count):
            yield _Fold(cut, (*more, *always), is_twice=bool(always))


def _matches(mine: Iterable[_Fold], theirs: Iterable[_Fold]) -> Iterator[tuple[_Fold, _Fold]]:
    """Yield the pairs of folds of one core of at least two elements.

    Two batches of different length are no repetition of one another, even if each repeats a row.
    """
    cores: dict[Shape, list[_Fold]] = {}
    for fold in theirs:
        cores.setdefault(fold.core, []).append(fold)
    for fold in mine:
        for other in cores.get(fold.core, ()) if fold.core else ():
            is_twice = fold.is_twice and other.is_twice
            is_whole = fold.is_whole and other.is_whole
            if (fold.same or other.same) and not (is_twice or is_whole):
                yield fold, other


def _holds(fold: _Fold, array: Array) -> bool:
    """Return whether a tensor is the same along all axes of a fold, but for rounding."""
    cut = array.reshape(fold.shape)
    first = cut
    for axis in fold.same:
        first = first.take([0], axis=axis)
    if not fold.same:
        return True
    finite = np.abs(cut[np.isfinite(cut)])
    slack = _ROUNDING * float(finite.max(initial=0.0))
    return bool(np.allclose(cut, first, rtol=0, atol=slack, equal_nan=True))


def may_be_part(one: Shape, two: Shape) -> bool:
    """Return whether one of two shapes could be a part of the other, from sizes alone.

    >>> may_be_part((2, 8, 15), (2, 8, 12)), may_be_part((2, 8, 12), (2, 8, 15))
    (True, True)
    >>> may_be_part((3, 9), (2, 10)), may_be_part((3, 9), (3, 0)), may_be_part((3, 9), (3, 9))
    (False, False, False)
    """
    return bool(_axes(one, two) or _axes(two, one))


def part_of(view: View, record: RecordInfo, short: Shape) -> Rule:
    """Return the rule that takes the part of a tensor that counts, if it has the size of another.

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
    """Return the gradient of an output."""
    if record.call is None or record.role is not Role.OUTPUT:
        return None
    gradients = view.select(record.call, Role.GRAD_OUTPUT)
    same = (one for one in gradients if (one.slot, one.shape) == (record.slot, record.shape))
    return next(same, None)


def _axes(long: Shape, short: Shape) -> list[int]:
    """Return the axes along which a shape is longer than another, if it is shorter along none."""
    if len(long) != len(short):
        return []
    both = list(zip(long, short, strict=True))
    unlike = [axis for axis, (one, two) in enumerate(both) if one != two]
    return unlike if all(one >= two > 0 for one, two in both) else []
