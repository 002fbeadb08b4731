"""One step of all ranks, read like that of one: whole tensors, made when they are asked for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from padiff.comparer.result import LogicalSide
from padiff.dumpfile import (
    Content,
    DumpFormatError,
    Index,
    Phase,
    RecordInfo,
    Role,
    ValueInfo,
    digest_of,
    numpy_dtype,
    statistics_of,
)
from padiff.pairing import SideName

from .assembling import REPLICATE, assembled, coordinates
from .knownlayout import Unknown
from .terms import terms_used

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from padiff.dumpfile import Mesh, StepFile, StepReader

    from .joining import JoinedRecord, JoinedStep
    from .knownlayout import KnownLayout
    from .layouts import Layouts

Array = npt.NDArray[Any]

GRADIENT_NORM = "['gradient_norm']"
"""Slot under which the norm of all gradients is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """Elements that one rank has all of."""

    rank: int
    value: ValueInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """Elements of which each rank has a part."""

    record: JoinedRecord
    known: KnownLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class _Computed:
    """Elements that follow from others."""

    array: Array


_Source = _Stored | _Spread | _Computed


class LogicalStep:
    """Several ranks of one step as one. What is whole on one of them is read from its file."""

    def __init__(self, files: Mapping[int, StepFile], step: JoinedStep, layouts: Layouts) -> None:
        """Put the whole tensors into an index; those of several parts are read for it once.

        Args:
            files: Of the ranks, in order; closed with this.
            step: What they recorded.
            layouts: How it lies.

        Raises:
            DumpFormatError: Elements cannot be read.
        """
        self._files = {rank: files[rank % step.span] for rank in step.indexes}
        self.ranks = tuple(files)
        """Those that it is made of."""
        self.span = step.span
        self._joined = step
        self._first = next(iter(files.values()))
        self.layouts = layouts
        self._sources: list[_Source] = []
        self._values: list[ValueInfo] = []
        self._numbers: dict[tuple[str, int], int] = {}
        """Of values, by digest and size."""
        self.joined: dict[int, JoinedRecord] = {}
        """By record id."""
        self._index = self._joined_index()

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the files of all ranks."""
        self.close()

    def close(self) -> None:
        """Close the files of all ranks."""
        for file in self._files.values():
            file.close()

    @property
    def path(self) -> Path:
        """Return the folder of the step."""
        return self._first.path.parent

    @property
    def framework(self) -> str:
        """Name the framework that recorded it."""
        return self._first.framework

    @property
    def unsaved(self) -> frozenset[str]:
        """Return full names of buffers that the framework does not save with weights."""
        return self._first.unsaved

    @property
    def has_program(self) -> bool:
        """Whether the program of the whole was recorded: each rank has that of its own part."""
        return False

    @property
    def index(self) -> Index:
        """Return all modules, calls, records and values."""
        return self._index

    def layout_of(self, record: int) -> KnownLayout | None:
        """Return how a record lies over the ranks; None if that is not known."""
        joint = self.joined.get(record)
        return None if joint is None else self.layouts.found.get(joint.key)

    def unknown_of(self, record: int) -> Unknown | None:
        """Return why it is not known how a record lies; None if it is."""
        joint = self.joined.get(record)
        return None if joint is None else self.layouts.unknown.get(joint.key)

    def terms_used_in(self, module: str) -> tuple[str, ...]:
        """Return where a module's own code takes terms of a sum for the sum, as programs tell."""
        lines = (
            line
            for rank in self.ranks
            for place, line in terms_used(self._files[rank])
            if place == module
        )
        return tuple(dict.fromkeys(lines))

    def parts_of(self, record: int) -> dict[int, Array]:
        """Read what each rank has of a record; empty where elements were not recorded.

        Raises:
            DumpFormatError: Elements cannot be read.
        """
        parts = self.joined[record].parts if record in self.joined else {}
        if not all(map(self._has_elements, parts, parts.values())):
            return {}
        return {rank: self._files[rank].array(part) for rank, part in parts.items()}

    def values_of(self, record: int) -> dict[int, ValueInfo]:
        """Return what the file of each rank says of a record's elements."""
        parts = self.joined[record].parts if record in self.joined else {}
        return {
            rank: self._joined.indexes[rank].values[part.value]
            for rank, part in parts.items()
            if part.value is not None
        }

    def array(self, record: RecordInfo) -> Array:
        """Return a record's elements in its own shape and dtype.

        Raises:
            DumpFormatError: The elements are not in a file, damaged, or cannot be read.
        """
        if record.value is None:
            raise DumpFormatError(
                f"cannot read {self.index.address(record)}: the framework had None there"
            )
        return self.value_array(self._values[record.value]).reshape(record.shape)

    def value_array(self, value: ValueInfo) -> Array:
        """Return a value's elements in one dimension.

        Raises:
            DumpFormatError: The elements are not in a file, damaged, or cannot be read.
        """
        source = self._sources[value.id]
        if isinstance(source, _Stored):
            return self._files[source.rank].value_array(source.value)
        if isinstance(source, _Computed):
            return source.array
        return self._assembled(source).reshape(-1)

    def rows(self, values: Sequence[ValueInfo]) -> Array:
        """Return the elements of values of one dtype and size as rows of a matrix.

        Raises:
            DumpFormatError: Elements are not in a file, damaged, or cannot be read.
        """
        return np.stack([self.value_array(one) for one in values])

    def sample(self, value: ValueInfo) -> tuple[npt.NDArray[np.int64], Array]:
        """Return positions and elements of a sampled value.

        Raises:
            DumpFormatError: The value is not sampled, or its elements cannot be read.
        """
        source = self._sources[value.id]
        if not isinstance(source, _Stored):
            raise DumpFormatError(f"cannot read a sample of value {value.id}: it has none")
        return self._files[source.rank].sample(source.value)

    def fetch(self, values: Iterable[ValueInfo], *, is_plan: bool = False) -> None:
        """See that the elements of values are at hand before they are read.

        Raises:
            DumpError: They cannot be had.
        """
        wanted: dict[int, list[ValueInfo]] = {}
        for value in values:
            source = self._sources[value.id]
            if isinstance(source, _Stored):
                wanted.setdefault(source.rank, []).append(source.value)
            elif isinstance(source, _Spread):
                for rank, part in source.record.parts.items():
                    if part.value is not None:
                        own = self._joined.indexes[rank].values[part.value]
                        wanted.setdefault(rank, []).append(own)
        for rank, own_values in wanted.items():
            self._files[rank].fetch(own_values, is_plan=is_plan)

    def release_pages(self) -> None:
        """Let the system take back the memory of all that was read; arrays stay valid."""
        for file in self._files.values():
            file.release_pages()

    def _has_elements(self, rank: int, part: RecordInfo) -> bool:
        values = self._joined.indexes[rank].values
        return part.value is not None and values[part.value].content is Content.FULL

    def _joined_index(self) -> Index:
        modules = {one.path: one.id for one in self._joined.modules}
        calls = {(call.module, call.index): call.id for call in self._joined.calls}
        tensors: dict[tuple[int, int], int] = {}
        records = []
        for number, joint in enumerate(self._joined.records):
            self.joined[number] = joint
            rank, first = next(iter(joint.parts.items()))
            value, shape = self._value_of(joint)
            module, tensor = modules[joint.key.module], None
            if first.tensor is not None:
                tensor = tensors.setdefault((rank, first.tensor), len(tensors))
            records.append(
                replace(
                    first,
                    id=number,
                    module=module,
                    call=None if joint.key.call is None else calls[module, joint.key.call],
                    order=joint.order,
                    shape=shape,
                    value=value,
                    tensor=tensor,
                    layout=None,
                )
            )
            self.release_pages()
        self._add_norm(records)
        return Index(
            step=self._joined.step,
            rank=0,
            modules=self._joined.modules,
            calls=self._joined.calls,
            records=tuple(records),
            values=tuple(self._values),
            draws=self._joined.draws,
        )

    def _add_norm(self, records: list[RecordInfo]) -> None:
        """Add the norm of all gradients, where no rank has it: each knows that of its own part.

        Not where layouts of gradients are not known.
        """
        told = [
            record
            for record in records
            if (record.role, record.slot) == (Role.NAMED, GRADIENT_NORM)
        ]
        grads = [
            record
            for record in records
            if record.role is Role.WEIGHT_GRAD
            and record.phase is Phase.BACKWARD
            and record.value is not None
        ]
        is_updated = any(record.phase is Phase.UPDATE for record in records)
        if not (grads and is_updated) or any(self.layout_of(one.id) is None for one in grads):
            return
        if any(self.layout_of(record.id) is not None for record in told):
            return
        squares = [(self._values[record.value or 0].statistics.l2 or 0.0) ** 2 for record in grads]
        array = np.array([math.sqrt(math.fsum(squares))])
        value = ValueInfo(
            id=0,
            digest=digest_of(array),
            dtype="float64",
            size=1,
            statistics=statistics_of(array),
        )
        number = self._number(_Computed(array=array), value)
        if told:  # each rank has its own
            joint = self.joined.pop(told[0].id)
            del self.layouts.unknown[joint.key]
            records[told[0].id] = replace(told[0], value=number)
            return
        made = RecordInfo(
            id=len(records),
            module=0,
            call=None,
            phase=Phase.UPDATE,
            role=Role.NAMED,
            slot=GRADIENT_NORM,
            order=records[-1].order,
            shape=(),
            value=number,
        )
        records.append(made)

    def _value_of(self, joint: JoinedRecord) -> tuple[int | None, tuple[int, ...]]:
        """Return the number of a record's value, and the shape of the whole."""
        rank, part = next(iter(joint.parts.items()))
        if part.value is None:
            return None, part.shape
        known = self.layouts.found.get(joint.key)
        stored = _Stored(rank=rank, value=self._joined.indexes[rank].values[part.value])
        if known is None:
            return self._number(stored, stored.value), part.shape
        if known.divisor == 1 and set(known.layout.placements) == {REPLICATE}:
            rank = next(coordinates(known.layout))[0]
            number = joint.parts[rank].value or 0
            stored = _Stored(rank=rank, value=self._joined.indexes[rank].values[number])
            return self._number(stored, stored.value), known.layout.shape
        if not all(map(self._has_elements, joint.parts, joint.parts.values())):
            del self.layouts.found[joint.key]
            self.layouts.unknown[joint.key] = Unknown.ELEMENTS
            return self._number(stored, stored.value), part.shape
        spread = _Spread(record=joint, known=known)
        whole = self._assembled(spread)
        told = ValueInfo(
            id=0,
            digest=digest_of(whole),
            dtype=stored.value.dtype,
            size=whole.size,
            statistics=statistics_of(whole),
        )
        return self._number(spread, told), known.layout.shape

    def _number(self, source: _Source, value: ValueInfo) -> int:
        """Enter a value, once for each content."""
        key = value.digest, value.size
        if key not in self._numbers:
            self._numbers[key] = len(self._values)
            self._sources.append(source)
            self._values.append(replace(value, id=len(self._values)))
        return self._numbers[key]

    def _assembled(self, source: _Spread) -> Array:
        parts = source.record.parts
        rank, first = next(iter(parts.items()))
        dtype = self._joined.indexes[rank].values[first.value or 0].dtype
        whole = assembled(
            source.known.layout,
            lambda rank: self._files[rank].array(parts[rank]),
            numpy_dtype(dtype),
            divisor=source.known.divisor,
        )
        whole.flags.writeable = False
        return whole


def logical_sides(reference: StepReader, candidate: StepReader) -> Iterator[LogicalSide]:
    """Yield what is to be said of the sides whose ranks are taken together."""
    for name, side in zip(SideName, (reference, candidate), strict=True):
        if not isinstance(side, LogicalStep):
            continue
        found, unknown = side.layouts.found, side.layouts.unknown
        meshes = {known.layout.mesh for known in found.values() if len(known.layout.mesh.ranks) > 1}
        grids = sorted(meshes, key=lambda mesh: (-len(mesh.ranks), -len(mesh.dims), mesh.dims))
        yield LogicalSide(
            side=name,
            ranks=side.ranks,
            meshes=tuple(dict.fromkeys(map(_worded, grids))),
            layouts=dict(
                Counter(str(known.told) for key, known in found.items() if key not in unknown)
            ),
            unknown=dict(Counter(map(str, unknown.values()))),
        )


def _worded(mesh: Mesh) -> str:
    return " x ".join(f"{dim} {size}" for dim, size in zip(mesh.dims, mesh.sizes, strict=True))
