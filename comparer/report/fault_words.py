"""What execution found, in words."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, TypeVar

from padiff.comparer.auditing.result import Reason
from padiff.comparer.proving import (
    RATE,
    TIED,
    CoarserValue,
    Edit,
    EditKind,
    LeafDifference,
    Making,
    Parting,
    UnsoundValue,
    UpdateDifference,
)
from padiff.dumpfile import Role
from padiff.program import Opaque, Slice, argument_to_json

from .numbers import count, factor, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from padiff.comparer.auditing.result import AuditedValue
    from padiff.comparer.proving import Change, Influence, Listed, Made, Place, UsedOperator
    from padiff.comparer.result import Divergence
    from padiff.program import Argument


_T = TypeVar("_T")
_ENVIRONMENT = re.compile(r"^.*[/\\](?:site|dist)-packages[/\\]")
"""Of a file's path: where its environment keeps libraries."""


def evidence_of(found: Divergence) -> tuple[str, ...]:
    """Return all that speaks for an origin, a line each: what was proved first.

    How two learning rates differ is said before it: the proof tells the same of an operator.
    """
    proved = (line for fault in found.faults for line in _lines(fault))
    ahead = 1 if found.pair.end.address.role is Role.LR else 0
    return (*found.evidence[:ahead], *proved, *found.evidence[ahead:])


@singledispatch
def _lines(fault: object) -> Iterator[str]:
    """Yield what is said of something that execution found."""
    raise TypeError(f"expected a fault, found {type(fault).__name__}")


@_lines.register(Edit)
def _(fault: Edit) -> Iterator[str]:
    times = f" ({count(fault.times)} times)" if fault.times > 1 else ""
    yield f"proved: {worded_edit(fault)}{times}{worded_influence(fault.influence)}"
    yield from worded_ends(fault.reference, fault.candidate)


@_lines.register(Parting)
def _(fault: Parting) -> Iterator[str]:
    yield "executed in float64, the programs part here"
    yield from worded_ends(fault.reference, fault.candidate)


@_lines.register(LeafDifference)
def _(fault: LeafDifference) -> Iterator[str]:
    yield f"not the reference's: {worded_leaf(fault)}{worded_influence(fault.influence)}"


@_lines.register(CoarserValue)
def _(fault: CoarserValue) -> Iterator[str]:
    what = f"{fault.candidate} where the reference has {fault.reference}"
    yield f"lost precision: {what}, at {worded_place(fault.place)}"


@_lines.register(UnsoundValue)
def _(fault: UnsoundValue) -> Iterator[str]:
    side = "candidate" if fault.is_candidate else "reference"
    yield f"not what the {side}'s own program says: {worded_unsound(fault.value)}"


@_lines.register(UpdateDifference)
def _(fault: UpdateDifference) -> Iterator[str]:
    error = number(fault.error)
    yield f"another update: {fault.candidate} is left off by up to {error} of its size"


def worded_influence(found: Influence | None) -> str:
    """Return how far a fault alone moves the result, as a clause; empty if nobody asked for it."""
    if found is None:
        return ""
    if found.relative_l2 is None:
        return "; how far it moves the result was not measured"
    return f"; moves the result by {number(found.relative_l2)} of its size"


def worded_ends(reference: Place | None, candidate: Place | None) -> Iterator[str]:
    """Yield where something is on each side, a line each."""
    for side, place in (("reference", reference), ("candidate", candidate)):
        if place is not None:
            yield f"{side} at {worded_place(place)}"


def shown(file: str) -> str:
    """Return a file as readers know it: one of an installed library below its package.

    >>> shown("env/lib/python3.11/site-packages/torch/nn/functional.py")
    'torch/nn/functional.py'
    """
    return _ENVIRONMENT.sub("", file)


def worded_place(place: Place) -> str:
    """Return the operator, module and line of a place."""
    module = f"{place.module or '(root)'} ({place.class_name})" if place.class_name else "no module"
    site = "" if place.site is None else f", {shown(place.site.file)}:{place.site.line}"
    return f"{place.operator} of {module}{site}"


def worded_leaf(one: LeafDifference) -> str:
    """Return how a leaf differs, on one line."""
    name = one.candidate or one.reference
    if one.kind == "tie":
        return f"parameter {name}: of its own, where the reference shares {one.reference}"
    if one.holds and one.made is None:
        return f"{one.kind} {name}: it holds what is {one.holds} in the reference"
    if one.largest is None and one.kind != "gradient":
        return f"{one.kind} {name}: not bit-equal; the reference keeps no elements of it"
    if one.largest is None:
        how = "computed without gradients" if one.is_without_gradients else "cut off"
        place = "" if one.place is None else f", {how} by {worded_place(one.place)}"
        return f"{one.kind} of {name}: on one side only{place}"
    off = f"{count(one.elements)} of {count(one.of)} elements"
    off = f"{off}, by up to {number(one.largest)} of its size"
    how = "" if one.made is None else worded_making(one.made)
    if one.kind == TIED:
        name, how = f"of {name}", "it goes to others of equal elements"
    kind = "gradient" if one.kind == TIED else one.kind
    return f"{kind} {name}: {how} ({off})" if how else f"{kind} {name}: {off}"


def worded_making(made: Made) -> str:
    """Return how a leaf is made of what it should hold, as a clause."""
    numbers = made.numbers
    along = "" if made.axis is None else f" along axis {made.axis}"
    if made.kind is Making.PLAIN:
        return f"as it lies in the reference, without the rule {made.rule!r}"
    if made.kind is Making.CONSTANT:
        return f"each element is {number(numbers[0])}"
    if made.kind is Making.SHIFTED:
        word = "more" if numbers[0] > 0 else "less"
        return f"each element {number(abs(numbers[0]))} {word}"
    if made.kind is Making.SCALED:
        return f"each element times {number(numbers[0])}"
    if made.kind is Making.AXES and len(numbers) == 2:  # noqa: PLR2004 -- a matrix
        return "transposed"
    return _MAKING[made.kind].format(along=along, numbers=", ".join(map(str, numbers)))


_MAKING = {
    Making.AXES: "axes in the order {numbers}",
    Making.REVERSED: "reversed{along}",
    Making.BLOCKS: "equal blocks{along} in the order {numbers}",
    Making.NESTED: "moved{along} as by reshape({numbers}).swapaxes(1, 2)",
    Making.ORDER: "the same elements in another order{along}",
}


def worded_unsound(one: AuditedValue) -> str:
    """Return what is wrong with an audited value, on one line."""
    what = f"{one.check} of {one.operator}" if one.check == "gradient" else one.operator
    reason: str = one.reason
    if one.reason is Reason.SCALED and one.factor is not None:
        reason = f"it is {factor(one.factor)} times what it should be"
    return f"{what} of {one.module or '(root)'}: {reason}"


_MOST_USED = 8
"""Operators of one side that an edit names; the page of ``--html`` lists all of them."""
_DIGITS, _MOST_DIGITS = 7, 17
"""Digits of a number in words: enough for float32, and all that float64 has."""
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
    lacking, own = _apart(_all_used, edit.operators)
    place = edit.candidate or edit.reference
    operator = "the result" if place is None else _short(place.operator)
    if edit.kind is EditKind.EXCHANGED and edit.changes:
        known, found = _apart(_value, (edit.changes[0].known, edit.changes[0].found))
        return f"{found} and {known} exchanged"
    if edit.kind is EditKind.OTHER and edit.changes:
        return _read_instead(edit.changes[0], operator, own=own, lacking=lacking)
    return _WORDS[edit.kind].format(
        changes=_changes(edit.changes, operator), operator=operator, lacking=lacking, own=own
    )


def _read_instead(change: Change, operator: str, *, own: str, lacking: str) -> str:
    """Return that one side reads a value as it is, of which the other one computes something."""
    if isinstance(change.found, str):
        return f"{operator} reads {_short(change.found)} where the reference has {lacking}"
    if isinstance(change.known, str):
        return f"{own} where the reference reads {_short(change.known)}"
    return f"{own} where the reference has {lacking}"


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
    known, found = _apart(_value, (change.known, change.found))
    of = RATE if change.name == RATE else f"{change.name} of {operator}"
    if change.name and change.found is None:
        return f"{of} left out: the reference has {known}"
    if change.name and change.known is None:
        return f"{of} added: {found}"
    end = f"{found} where the reference has {known}"
    return f"{of}: {end}" if change.name else end


def _apart(word: Callable[[_T, int], str], both: tuple[_T, _T]) -> tuple[str, str]:
    """Word two things that differ with as few digits as show the difference."""
    for digits in (_DIGITS, *range(_DIGITS + 1, _MOST_DIGITS)):
        known, found = (word(one, digits) for one in both)
        if known != found:
            return known, found
    return word(both[0], _MOST_DIGITS), word(both[1], _MOST_DIGITS)


def _all_used(operators: Sequence[UsedOperator], digits: int) -> str:
    """Return operators, of a long slice the first ones and how many there are more."""
    shown = operators[: _MOST_USED if len(operators) > _MOST_USED + 1 else None]
    more = len(operators) - len(shown)
    words = [*(_used(one, digits) for one in shown), *([f"{count(more)} more"] if more else [])]
    return ", ".join(words) or "nothing"


def _used(operator: UsedOperator, digits: int) -> str:
    """Return an operator with its numbers: ``mul, times 0.5``; ``clamp(-1, 1)``."""
    name = _short(operator.name)
    if len(operator.parts) == 1:
        part = replace(operator, name=operator.parts[0], parts=())
        return f"{_used(part, digits)} in {name}"
    if operator.parts:
        return f"{', '.join(operator.parts)} in {name}"
    arguments = ", ".join(_value(one, digits) for one in operator.arguments)
    if name in _NUMBERS and (arguments or name == "neg"):
        return f"{name}, {_NUMBERS[name].format(arguments)}"
    return f"{name}({arguments})" if arguments else name


def _short(name: str) -> str:
    """Return the last word of an operator's name."""
    return name.rpartition(".")[2]


def _value(argument: Argument, digits: int = _DIGITS) -> str:
    """Return an argument as it is written in Python."""
    if isinstance(argument, tuple):
        return f"[{', '.join(_value(one, digits) for one in argument)}]"
    if isinstance(argument, Slice):
        ends = (argument.start, argument.stop)
        text = ":".join("" if one is None else _value(one) for one in ends)
        return text if argument.step is None else f"{text}:{_value(argument.step)}"
    if isinstance(argument, float):
        return f"{argument:.{digits}g}"
    if isinstance(argument, str | Opaque):
        return argument if isinstance(argument, str) else argument.text
    if argument is ...:
        return "..."
    return "none" if argument is None else str(argument_to_json(argument))
