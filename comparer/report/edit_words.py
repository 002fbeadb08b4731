"""Edits in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.proving import EditKind
from padiff.program import Opaque, Slice, argument_to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.proving import Change, Edit, Listed, UsedOperator
    from padiff.program import Argument

__all__ = ["worded_call", "worded_edit"]

_WORDS = {
    EditKind.ARGUMENT: "{changes}",
    EditKind.CONSTANT: "{operator}: {changes}",
    EditKind.OPERAND: "{operator} reads {changes}",
    EditKind.EXCHANGED: "{operator} reads its operands in another order",
    EditKind.MISSING: "left out: {lacking}",
    EditKind.EXTRA: "too much: {own}",
    EditKind.OTHER: "{own} where the reference has {lacking}",
}
_NUMBERS = {
    "mul": "times {}",
    "mul_": "times {}",
    "add": "plus {}",
    "add_": "plus {}",
    "sub": "minus {}",
    "div": "divided by {}",
    "neg": "the sign",
}
"""What operators do with a number."""


def worded_edit(edit: Edit) -> str:
    """Return what the candidate does otherwise."""
    lacking, own = (", ".join(map(_used, those)) or "nothing" for those in edit.operators)
    place = edit.candidate or edit.reference
    operator = "the result" if place is None else _short(place.operator)
    return _WORDS[edit.kind].format(
        changes=_changes(edit.changes, operator), operator=operator, lacking=lacking, own=own
    )


def worded_call(operator: Listed) -> str:
    """Return an operator as a call: ``mul(%12, other=0.25)``."""
    arguments = (
        f"{name}={_value(value)}" if place and name else _value(value)
        for place, (name, value) in enumerate(operator.arguments)
    )
    return f"{_short(operator.name)}({', '.join(arguments)})"


def _changes(changes: Sequence[Change], operator: str) -> str:
    return ", ".join(_change(one, operator) for one in changes)


def _change(change: Change, operator: str) -> str:
    known, found = _value(change.known), _value(change.found)
    of = f"{change.name} of {operator}"
    if change.name and change.found is None:
        return f"{of} left out: the reference has {known}"
    if change.name and change.known is None:
        return f"{of} added: {found}"
    end = f"{found} where the reference has {known}"
    return f"{of}: {end}" if change.name else end


def _used(operator: UsedOperator) -> str:
    """Return an operator with its numbers: ``mul, times 0.5``; ``clamp(-1, 1)``."""
    name = _short(operator.name)
    arguments = ", ".join(map(_value, operator.arguments))
    if name in _NUMBERS and (arguments or name == "neg"):
        return f"{name}, {_NUMBERS[name].format(arguments)}"
    return f"{name}({arguments})" if arguments else name


def _short(name: str) -> str:
    """Return the last word of an operator's name."""
    return name.rpartition(".")[2]


def _value(argument: Argument) -> str:
    """Return an argument as it is written in Python."""
    if isinstance(argument, tuple):
        return f"[{', '.join(map(_value, argument))}]"
    if isinstance(argument, Slice):
        ends = (argument.start, argument.stop)
        text = ":".join("" if one is None else _value(one) for one in ends)
        return text if argument.step is None else f"{text}:{_value(argument.step)}"
    if isinstance(argument, float):
        return f"{argument:.7g}"
    if isinstance(argument, str | Opaque):
        return argument if isinstance(argument, str) else argument.text
    if argument is ...:
        return "..."
    return "none" if argument is None else str(argument_to_json(argument))
