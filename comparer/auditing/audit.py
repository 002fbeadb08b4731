"""Audits the program of one step: every value and every gradient that can be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.sharding.across import audit_ranks
from padiff.dumpfile import CompareError, ConfigError, LeafKind, ProgramError, open_dump
from padiff.program import TABLES, on_one_thread, read_lowered

from .backward import Readers, measure_gradient
from .forward import Measured, measure_value
from .result import Audit, AuditedValue, Check, Reader, Reason, Soundness
from .sharing import Answers
from .slices import KnownProgram, carrying_gradients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from padiff.dumpfile import Dump, StepFile
    from padiff.program import Read, Value

_KEEPING = frozenset({
    "torch.nn.functional.batch_norm", "torch.nn.functional.instance_norm", "torch.batch_norm",
    "torch.instance_norm",
})  # fmt: skip
"""Operators that write running statistics beside their result."""
_UNWRITTEN = frozenset({
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
})  # fmt: skip
"""The last names of operators that make memory which nobody wrote."""


def audit(
    file: StepFile, answers: Answers[Measured] | None = None, read: Read = read_lowered
) -> Audit:
    """Audit one step and rank.

    Args:
        file: What was recorded of it.
        answers: What audits of other steps and dumps found, and where this one adds its own;
            None begins anew.
        read: How to read and lower the program; another may keep what it read.

    Raises:
        CompareError: No program was recorded, or no table knows the framework.
        ProgramError: The program contradicts itself.
        DumpFormatError: The dump is damaged.
    """
    if not file.did_run:
        raise CompareError(
            f"cannot audit {str(file.path)!r}: the model did not run",
            hint="record again without `--no-run`",
        )
    if file.has_program and file.framework not in TABLES:
        raise CompareError(
            f"cannot audit {str(file.path)!r}: expected a program of {' or '.join(TABLES)}, "
            f"found one of {file.framework!r}"
        )
    found = read(file)
    if found is None:
        raise CompareError(
            f"cannot audit {str(file.path)!r}: it holds no program",
            hint="record again without `--program none`",
        )
    known = KnownProgram(*found)
    program, lowered = known.program, known.lowered
    answers = Answers() if answers is None else answers
    values = (*_forward(known, answers), *_gradients(known, answers))
    judged = Counter(one.soundness for one in values)
    soundness = Soundness.SOUND if judged[Soundness.SOUND] else Soundness.NOT_AUDITED
    return Audit(
        soundness=Soundness.UNSOUND if judged[Soundness.UNSOUND] else soundness,
        operators=len(program.operators),
        opaque=dict(Counter(program.operators[one].name for one in lowered.opaque)),
        random=len(lowered.random),
        holes=known.holes,
        values=values,
    )


def audit_dump(
    path: Path | str, *, step: int | None = None, rank: int | None = None
) -> dict[str, Audit]:
    """Audit a dump, step by step and rank by rank, and what its ranks have in common.

    Args:
        path: Its directory.
        step: Only this step; None audits all.
        rank: Only this rank; None audits all.

    Returns:
        By the name of step and rank, in order.

    Raises:
        ConfigError: The dump has no such step or rank.
        CompareError: No program was recorded, or no table knows the framework.
        DumpError: The dump cannot be read.
    """
    dump = open_dump(path)
    chosen = [
        info
        for info in dump.manifest.files
        if step in (None, info.step) and rank in (None, info.rank)
    ]
    if not chosen:
        raise ConfigError(
            f"cannot audit {str(path)!r}: it has no step {step} rank {rank}",
            hint="see what there is with `padiff show`",
        )
    found = {}
    for info in chosen:
        with dump.open(info.step, info.rank) as file, on_one_thread():
            name = f"step {info.step}" + (f" rank {info.rank}" if info.rank else "")
            found[name] = audit(file)
    if rank is None and len({info.rank for info in dump.files}) > 1:
        names = zip(chosen, list(found), strict=True)
        firsts = {info.step: name for info, name in reversed(list(names))}
        found |= {name: _with_ranks(found[name], dump, at) for at, name in firsts.items()}
    return found


def _with_ranks(found: Audit, dump: Dump, step: int) -> Audit:
    """Add to the audit of a step's first rank what all of them show together."""
    try:
        faults = audit_ranks(dump, step)
    except CompareError as error:
        return replace(found, apart=error.message)
    if not faults:
        return found
    return replace(found, between_ranks=faults, soundness=Soundness.UNSOUND)


def _forward(known: KnownProgram, answers: Answers[Measured]) -> Iterator[AuditedValue]:
    """Audit what operators made, in their order."""
    sources = set(known.lowered.leaves.values())
    made = (one for one in known.program.operators if one.name.rpartition(".")[2] in _UNWRITTEN)
    unwritten = {value for one in made for value in one.outputs}
    for value in known.program.values:
        if value.kind is not None or value.id not in known.lowered.terms:
            continue
        if value.id in unwritten:
            continue
        if _is_kept(known, value):
            yield _answer(known, value, Check.FORWARD, None, Reason.KEPT)
        elif value.id in sources:
            yield _answer(known, value, Check.FORWARD, None, Reason.OPAQUE)
        elif not known.recorded.has_elements(value.id):
            yield _answer(known, value, Check.FORWARD, None, Reason.NO_ELEMENTS)
        else:
            found = _tried(
                known, value, Check.FORWARD, lambda one: measure_value(known, one, answers)
            )
            if found is None:
                continue
            if found.soundness is Soundness.UNSOUND and _holds_unwritten(known, value, unwritten):
                continue
            yield found


def _is_kept(known: KnownProgram, value: Value) -> bool:
    """Return whether a value is a running statistic that a norm wrote beside its result."""
    operator = known.producer(value)
    return operator is not None and value.slot > 0 and operator.name in _KEEPING


def _holds_unwritten(known: KnownProgram, value: Value, unwritten: set[int]) -> bool:
    """Return whether what stood in memory is left in a value that was written in parts."""
    part = known.part_behind(value.id)
    made = {term for node in part.nodes for term in node.outputs}
    terms = [known.lowered.terms[one] for one in sorted(unwritten) if one in known.lowered.terms]
    for term in terms:
        if term in made:
            shape = known.lowered.specs[term].shape
            one, two = (known.compute_behind(part, term, np.full(shape, way)) for way in (0, 1))
            if not np.array_equal(one, two, equal_nan=True):
                return True
    return False


def _gradients(known: KnownProgram, answers: Answers[Measured]) -> Iterator[AuditedValue]:
    """Audit gradients, in the order in which their values were made."""
    readers = Readers(known)
    holes = [*_holes_with_gradients(known)]
    for value in known.program.values:
        if holes and value.id < holes[-1]:
            continue  # what the hole was computed from is not known: it may be this value
        if value.id in known.lowered.terms and known.has_gradient(value.id):
            found = _tried(
                known,
                value,
                Check.GRADIENT,
                lambda one: measure_gradient(known, readers, one, answers),
            )
            may_lack = value.id in known.summed  # what was cleared on the way
            if found is not None and (not may_lack or found.soundness is Soundness.SOUND):
                yield found


def _holes_with_gradients(known: KnownProgram) -> Iterator[int]:
    """Yield the values from nowhere through which gradients flow, by id.

    One got a gradient, or is inside a function with a backward pass of its own. A table that is
    kept as a plain attribute hands none on.
    """
    operators, carrying = known.program.operators, carrying_gradients(known.recorded)
    inside = {value for one in operators if one.id in carrying for value in one.taken}
    for one in known.program.values:
        is_open = one.id in inside or known.recorded.got_gradient(one.id)
        if one.kind is LeafKind.HOLE and is_open:
            yield one.id


def _tried(
    known: KnownProgram,
    value: Value,
    check: Check,
    measure: Callable[[Value], Measured | None],
) -> AuditedValue | None:
    """Measure one value; what cannot be executed is an answer, too."""
    try:
        measured = measure(value)
    except ProgramError:
        return _answer(known, value, check, None, Reason.FAILED)
    if measured is None:
        return None
    is_open = measured.reason in {Reason.TIED, Reason.DRAWN}
    return _answer(known, value, check, None if is_open else measured, measured.reason)


def _answer(
    known: KnownProgram, value: Value, check: Check, measured: Measured | None, reason: Reason
) -> AuditedValue:
    operator = known.producer(value)
    path, class_name = ("", "") if operator is None else known.recorded.module_of(operator)
    if operator is None and value.kind is LeafKind.PARAMETER:
        path = value.name.rpartition(".")[0]
    soundness = Soundness.NOT_AUDITED
    if measured is not None:
        soundness = Soundness.SOUND if measured.is_sound else Soundness.UNSOUND
    return AuditedValue(
        check=check,
        soundness=soundness,
        value=value.id,
        operator=value.name if operator is None else operator.name,
        operators=0 if measured is None else measured.operators,
        module=path,
        class_name=class_name,
        site=None if operator is None else operator.site,
        dtype=value.dtype,
        shape=value.shape,
        error=None if measured is None else measured.error,
        largest=None if measured is None else measured.largest,
        reason=reason,
        factor=None if measured is None else measured.factor,
        readers=_readers(known, value) if check is Check.GRADIENT else (),
    )


def _readers(known: KnownProgram, value: Value) -> tuple[Reader, ...]:
    """Return the operators of the forward pass that read a value, in their order."""
    return tuple(
        Reader(operator=one.name, module=known.recorded.module_of(one)[0], site=one.site)
        for one in known.readers.get(value.id, ())
    )
