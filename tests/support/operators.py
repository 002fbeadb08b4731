"""Call one framework function, and write down what a recorder would: a program of one operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import DRAWN
from padiff.program import (
    TABLES,
    Argument,
    Dtype,
    LeafKind,
    Lowered,
    Opaque,
    Operator,
    Program,
    Slice,
    Value,
    ValueRef,
    execute,
    lower,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

__all__ = [
    "Frame",
    "Recorded",
    "computed",
    "difference",
    "lowered_of",
    "recorded_row",
    "results_of",
]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What the tests need to know about a framework."""

    name: str
    is_tensor: Callable[[Any], bool]
    numpy: Callable[[Any], np.ndarray[Any, Any]]
    clone: Callable[[Any], Any]
    dtype_name: Callable[[Any], str | None]
    """The name of a dtype; None for what is no dtype."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A program of one operator with the elements of all its values."""

    program: Program
    elements: Mapping[int, np.ndarray[Any, Any]]


class Recorder:
    """Turns one call into a program."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.values: list[Value] = []
        self.elements: dict[int, np.ndarray[Any, Any]] = {}
        self.known: dict[int, int] = {}
        self.alive: list[Any] = []

    def value(self, tensor: Any, producer: int | None, slot: int) -> int:
        array = np.array(self.frame.numpy(tensor))
        id_ = len(self.values)
        kind = LeafKind.INPUT if producer is None else None
        self.values.append(
            Value(
                id=id_, dtype=array.dtype.name, shape=array.shape, kind=kind, producer=producer,
                slot=slot,
            )
        )  # fmt: skip
        self.elements[id_] = array
        return id_

    def argument(self, argument: Any) -> Argument:
        if self.frame.is_tensor(argument):
            if id(argument) not in self.known:
                self.known[id(argument)] = self.value(argument, None, 0)
                self.alive.append(argument)
            return ValueRef(id=self.known[id(argument)])
        if isinstance(argument, list | tuple):
            return tuple(map(self.argument, argument))
        if isinstance(argument, dict):
            return {key: self.argument(each) for key, each in argument.items()}
        if isinstance(argument, slice):
            parts = (argument.start, argument.stop, argument.step)
            start, stop, step = map(self.argument, parts)
            return Slice(start=start, stop=stop, step=step)
        return self.plain(argument)

    def plain(self, argument: Any) -> Argument:
        if argument is None or argument is ...:
            return argument
        if isinstance(argument, bool | int | float | complex | str):
            return argument
        dtype = self.frame.dtype_name(argument)
        return Opaque(text=str(argument)) if dtype is None else Dtype(name=dtype)

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        *,
        in_place: bool,
        written: tuple[int, ...] = (0,),
        drawn: Callable[[], Any] = lambda: None,
    ) -> Recorded:
        positional = tuple(map(self.argument, arguments))
        named = {key: self.argument(each) for key, each in keywords.items()}
        result = function(*arguments, **keywords)
        inside = drawn()
        if inside is not None:
            named[DRAWN] = self.argument(inside)
        changed = [arguments[place] for place in written] if in_place else None
        tensors = self.tensors(result) or self.tensors(changed)
        outputs = tuple(self.value(tensor, 0, slot) for slot, tensor in enumerate(tensors))
        operator = Operator(
            id=0, name=name, positional=positional, keywords=named, outputs=outputs,
            in_place=in_place,
        )  # fmt: skip
        program = Program(
            framework=self.frame.name,
            values=tuple(self.values),
            operators=(operator,),
            outputs=outputs,
        )
        return Recorded(program=program, elements=self.elements)

    def tensors(self, result: Any) -> list[Any]:
        if self.frame.is_tensor(result):
            return [result]
        if isinstance(result, dict):
            result = list(result.values())
        if isinstance(result, list | tuple) or hasattr(result, "__next__"):
            return [tensor for each in result for tensor in self.tensors(each)]
        return []


def lowered_of(recorded: Recorded) -> Lowered:
    """Lower, with all recorded elements at hand."""
    table = TABLES[recorded.program.framework]
    return lower(recorded.program, table, contents=recorded.elements.get)


def results_of(recorded: Recorded, lowered: Lowered) -> list[np.ndarray[Any, Any]]:
    """Execute from the recorded leaves; what a rule left as recorded is no leaf of the call."""
    left = set(lowered.leaves.values())
    assert recorded.program.outputs[0] not in left
    leaves = {
        value.id: recorded.elements[value.id]
        for value in recorded.program.values
        if value.producer is None or value.id in left
    }
    outputs = recorded.program.outputs
    executed = execute(lowered, leaves, outputs)
    return [executed[output] for output in outputs]


def computed(
    call: tuple[str, str], recorded: Recorded
) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Yield what a call gives when it is lowered and executed, each with what it recorded."""
    lowered = lowered_of(recorded)
    assert lowered.opaque == {}, call
    results = results_of(recorded, lowered)
    assert results, call
    expected = (recorded.elements[output] for output in recorded.program.outputs)
    yield from zip(results, expected, strict=True)


def recorded_row(
    names: Sequence[str],
    cases: Sequence[str],
    record: Callable[[str, str], Recorded | None],
    *,
    reasons: object,
    absent: Collection[str] = (),
) -> Iterator[tuple[tuple[str, str], Recorded]]:
    """Yield the calls of a row that the framework takes, by name and arguments.

    Each name takes the arguments of some case, and those of each case are taken by some name.

    Args:
        names: Of the row's operators, in full.
        cases: Texts of arguments.
        record: Records a call, or gives None where it is refused.
        reasons: Why calls were refused, for messages.
        absent: Names that cannot be called here.
    """
    found = {(name, text): record(name, text) for name in names for text in cases}
    for name in names:
        assert any(found[name, text] for text in cases) or name in absent, (name, reasons)
    for text in cases:
        assert any(found[name, text] for name in names), (text, reasons)
    yield from ((call, one) for call, one in found.items() if one is not None)


def difference(result: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """Measure the largest difference relative to the largest finite expected element."""
    assert result.shape == expected.shape
    if expected.dtype.kind == "V":
        expected = expected.astype(np.float64)
    if expected.dtype.kind in "biu" or not expected.size:
        return float(np.max(result != expected, initial=0))
    same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    finite = np.abs(expected[np.isfinite(expected)])
    size = float(np.max(finite, initial=0)) or 1.0
    with np.errstate(all="ignore"):
        apart = np.abs(np.where(same, 0, result - expected))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart))) / size
