"""What two programs have to agree in: what the models give, and losses.

Numbers, arrays and text that a model gives are no values of its program. Where it read them from a
value, that value has to agree; what is left are facts, which have to be equal, or to agree within
the rounding of the model's dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from padiff.dumpfile import Content, LeafKind, Phase, Role, numpy_dtype
from padiff.program import UNIT_ROUNDOFF

from .executed import ROUNDINGS, Sink
from .result import LeafDifference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing import Pairing, RecordPair
    from padiff.program import Argument
    from padiff.program.primitives import Array

    from .side import Side

READ = "->"
"""The keyword of what an operator read from a value, such as ``item``."""


_Read: TypeAlias = "tuple[int, Array | None]"
"""The id of a value, and the numbers that were read from it where they were recorded."""


@dataclass(frozen=True, slots=True)
class Results:
    """The paired results of two models."""

    sinks: list[Sink] = field(default_factory=list)
    """Those that are values of both programs."""
    facts: list[RecordPair] = field(default_factory=list)
    """Those that are not."""

    def rounded(self, candidate: Side) -> int:
        """Count the facts that have rounded elements, so that only a tolerance can judge them."""
        index = candidate.file.index
        rows = [index.records[pair.candidate].value for pair in self.facts]
        dtypes = [index.values[row].dtype for row in rows if row is not None]
        return sum(numpy_dtype(one).kind not in "biu" for one in dtypes)

    def differences(self, reference: Side, candidate: Side) -> list[LeafDifference]:
        """Return the facts that differ.

        Raises:
            DumpFormatError: Elements are damaged.
        """
        unit = max(_unit(reference), _unit(candidate))
        found = []
        for pair in self.facts:
            known, new = _array(reference, pair.reference[0]), _array(candidate, pair.candidate)
            if known is not None and new is not None:
                off, largest = _compare(known, new, unit)
                if off:
                    name = candidate.file.index.records[pair.candidate].slot.lstrip(".")
                    found.append(
                        LeafDifference(
                            reference=name, candidate=name, kind="result",
                            elements=off, of=max(known.size, new.size), largest=largest,
                        )
                    )  # fmt: skip
        return found


def pair_results(pairing: Pairing, reference: Side, candidate: Side) -> Results:
    """Pair what the roots give, and losses."""
    results = Results()
    records = candidate.file.index.records
    reads = _reads(reference), _reads(candidate)
    for pair in pairing.records:
        info = records[pair.candidate]
        is_root = info.role is Role.OUTPUT and info.call is not None and not info.module
        is_given = is_root or info.role in (Role.LOSS, Role.RESULT)
        if not is_given or pair.candidate_rule.steps or len(pair.reference) != 1:
            continue
        known = _value(reference, pair.reference[0], reads[0])
        found = _value(candidate, pair.candidate, reads[1])
        if known is not None and found is not None:
            results.sinks.append(Sink(known, found, pair.rule, is_loss=info.role is Role.LOSS))
        elif info.role is Role.RESULT and not pair.rule.steps:
            results.facts.append(pair)
    return results


def _value(side: Side, record: int, reads: Sequence[_Read]) -> int | None:
    """Return the value of the program that a record holds, None where it is not one."""
    value = side.recorded.borders.get(record)
    if value is not None or side.file.index.records[record].role not in (Role.RESULT, Role.LOSS):
        return value
    array = _array(side, record)
    if array is None or array.dtype.kind != "f":
        return None  # small whole numbers are equal by chance
    row = side.file.index.records[record].value
    found = {
        one
        for one, read in reads
        if side.recorded.row(one) == row
        or (read is not None and np.array_equal(read, array, equal_nan=True))
    }
    return found.pop() if len(found) == 1 else None


def _reads(side: Side) -> list[_Read]:
    """Return the values that numbers were read from."""
    found = []
    for operator in side.program.operators:
        if READ not in operator.keywords or len(operator.taken) != 1:
            continue
        read = operator.keywords[READ]
        numbers = np.asarray(read) if _is_plain(read) else None
        if operator.phase is not Phase.UPDATE:
            found.append((operator.taken[0], numbers))
    return found


def _is_plain(thing: Argument) -> bool:
    """Return whether an argument is made of floats alone."""
    return all(map(_is_plain, thing)) if isinstance(thing, tuple) else isinstance(thing, float)


def _array(side: Side, record: int) -> Array | None:
    """Return the recorded elements, None where the dump lacks them."""
    info = side.file.index.records[record]
    row = None if info.value is None else side.file.index.values[info.value]
    if row is None or row.content is not Content.FULL:
        return None
    return side.file.value_array(row).reshape(info.shape)


def _unit(side: Side) -> float:
    """Return the unit roundoff of the coarsest weights, and at least that of float32."""
    kinds = {one.dtype for one in side.program.values if one.kind is LeafKind.PARAMETER}
    return max(UNIT_ROUNDOFF.get(kind, 0.0) for kind in {*kinds, "float32"})


def _compare(known: Array, found: Array, unit: float) -> tuple[int, float]:
    """Return how many elements are off, and by how much of the reference's size at most."""
    if known.shape != found.shape:
        return max(known.size, found.size), float("inf")
    wide = [one.astype(complex) if one.dtype.kind == "c" else one for one in (known, found)]
    if not all(one.dtype.kind in "fc" for one in wide):
        off = known != found
        return int(np.count_nonzero(off)), float(np.max(off, initial=0.0))
    with np.errstate(all="ignore"):
        is_alike = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
        gap = np.where(is_alike, 0.0, np.abs(wide[0] - wide[1]))
        size = float(np.sqrt(np.mean(np.square(np.abs(wide[0]))))) if known.size else 0.0
        off = ~(gap <= ROUNDINGS * unit * size)
    return int(np.count_nonzero(off)), float(np.max(gap, initial=0.0)) / (size or 1.0)
