"""Answers that hold for every value of which the same is recorded.

What an audit says of a value follows from the primitives between recorded elements and it, from
those elements, and from its own. Where all digests are the same, on the other side of a comparison
or in another layer, so is the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from .result import Check
    from .slices import KnownProgram, Part

T = TypeVar("T")
_MISSING = object()


class Answers(Generic[T]):
    """What was said before, by what it follows from."""

    def __init__(self, *, is_brief: bool = False) -> None:
        """Know nothing yet.

        Args:
            is_brief: Whether only soundness is asked for; the error of what is sound is then an
                upper bound.
        """
        self.is_brief = is_brief
        self.unexplained: set[tuple[str, ...]] = set()
        """Primitives whose expected errors, as far as they are known, did not explain a sound
        value: others of the same form are held against random errors first."""
        self._found: dict[Hashable, T] = {}

    def __len__(self) -> int:
        """Return how many questions were answered by executing something."""
        return len(self._found)

    def get(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Return the answer, which is asked for the first time only."""
        found = self._found.pop(key, _MISSING)
        self._found[key] = found = ask() if found is _MISSING else cast("T", found)
        return found

    def forget(self, *, but: int) -> None:
        """Forget all answers but those that were asked for last.

        Args:
            but: How many to keep.
        """
        for key in list(self._found)[: max(len(self._found) - but, 0)]:
            self._found.pop(key, None)


def share_key(known: KnownProgram, check: Check, value: int, parts: Sequence[Part]) -> Hashable:
    """Return all that the answer for a value follows from."""
    return check, _content(known, value), tuple(_part_key(known, value, one) for one in parts)


def _part_key(known: KnownProgram, value: int, part: Part) -> Hashable:
    """Return a part with terms and operators counted in the order in which they appear."""
    places = {term: place for place, term in enumerate(part.taken, 1)}
    places.setdefault(known.lowered.terms[value], 0)
    operators: dict[int, int] = {}
    nodes = []
    for node in part.nodes:
        for term in (*node.operands, *node.outputs):
            places.setdefault(term, len(places) + 1)
        nodes.append((
            node.primitive,
            repr(node.attributes),
            tuple(places[one] for one in (*node.operands, *node.outputs)),
            operators.setdefault(node.operator, len(operators)),
            known.units[node.operator],
        ))  # fmt: skip
    taken = tuple(_content(known, one) for one in part.taken.values())
    wanted = _content(known, part.wanted), places[known.lowered.terms[part.wanted]]
    return tuple(nodes), taken, wanted


def _content(known: KnownProgram, value: int) -> Hashable:
    """Return what is recorded of a value and of its gradient, of a draw what tells of it."""
    draw = known.draws.get(value)
    if draw is not None:
        told = (one for one in (*draw.taken, *draw.outputs) if one != value)
        return tuple(_content(known, one) for one in told)
    one, recorded = known.program.values[value], known.recorded
    infos = recorded.info(value), recorded.gradient_info(value)
    return one.dtype, one.shape, *(None if info is None else info.digest for info in infos)
