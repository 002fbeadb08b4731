"""What one sharded dump shows without a reference: replicas that differ, terms used as wholes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from padiff.comparer.judging.basis import Bases
from padiff.comparer.judging.metrics import measure
from padiff.comparer.judging.tolerance import TolerancePolicy
from padiff.dumpfile import Content

from .knownlayout import Turn, named
from .sides import layouts_of, open_ranks
from .terms import terms_used
from .verdicts import apart_by_digest, replicas_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.comparer.result import Tolerance
    from padiff.dumpfile import Dump, RecordInfo, StepFile

    from .layouts import Layouts


def audit_ranks(dump: Dump, step: int) -> tuple[str, ...]:
    """Return what the ranks of a step show together, one line each, in the order of execution.

    Raises:
        CompareError: Ranks are missing, or layouts contradict shapes.
        DumpFormatError: Elements cannot be read.
    """
    with ExitStack() as exits:
        files = open_ranks(dump, step, exits)
        layouts = layouts_of(dump, files)
        for turn in Turn:
            layouts.find(lambda _: None, turn, is_final=True)
        used = (line for file in files.values() for _, line in terms_used(file))
        return tuple(dict.fromkeys((*_differing(layouts, files), *used)))


def _differing(layouts: Layouts, files: Mapping[int, StepFile]) -> Iterator[str]:
    """Yield the records whose replicas are apart by more than rounding does."""
    for record in layouts.step.records:
        known = layouts.found.get(record.key)
        if known is None or not known.differing or record.key in layouts.unknown:
            continue
        if not all(_has_elements(files[rank], part) for rank, part in record.parts.items()):
            values = {
                rank: files[rank].index.values[part.value]
                for rank, part in record.parts.items()
                if part.value is not None
            }
            first = next(iter(record.parts))
            tolerance = _tolerance(files[first], record.parts[first])
            apart = apart_by_digest(known, values, record.key.role, tolerance)
            if apart:
                yield f"{named(record)}: {apart} (expected R: {known.told})"
            continue
        parts = {rank: files[rank].array(part) for rank, part in record.parts.items()}
        (first, base), *others = replicas_of(known, parts).items()
        tolerance = _tolerance(files[first], record.parts[first])
        for rank, whole in others:
            found = measure(base, whole, tolerance)
            if found.mismatched:
                dims = " ".join(known.differing)
                yield (
                    f"{named(record)}: replicas over {dims} differ: rank {rank} from rank {first} "
                    f"by {found.max_abs or 0.0:.2g} (expected R: {known.told})"
                )
                break


def _has_elements(file: StepFile, part: RecordInfo) -> bool:
    return part.value is not None and file.index.values[part.value].content is Content.FULL


def _tolerance(file: StepFile, record: RecordInfo) -> Tolerance:
    """Return what two runs of one record would be judged by."""
    address = file.index.address(record)
    (basis,) = Bases(file.index, file.index, None).of([(record,)], [record])
    return TolerancePolicy().choose(address, address, basis)
