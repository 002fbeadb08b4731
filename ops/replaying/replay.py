"""Replays a dump: each recorded operator, from its recorded inputs, in the other framework.

As a case it has arguments by the names of the table, and tensors as they are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.auditing import KnownProgram
from padiff.dumpfile import CompareError, Phase, ProgramError, numpy_dtype
from padiff.ops.cases import Argument, Case, Dtype, HeldTensor, Tensor
from padiff.ops.judging import (
    LARGEST_ERROR,
    Executed,
    Oracle,
    arriving_at,
    floor_of,
    is_finite,
    is_right,
    measure_output,
    replaced,
)
from padiff.ops.workers import request_of
from padiff.program import TABLES, NotLoweredError, ValueRef, lower, on_one_thread, read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.dumpfile import StepFile
    from padiff.ops.table import Operators, Row
    from padiff.ops.workers import Outcome, Worker
    from padiff.program import Argument as ProgramArgument
    from padiff.program import Operator, RecordedProgram
    from padiff.program.primitives import Array


class Status(StrEnum):
    """What became of a recorded operator."""

    RIGHT = "right"
    WRONG = "wrong"
    """The other framework is off by more than the operator rounds."""
    RECORDED_WRONG = "recorded wrong"
    """Only the recorded elements are."""
    REJECTS = "rejects"
    CRASH = "crash"
    UNLIKE = "other outputs"
    """Another number of them, dtype or shape."""
    UNJUDGED = "not judged"
    """It ran, and no float64 program says what is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedOperator:
    """One operator of the dump."""

    name: str
    """As recorded."""
    called: str
    """In the other framework."""
    module: str
    status: Status
    reference: float | None = None
    """The recorded outputs' largest error, in units of rounding."""
    candidate: float | None = None
    """The other framework's."""
    gradient: float | None = None
    """That of the other framework's gradients, in the same unit, from drawn ones that arrive."""
    said: str = ""
    """Of an error its text; of a crash the signal."""
    seconds: float | None = None
    """What one call takes, where it was timed."""
    reference_seconds: float | None = None
    """What it takes in the framework that recorded it."""

    @property
    def is_bad(self) -> bool:
        """Whether the other framework does something else."""
        bad = {Status.WRONG, Status.REJECTS, Status.CRASH, Status.UNLIKE}
        return self.status in bad


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A whole dump."""

    operators: Sequence[ReplayedOperator]
    unknown: Mapping[str, int]
    """How often each operator was recorded that the table lacks."""
    random: int
    """How many drew random numbers: not executed."""


def replay_dump(
    file: StepFile,
    worker: Worker,
    table: Operators,
    *,
    recording: Worker | None = None,
    repeats: int = 0,
) -> Replayed:
    """Replay the forward pass of one step and rank.

    Args:
        file: What was recorded of it.
        worker: Of the other framework.
        table: The operators that are known.
        recording: Of the framework that recorded it, to be timed, too.
        repeats: How often to time each; 0: not at all.

    Raises:
        CompareError: No program was recorded, or it is not one of torch.
        DumpError: The dump is damaged.
    """
    recorded = read_program(file)
    if recorded is None:
        raise CompareError(
            f"cannot replay {str(file.path)!r}: it holds no program",
            hint="record again without `--program none`",
        )
    if file.framework != "torch" or worker.framework == file.framework:
        raise CompareError(
            f"cannot replay {str(file.path)!r} in {worker.framework}: expected a dump of torch and "
            f"another framework, found one of {file.framework}",
            hint="Paddle records the calls of its C++ interface, which torch has no names for",
        )
    with on_one_thread():
        return _Replay(recorded, file.framework, (worker, recording), table, repeats).run()


class _Replay:
    def __init__(
        self,
        recorded: RecordedProgram,
        framework: str,
        workers: tuple[Worker, Worker | None],
        table: Operators,
        repeats: int,
    ) -> None:
        self.recorded, self.framework = recorded, framework
        self.worker, self.recording = workers
        self.repeats = repeats
        self.rows = rows_by_name(table, framework)
        lowered = lower(recorded.program, TABLES[framework], contents=recorded.elements)
        self.known = KnownProgram(recorded, lowered)
        self.is_trained = any(recorded.has_gradient(one.id) for one in recorded.program.values)

    def run(self) -> Replayed:
        found, unknown, random = [], Counter[str](), 0
        for operator in self.recorded.program.operators:
            if operator.phase is Phase.UPDATE or not operator.outputs:
                continue
            if operator.random:
                random += 1
                continue
            row = self.rows.get(operator.name)
            case = None if row is None else self.case(operator, row)
            if row is None or case is None:
                unknown[operator.name] += 1
                continue
            found.append(self.replay(operator, row, case))
        return Replayed(operators=found, unknown=unknown, random=random)

    def case(self, operator: Operator, row: Row) -> Case | None:
        takes_gradients = self.is_trained and not operator.no_grad
        try:
            return case_of(
                operator, row, self.framework, self.elements, takes_gradients=takes_gradients
            )
        except (LookupError, ProgramError):
            return None

    def elements(self, value: int) -> Array:
        """Return what an operator took: recorded, or computed from what is."""
        found = self.recorded.elements(value)
        if found is not None:
            return found
        dtype = self.recorded.program.values[value].dtype
        return self.known.compute(self.known.part_behind(value)).astype(dtype)

    def replay(self, operator: Operator, row: Row, case: Case) -> ReplayedOperator:
        call = row.frameworks[self.worker.framework].call(case)
        self.worker.ask(request_of(case, call, repeats=self.repeats))
        outcome = self.worker.answer()
        status, errors, said = self.judged(operator, row, outcome)
        gradient, where = (
            self.gradient(row, case, outcome) if status is Status.RIGHT else (None, "")
        )
        if where:
            status, said = Status.WRONG, f"gradient[{where}] is off by {gradient:.4g} roundings"
        return ReplayedOperator(
            name=operator.name,
            called=call.name,
            module=self.recorded.module_of(operator)[0],
            status=status,
            reference=errors[0],
            candidate=errors[1],
            gradient=gradient,
            said=said,
            seconds=outcome.elapsed_s,
            reference_seconds=self.timed(row, case),
        )

    def timed(self, row: Row, case: Case) -> float | None:
        """Return what a call takes in the framework that recorded it."""
        if self.recording is None or not self.repeats:
            return None
        call = row.frameworks[self.framework].call(case)
        self.recording.ask(request_of(case, call, repeats=self.repeats))
        return self.recording.answer().elapsed_s

    def judged(
        self, operator: Operator, row: Row, outcome: Outcome
    ) -> tuple[Status, tuple[float | None, float | None], str]:
        nothing = (None, None)
        if outcome.crash is not None:
            return Status.CRASH, nothing, outcome.crash.name
        if outcome.error is not None:
            return Status.REJECTS, nothing, f"{outcome.error.kind}: {outcome.error.text}"
        slots = row.frameworks[self.framework].slots
        wanted = [one for at, one in enumerate(operator.outputs) if slots is None or at in slots]
        values = [self.recorded.program.values[one] for one in wanted]
        likes = [(one.dtype.name, one.shape) for one in outcome.outputs]
        expected = [(one.dtype, one.shape) for one in values]
        if likes != expected:
            return Status.UNLIKE, nothing, f"{likes}, recorded {expected}"
        pairs = [
            self.errors(row, value, array)
            for value, array in zip(wanted, outcome.outputs, strict=True)
        ]
        judged = [one for one in pairs if one is not None]
        if not judged:
            return Status.UNJUDGED, nothing, ""
        reference = max((one for one, _ in judged if one is not None), default=None)
        candidate = max(one for _, one in judged)
        is_wrong = reference is not None and reference > LARGEST_ERROR
        status = Status.RECORDED_WRONG if is_wrong else Status.RIGHT
        if candidate > LARGEST_ERROR:
            status = Status.WRONG
        return status, (reference, candidate), ""

    def gradient(self, row: Row, case: Case, outcome: Outcome) -> tuple[float | None, str]:
        """Return the largest error of the gradients, and by which tensor it is if one is wrong."""
        taking = [(name, one) for name, one in case.named_tensors if one.takes_gradient]
        arrays = [*outcome.outputs, *(one.array() for one in case.tensors)]
        if not outcome.gradients or not all(map(is_finite, arrays)):
            return None, ""
        oracle = Oracle(
            case, self.framework, row.frameworks[self.framework].call(case), outcome.outputs
        )
        outputs = dict(enumerate(outcome.outputs))
        executed = Executed(
            outputs=outputs,
            arriving=arriving_at(outputs, case.seed),
            # Where one is infinite there is no derivative, as that of a root at 0.
            gradients=[
                None if one is None or np.isinf(one.astype(np.float64)).any() else one
                for one in outcome.gradients
            ],
        )
        found = {
            taking[place][0]: (one, is_right(row.least, (what, place), one, executed))
            for (what, place), one in oracle.measure(executed, {}).items()
        }
        wrong = [name for name, (_, is_fine) in found.items() if not is_fine]
        errors = [
            one.error
            for one, is_fine in found.values()
            if not is_fine or one.error <= LARGEST_ERROR
        ]
        return max(errors, default=None), next(iter(wrong), "")

    def errors(self, row: Row, value: int, array: Array) -> tuple[float | None, float] | None:
        """Return the errors of an output's elements, if they are recorded, and of other ones."""
        one = self.recorded.program.values[value]
        lowered = self.known.lowered
        if value not in lowered.terms or lowered.terms[value] in lowered.leaves:
            return None
        floor = floor_of(row.least, array)
        try:
            candidate = measure_output(replaced(self.known, value, array), one, floor)
            has_elements = self.recorded.has_elements(value)
            reference = measure_output(self.known, one, floor) if has_elements else None
        except ProgramError:
            return None
        if candidate is None:  # the operator hands its input on
            before = self.recorded.elements(value)
            if before is None:
                return None
            same = np.array_equal(before, array, equal_nan=before.dtype.kind in "fc")
            return 0.0, 0.0 if same else np.inf
        return (None if reference is None else reference.error), candidate.error


_OPERANDS = frozenset({"other"})
"""Arguments that are a tensor in Paddle, where torch takes a number, too."""
_HOW = frozenset({"inplace", "_stacklevel"})
"""Arguments that say how to compute, not what."""


def rows_by_name(table: Operators, framework: str) -> dict[str, Row]:
    """Return the row of each name of a framework: other spellings have the same lowering."""
    names = TABLES[framework].names
    by_rule: dict[int, Row] = {}
    exact: dict[str, Row] = {}
    for row in table.values():
        name = row.frameworks[framework].name
        exact.setdefault(name, row)
        if name in names:
            by_rule.setdefault(id(names[name]), row)
    found = {name: by_rule[id(one)] for name, one in names.items() if id(one) in by_rule}
    return {**found, **exact}


def case_of(
    operator: Operator,
    row: Row,
    framework: str,
    elements: Callable[[int], Array],
    *,
    takes_gradients: bool = False,
) -> Case | None:
    """Return the case that an operator is; None if the table does not cover its arguments.

    Args:
        operator: As recorded.
        row: Of the table.
        framework: That recorded it.
        elements: Returns those of a value by its id, in its dtype.
        takes_gradients: Whether those by its floats are asked for.
    """
    table = TABLES[framework]
    try:
        passed = table.passed(operator.name, operator.positional, operator.keywords)
        names = _names(row, table.aliases)
        arguments = {
            names.get(name, name): _argument(one, elements, takes_gradients)
            for name, one in passed.items()
            if name not in _HOW
        }
    except (NotLoweredError, TypeError):
        return None
    for name in _OPERANDS & arguments.keys():
        arguments[name] = _operand(arguments[name], arguments)
    return Case(operator=row.name, arguments=arguments)


def _operand(one: Argument, arguments: Mapping[str, Argument]) -> Argument:
    """Return a tensor without axes for a number, of the dtype that torch computes in."""
    if not isinstance(one, bool | int | float):
        return one
    dtype = next((each.dtype for each in arguments.values() if isinstance(each, Tensor)), "float32")
    if isinstance(one, float) and "float" not in dtype:
        dtype = "float32"
    array = np.array(one).astype(numpy_dtype(dtype))
    return HeldTensor(shape=(), dtype=dtype, held=array, takes_gradient=False)


def _names(row: Row, aliases: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the operator's own names of arguments that its lowering calls otherwise."""
    others = next(iter(list(row.frameworks.values())[1:])).names
    return {
        alias: name for name in others for alias in aliases.get(name, ()) if alias not in others
    }


def _argument(
    one: ProgramArgument, elements: Callable[[int], Array], takes_gradients: bool
) -> Argument:
    if isinstance(one, ValueRef):
        array = elements(one.id)
        name = array.dtype.name
        takes = takes_gradients and name.startswith(("float", "bfloat"))
        return HeldTensor(
            shape=array.shape, dtype=name, held=array, takes_gradient=takes, value=one.id
        )
    if isinstance(one, tuple):
        return tuple(_argument(each, elements, takes_gradients) for each in one)
    if one is None or isinstance(one, bool | int | float | str | Dtype):
        return one
    raise TypeError(f"no argument of a case: {type(one).__name__}")
