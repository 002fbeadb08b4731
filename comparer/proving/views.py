"""Values as views of others: transposed, reshaped and multiplied by numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["View", "plain"]

Factor: TypeAlias = tuple[str, int, int]
"""A primitive, the number, and the operator."""


@dataclass(frozen=True, slots=True)
class View:
    """A value as a base whose axes stand in another order, or are joined or parted.

    Parts of axes are numbered in the order of the base; those of size 1 are none.
    """

    base: int
    """A term of the new program."""
    lying: tuple[int, ...]
    """Its shape."""
    sizes: tuple[int, ...]
    """Of the parts."""
    axes: tuple[tuple[int, ...], ...]
    """For each axis of the value the parts that it is made of."""
    factors: tuple[Factor, ...] = ()
    """By which it is multiplied or divided: a number may stand on either side of a product."""

    @property
    def order(self) -> tuple[int, ...]:
        """The parts in the order of the value's elements."""
        return tuple(chain(*self.axes))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(prod(self.sizes[part] for part in axis) for axis in self.axes)

    @property
    def parts(self) -> list[list[int]]:
        """The parts of each axis of the base."""
        found: list[list[int]] = []
        left = iter(range(len(self.sizes)))
        for size in self.lying:
            found.append([])
            while size > prod(self.sizes[part] for part in found[-1]):
                found[-1].append(next(left))
        return found

    def transposed(self, order: Sequence[int]) -> View:
        """Return the view with its axes in another order."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """Return the view in another shape; None if parts would be joined that lie apart."""
        left = [(part, self.sizes[part]) for part in reversed(self.order)]
        pieces: dict[int, list[int]] = {part: [] for part in self.order}
        axes: list[list[tuple[int, int]]] = []
        for size in shape:
            axes.append([])
            rest = size
            while rest > 1:
                if not left:
                    return None
                part, own = left.pop()
                taken = min(own, rest)
                if own % taken or rest % taken:
                    return None
                if own > taken:
                    left.append((part, own // taken))
                axes[-1].append((part, len(pieces[part])))
                pieces[part].append(taken)
                rest //= taken
        places = [
            (part, piece) for part, own in sorted(pieces.items()) for piece in range(len(own))
        ]
        found = replace(
            self,
            sizes=tuple(pieces[part][piece] for part, piece in places),
            axes=tuple(tuple(map(places.index, axis)) for axis in axes),
        )
        return None if left else found.joined()

    def joined(self) -> View:
        """Return the view without parts of one axis that always lie beside each other."""
        ahead = {axis[0] for axis in self.parts if axis}
        pairs = (pair for axis in self.axes for pair in pairwise(axis))
        beside = {two for one, two in pairs if two == one + 1} - ahead
        first = [part for part in range(len(self.sizes)) if part not in beside]
        ends = [*first, len(self.sizes)][1:]
        sizes = tuple(prod(self.sizes[a:b]) for a, b in zip(first, ends, strict=True))
        axes = tuple(tuple(first.index(one) for one in axis if one in first) for axis in self.axes)
        return replace(self, sizes=sizes, axes=axes)

    def lacking(self, view: View) -> set[int]:
        """Return the parts along which another view is spread to become as large."""
        axes = (*((),) * (len(self.axes) - len(view.axes)), *view.axes)
        pairs = zip(self.axes, axes, strict=True)
        return {part for whole, own in pairs if not own for part in whole}

    def is_spread_by(self, view: View) -> bool:
        """Return whether another view is spread along whole axes of the base alone."""
        lacking = self.lacking(view)
        return all(lacking.isdisjoint(axis) or lacking.issuperset(axis) for axis in self.parts)

    def on(self, base: int, lying: tuple[int, ...]) -> View:
        """Return the same view of another base."""
        return replace(self, base=base, lying=lying)


def plain(base: int, shape: tuple[int, ...]) -> View:
    """Return a base as it lies."""
    places = iter(range(len(shape)))
    axes = tuple((next(places),) if size != 1 else () for size in shape)
    return View(base, shape, tuple(size for size in shape if size != 1), axes)
