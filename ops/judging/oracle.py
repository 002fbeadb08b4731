"""What an operator computes in float64: the vocabulary's word on one case.

A case that one framework executed is a program of one operator, with the elements of all its
values. It is lowered as a recorded program is, and its values and gradients are measured as an
audit measures those of a dump.

Outputs are measured against it, where errors below a floor are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.comparer.auditing import (
    Answers,
    KnownProgram,
    Measured,
    Readers,
    Reason,
    measure_gradient,
    measure_value,
)
from padiff.dumpfile import LeafKind, ProgramError, Statistics, ValueInfo
from padiff.ops.cases import Argument, Case, Dtype, Tensor, signs
from padiff.program import TABLES, Operator, Program, RecordedProgram, Value, ValueRef, lower

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.ops.table import Call
    from padiff.program import Argument as ProgramArgument
    from padiff.program import Lowered
    from padiff.program.primitives import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What one framework made of a case."""

    outputs: Mapping[int, Array]
    """Those that are compared, by their place in the oracle's operator."""
    arriving: Mapping[int, Array]
    """The gradients that arrived at them."""
    gradients: Sequence[Array | None]
    """By each tensor of the case that takes one."""

    @property
    def digest(self) -> tuple[bytes | None, ...]:
        """What two sides share iff they are equal bit by bit."""
        arrays = (*self.outputs.values(), *self.arriving.values(), *self.gradients)
        return tuple(None if one is None else one.tobytes() for one in arrays)


class Oracle:
    """The float64 program of a case."""

    def __init__(self, case: Case, framework: str, call: Call, outputs: Sequence[Array]) -> None:
        """Lower the call.

        Args:
            case: Of which the call is.
            framework: Whose table is asked.
            call: What the case is there.
            outputs: What that framework returned: their dtypes and shapes are the program's.
        """
        self._inputs = [one.array() for one in case.tensors]
        self._taking = [place for place, one in enumerate(case.tensors) if one.takes_gradient]
        self._places = {id(one): place for place, one in enumerate(case.tensors)}
        values = [
            Value(id=place, dtype=one.dtype.name, shape=one.shape, kind=LeafKind.INPUT)
            for place, one in enumerate(self._inputs)
        ]
        keywords = {name: self._argument(one) for name, one in call.keywords.items()}
        self._outputs = range(len(values), len(values) + len(outputs))
        values += [
            Value(id=id_, dtype=one.dtype.name, shape=one.shape, producer=0, slot=slot)
            for slot, (id_, one) in enumerate(zip(self._outputs, outputs, strict=True))
        ]
        operator = Operator(
            id=0,
            name=call.name,
            positional=tuple(self._argument(one) for one in call.positional),
            keywords=keywords,
            outputs=tuple(self._outputs),
        )
        self.program = Program(
            framework=framework,
            values=tuple(values),
            operators=(operator,),
            outputs=tuple(self._outputs),
        )
        contents = dict(enumerate(self._inputs))
        self._lowered: Lowered | None = None
        self.reason = ""
        """Why there is no float64 program; empty if there is."""
        if call.wrapped:  # by code of Python, which no program says
            self.reason = f"arguments of {call.name} are made of the tensors of the case"
            return
        try:
            lowered = lower(self.program, TABLES[framework], contents=contents.get)
        except ProgramError as error:
            self.reason = error.message
            return
        self.reason = lowered.opaque.get(0, "")
        if not self.reason:
            self._lowered = lowered

    @property
    def tolerance(self) -> float:
        """How far the program's float64 may be off, relative to the largest element."""
        return tolerance_of(self.program.framework, self.program.operators[0].name)

    def _argument(self, one: Argument) -> ProgramArgument:
        if isinstance(one, Tensor):
            return ValueRef(id=self._places[id(one)])
        if isinstance(one, tuple):
            return tuple(self._argument(each) for each in one)
        return Dtype(name=one.name) if isinstance(one, Dtype) else one

    def measure(
        self, executed: Executed, floors: Mapping[int, float]
    ) -> Mapping[tuple[str, int], Measured]:
        """Measure all that can be measured, by ``output`` or ``gradient`` and its place.

        Args:
            executed: What one framework made of the case.
            floors: Absolute errors of elements of outputs that count as none, by place.
        """
        if self._lowered is None:
            return {}
        known = KnownProgram(self._recorded(executed), self._lowered)
        answers: Answers[Measured] = Answers(is_brief=True)
        found: dict[tuple[str, int], Measured | None] = {}
        for place, floor in floors.items():
            value = self.program.values[self._outputs[place]]
            if self._lowered.terms[value.id] not in self._lowered.leaves:
                found["output", place] = _tried(measure_output, known, value, floor)
        if executed.arriving:
            readers = Readers(known)
            for order, place in enumerate(self._taking):
                value = self.program.values[place]
                found["gradient", order] = _tried(measure_gradient, known, readers, value, answers)
        return {
            key: one
            for key, one in found.items()
            if one is not None and one.reason is not Reason.TIED
        }

    def _recorded(self, executed: Executed) -> CaseProgram:
        elements = dict(enumerate(self._inputs))
        elements.update({self._outputs[at]: one for at, one in executed.outputs.items()})
        gradients = {self._outputs[at]: one for at, one in executed.arriving.items()}
        pairs = zip(self._taking, executed.gradients, strict=True)
        gradients.update({place: one for place, one in pairs if one is not None})
        return CaseProgram(self.program, elements, gradients)


def _tried(
    measure: Callable[..., Measured | None],
    *arguments: Any,  # noqa: ANN401 -- those of the measure
) -> Measured | None:
    """Measure one thing; None where it cannot be executed."""
    try:
        return measure(*arguments)
    except ProgramError:
        return None


def tolerance_of(framework: str, operator: str) -> float:
    """Return how far the float64 of an operator may be off, relative to the largest element."""
    rows = TABLES[framework].names
    return rows[operator].tolerance if operator in rows else 0.0


class CaseProgram(RecordedProgram):
    """A case as an audit reads it: all elements are at hand, none is in a file."""

    def __init__(
        self, program: Program, elements: Mapping[int, Array], gradients: Mapping[int, Array]
    ) -> None:
        """Join a program with elements by value id."""
        self.program, self.construction = program, None
        self.borders = {}  # it has no records
        self._held, self._arrived = elements, gradients

    def has_elements(self, value: int) -> bool:
        """Return whether a value's elements are known."""
        return value in self._held

    def has_gradient(self, value: int) -> bool:
        """Return whether a gradient is known."""
        return value in self._arrived

    def got_gradient(self, value: int) -> bool:
        """Return whether a gradient arrived."""
        return value in self._arrived

    def elements(self, value: int) -> Array | None:
        """Return elements."""
        return self._held.get(value)

    def gradient(self, value: int) -> Array | None:
        """Return a gradient."""
        return self._arrived.get(value)

    def info(self, value: int) -> ValueInfo | None:
        """Return what tells one value from another."""
        return self._info_of(self._held, value)

    def gradient_info(self, value: int) -> ValueInfo | None:
        """Return what tells one gradient from another."""
        return self._info_of(self._arrived, value)

    def _info_of(self, held: Mapping[int, Array], value: int) -> ValueInfo | None:
        if value not in held:
            return None
        unknown = Statistics(minimum=None, maximum=None, mean=None, l2=None)
        return ValueInfo(
            id=value,
            digest=f"{value}",
            dtype=held[value].dtype.name,
            size=held[value].size,
            statistics=unknown,
        )

    def is_finite(self, value: int, *, gradient: bool = False) -> bool:
        """Return whether all elements are known and finite."""
        held = (self._arrived if gradient else self._held).get(value)
        if held is None:
            return False
        return held.dtype.kind not in "fcV" or bool(np.isfinite(held.astype(np.complex128)).all())

    def has_zero_gradient(self, value: int) -> bool:
        """Return whether a gradient is zero."""
        return value in self._arrived and not self._arrived[value].any()


def arriving_at(outputs: Mapping[int, Array], seed: int) -> dict[int, Array]:
    """Return the gradients that a worker lets arrive at outputs, in their dtypes."""
    return {
        place: signs(one.size, seed + order).reshape(one.shape).astype(one.dtype)
        for order, (place, one) in enumerate(outputs.items())
    }


class _Replaced(RecordedProgram):
    """A recorded program with other elements of one value."""

    def __init__(self, base: RecordedProgram, value: int, elements: Array) -> None:
        self.program, self._base = base.program, base
        self._value, self._elements_of_it = value, elements

    def has_elements(self, value: int) -> bool:
        return value == self._value or self._base.has_elements(value)

    def elements(self, value: int) -> Array | None:
        return self._elements_of_it if value == self._value else self._base.elements(value)

    def info(self, value: int) -> None:
        """Know no digest: each of these programs is asked one question."""

    def gradient_info(self, value: int) -> None:
        """Know no digest."""


def replaced(known: KnownProgram, value: int, elements: Array) -> KnownProgram:
    """Return a program with other elements of one value."""
    return KnownProgram(_Replaced(known.recorded, value, elements), known.lowered)


def measure_output(known: KnownProgram, value: Value, floor: float) -> Measured | None:
    """Measure a value.

    Where it seems wrong it is measured once more, with elements that are within the floor of what
    they should be set to that.

    Raises:
        ProgramError: The program cannot be executed.
    """
    found = measure_value(known, value, Answers(is_brief=True))
    if found is None or found.is_sound or not floor:
        return found
    array = known.elements(value.id)
    goal = known.compute(known.part_behind(value.id))
    with np.errstate(all="ignore"):
        near = np.abs(array - goal) <= floor
    patched = np.where(near, goal, array).astype(value.dtype)
    return measure_value(replaced(known, value.id, patched), value, Answers(is_brief=True)) or found
