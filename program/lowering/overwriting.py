"""Lower what was written through a view: the tensor that the view looks into changed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.graph import ValueRef

from .builder import NotLoweredError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.program.graph import Operator, Value

    from .builder import Builder, Term

OVERWRITE = "padiff.overwrite"
"""The recorder's own operator: a value, and what was written in its memory since, in order."""
_VIEWS = frozenset({
    "T", "__getitem__", "as_strided", "chunk", "data", "detach", "diagonal", "expand", "expand_as",
    "flatten", "mT", "movedim", "narrow", "permute", "reshape", "select", "slice", "split",
    "split_with_num", "squeeze", "strided_slice", "swapaxes", "t", "transpose", "unbind",
    "unflatten", "unfold", "unsqueeze", "unstack", "view", "view_as",
})  # fmt: skip
"""Last names of operators that only look at elements elsewhere."""
_LONGEST = 1_000
"""Operators between a write and the tensor that it changed."""


def is_view(operator: Operator) -> bool:
    """Return whether what an operator makes looks into its first value."""
    return operator.name.rpartition(".")[2] in _VIEWS and not operator.in_place


def _changes(operator: Operator) -> bool:
    """Return whether what an operator makes is its first value with other elements."""
    return operator.in_place or operator.name == OVERWRITE


class Overwriting:
    """Finds where a value lies in another: the same views are applied to the places themselves."""

    def __init__(
        self,
        builder: Builder,
        values: Mapping[int, Value],
        operators: Sequence[Operator],
        lowered: Callable[[Operator, int, Term], Sequence[Term]],
    ) -> None:
        """Take the program."""
        self._builder, self._values, self._operators = builder, values, operators
        self._lowered = lowered

    def lower(self, operator: Operator, terms: Mapping[int, Term]) -> Term:
        """Return the value with all that was written into it.

        Raises:
            NotLoweredError: It is not known what was written, or where.
        """
        base, *written = operator.taken
        if not written:
            raise NotLoweredError("memory that was changed elsewhere")
        result = terms[base]
        own = self._versions(base)
        for value in written:
            result = self._put(result, terms[value], self._chain(value, own))
        return result

    def _put(self, base: Term, value: Term, views: Sequence[tuple[Operator, int]]) -> Term:
        b, count = self._builder, base.spec.count
        places = b("reshape", b("iota", size=count), shape=base.shape)
        for view, made in reversed(views):
            source = _first_value(view)
            places = self._lowered(view, source, places)[view.outputs.index(made)]
        if places.shape != value.shape:
            raise NotLoweredError("a view of another shape than what was written")
        flat = b("reshape", base, shape=(count,))
        index = b("reshape", places, shape=(places.spec.count,))
        source_ = b("reshape", value, shape=(value.spec.count,))
        if source_.kind is not flat.kind:
            source_ = b("cast", source_, kind=flat.kind.value)
        done = b("scatter", flat, index, source_, axis=0, reduce="set")
        return b("reshape", done, shape=base.shape)

    def _chain(self, value: int, own: set[int]) -> list[tuple[Operator, int]]:
        """Return the views on the way from a value back to what it was written into."""
        found: list[tuple[Operator, int]] = []
        for _ in range(_LONGEST):
            if value in own:
                return found
            producer = self._values[value].producer
            if producer is None:
                break
            operator = self._operators[producer]
            if is_view(operator):
                found.append((operator, value))
            elif not _changes(operator):
                break
            value = _first_value(operator)
        raise NotLoweredError("what was written is no view that is known")

    def _versions(self, value: int) -> set[int]:
        """Return the values that a tensor held one after the other, up to this one."""
        found = {value}
        while (producer := self._values[value].producer) is not None:
            operator = self._operators[producer]
            if not _changes(operator):
                break
            value = _first_value(operator)
            found.add(value)
        return found


def _first_value(operator: Operator) -> int:
    """Return the value that an operator is called on."""
    first = operator.positional[0] if operator.positional else None
    if isinstance(first, ValueRef):
        return first.id
    taken = operator.taken
    if not taken:
        raise NotLoweredError("an operator that takes no value")
    return taken[0]
