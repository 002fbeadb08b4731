"""Which tensors an update is made of: weights, gradients, what optimizers keep, and what follows.

Between the backward pass and the next step a script does much that is no update: it logs, it
measures, it looks at metrics. An operator belongs to the update if it takes a weight, a gradient of
one, what an optimizer keeps for one, or what such an operator made.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import LeafKind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A tensor that an update takes."""

    kind: LeafKind
    name: str
    tensor: Any
    is_passing: bool = False
    """Whether the framework hands out another object each time: Paddle does so with gradients."""


class Followed:
    """The tensors that the update of a step takes.

    Where a framework hands out another object each time that a gradient is asked for, objects of
    the same memory and shape are that gradient.
    """

    def __init__(
        self,
        taken: Callable[[], Iterable[Taken]],
        memory: Callable[[object], Hashable | None],
        is_made: Callable[[object], bool | None],
    ) -> None:
        """Follow nothing yet.

        Args:
            taken: Lists what an update takes, as it is now.
            memory: Returns what tells the memory and the shape of a tensor, None for other things.
            is_made: Returns whether an operator of the update made something.
        """
        self._taken, self._memory, self._is_made = taken, memory, is_made
        self._known: dict[int, weakref.ref[Any]] = {}
        self._gradients: dict[int, weakref.ref[Any]] = {}
        self._passing: dict[Hashable, Any] = {}
        self._new: list[Taken] = []
        self.is_outdated = True
        """Whether gradients may have arrived since the tensors were listed."""

    def concerns(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, by_gradient: bool = False
    ) -> bool:
        """Return whether a call takes any of the tensors, or what was made of them."""
        if self.is_outdated:
            self._list()
        is_found = self._is_gradient if by_gradient else self._is_followed
        return any(map(is_found, _parts((*args, *kwargs.values()))))

    def leaves(self) -> Iterator[Taken]:
        """Yield what was listed since this was asked last."""
        listed, self._new = self._new, []
        yield from listed

    def same(self, thing: object) -> Any:  # noqa: ANN401 - a tensor or None
        """Return the object that stands for a gradient of which this is another object."""
        memory = self._memory(thing) if self._passing else None
        return None if memory is None else self._passing.get(memory)

    def clear(self) -> None:
        """Let go of all tensors."""
        self._known.clear()
        self._gradients.clear()
        self._passing.clear()
        self._new.clear()
        self._taken, self._memory, self._is_made = tuple, _nothing, _nothing  # they refer back

    def _list(self) -> None:
        self.is_outdated = False
        self._new = list(self._taken())
        self._passing.clear()
        for one in self._new:
            self._known[id(one.tensor)] = weakref.ref(one.tensor)
            if one.kind is LeafKind.GRADIENT:
                self._gradients[id(one.tensor)] = weakref.ref(one.tensor)
            if one.is_passing:
                self._passing[self._memory(one.tensor)] = one.tensor
        self._passing.pop(None, None)

    def _is_followed(self, thing: object) -> bool:
        known = self._known.get(id(thing))
        is_known = known is not None and known() is thing
        return is_known or bool(self._is_made(thing)) or self.same(thing) is not None

    def _is_gradient(self, thing: object) -> bool:
        known = self._gradients.get(id(thing))
        return (known is not None and known() is thing) or self.same(thing) is not None


def _nothing(_thing: object) -> None:
    """Know no tensor."""


def _parts(things: Iterable[object]) -> Iterator[object]:
    """Yield things, and the parts of lists and tuples."""
    for thing in things:
        if isinstance(thing, list | tuple):
            yield from thing
        else:
            yield thing
