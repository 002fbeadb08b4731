"""Builds tiny dumps for tests: in memory, as a ``Side`` for pairing, or on disk.

>>> built = (
...     DumpBuilder()
...     .module("", "Net")
...     .module("fc", "Linear", attributes={"in_features": 2})
...     .tensor("fc", "weight", np.eye(2, dtype=np.float32))
...     .enter("", inputs=[np.ones(2, np.float32)])
...     .call("fc", inputs=[np.ones(2, np.float32)], outputs=[np.ones(2, np.float32)])
...     .leave(outputs=[np.ones(2, np.float32)])
... )
>>> len(built.side().index.records), len(built.side().index.values)
(5, 2)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import (
    CALL_ROLES,
    JSON,
    CallInfo,
    DumpWriter,
    Index,
    Keep,
    Manifest,
    ModuleInfo,
    Phase,
    RecordInfo,
    Role,
    SourceLine,
    ValueInfo,
    digest_of,
    dtype_name,
    statistics_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from padiff.dumpfile import ProgramBuilder, StepWriter

Array = npt.NDArray[Any]

GRADIENT_ROLES = frozenset({Role.GRAD_INPUT, Role.GRAD_OUTPUT, Role.WEIGHT_GRAD})


def manifest(**changes: Any) -> Manifest:  # noqa: ANN401
    """Make a manifest of plausible content, with the given fields changed."""
    made = Manifest(
        name="net",
        framework="torch",
        framework_version="2.13.0",
        padiff_version="0.1.0",
        created="2026-01-31T12:00:00Z",
        files=(),
        model="net.py:build",
        model_class="net.Net",
        dtype="float32",
        seed=0,
    )
    return replace(made, **changes)


@dataclass(frozen=True, kw_only=True)
class MemorySide:
    """A ``padiff.pairing.side.Side`` without a file."""

    framework: str
    index: Index
    arrays: tuple[Array, ...]
    """One for each value, in one dimension."""

    def array(self, record: RecordInfo) -> Array:
        """Give a record's elements in its shape, read-only."""
        assert record.value is not None
        shaped = self.arrays[record.value].reshape(record.shape)
        shaped.flags.writeable = False
        return shaped


@dataclass
class DumpBuilder:
    """Collects modules, calls and records of one step, and turns them into a dump.

    All methods but the last two return the builder. Module ids, parents, call numbers and
    execution orders follow from the order of the calls to it.
    """

    framework: str = "torch"
    step: int = 0
    rank: int = 0
    modules: list[ModuleInfo] = field(default_factory=list)
    calls: list[CallInfo] = field(default_factory=list)
    records: list[tuple[RecordInfo, Array | None]] = field(default_factory=list)
    order: int = 0
    program: Callable[[StepWriter], ProgramBuilder] | None = None
    """Makes the program, in which it may store elements."""
    _open_calls: list[int] = field(default_factory=list)

    def module(  # noqa: PLR0913
        self,
        path: str,
        class_name: str,
        *,
        class_path: str | None = None,
        bases: Sequence[str] = (),
        aliases: Sequence[str] = (),
        attributes: Mapping[str, JSON] | None = None,
        training: bool = False,
        source: SourceLine | None = None,
    ) -> Self:
        """Add a module; its parent is the nearest one above it by path."""
        self.modules.append(
            ModuleInfo(
                id=len(self.modules),
                path=path,
                class_name=class_name,
                class_path=class_path or f"{self.framework}.nn.{class_name}",
                bases=tuple(bases),
                parent=self._parent_of(path),
                aliases=tuple(aliases),
                training=training,
                attributes=attributes or {},
                source=source,
            )
        )
        return self

    def enter(
        self,
        path: str,
        *,
        inputs: Sequence[Array] | Mapping[str, Array] = (),
        site: SourceLine | None = None,
        literals: Mapping[str, JSON] | None = None,
        containers: Mapping[str, str] | None = None,
    ) -> Self:
        """Begin a call, inside the one that is open.

        Args:
            path: Module path.
            inputs: Positional ones, or by slot (``{"['mask']": mask}``).
            site: Call site.
            literals: Arguments that are no tensors.
            containers: Classes of containers.
        """
        module = self._module_id(path)
        self.calls.append(
            CallInfo(
                id=len(self.calls),
                module=module,
                index=sum(call.module == module for call in self.calls),
                parent=self._open_calls[-1] if self._open_calls else None,
                start=self._tick(),
                end=None,
                training=self.modules[module].training,
                site=site,
                literals=literals or {},
                containers=containers or {},
            )
        )
        call = self.calls[-1]
        self._open_calls.append(call.id)
        for slot, array in _slots(inputs, bare=False):
            self._add(module, call.id, Role.INPUT, slot, array, order=call.start)
        return self

    def leave(self, *, outputs: Sequence[Array] | Mapping[str, Array] = ()) -> Self:
        """End the call that was begun last; a single output has the slot ``""``."""
        call = replace(self.calls[self._open_calls.pop()], end=self._tick())
        self.calls[call.id] = call
        for slot, array in _slots(outputs, bare=True):
            self._add(call.module, call.id, Role.OUTPUT, slot, array, order=call.end)
        return self

    def call(
        self,
        path: str,
        *,
        inputs: Sequence[Array] | Mapping[str, Array] = (),
        outputs: Sequence[Array] | Mapping[str, Array] = (),
        site: SourceLine | None = None,
    ) -> Self:
        """Add a call that has no calls inside."""
        return self.enter(path, inputs=inputs, site=site).leave(outputs=outputs)

    def tensor(
        self,
        path: str,
        name: str,
        array: Array,
        *,
        role: Role = Role.WEIGHT,
        tensor: int | None = None,
        requires_grad: bool = True,
    ) -> Self:
        """Add a weight or a buffer of a module."""
        number = sum(record.tensor is not None for record, _ in self.records)
        return self._add(
            self._module_id(path),
            None,
            role,
            f".{name}",
            array,
            order=self._tick(),
            requires_grad=requires_grad and role is Role.WEIGHT,
            tensor=number if tensor is None else tensor,
        )

    def record(
        self,
        path: str,
        role: Role,
        array: Array | None,
        *,
        slot: str = "",
        call: int = 0,
        phase: Phase | None = None,
    ) -> Self:
        """Add any record at the next execution order.

        Args:
            path: Module path.
            role: Role.
            array: Elements, None for a gradient that does not exist.
            slot: Slot.
            call: Number of the call among those of its module; only for roles of calls.
            phase: Phase; by default ``backward`` for gradients, else ``forward``.
        """
        module = self._module_id(path)
        calls = [made.id for made in self.calls if made.module == module]
        call_id = calls[call] if role in CALL_ROLES else None
        return self._add(module, call_id, role, slot, array, order=self._tick(), phase=phase)

    def side(self) -> MemorySide:
        """Give the dump as a side for pairing."""
        values: list[ValueInfo] = []
        arrays: list[Array] = []
        known: dict[str, int] = {}
        records: list[RecordInfo] = []
        for record, array in self.records:
            if array is None:
                records.append(record)
                continue
            digest = digest_of(array)
            if digest not in known:
                known[digest] = len(values)
                arrays.append(np.ascontiguousarray(array).reshape(-1))
                values.append(_value(len(values), digest, array))
            records.append(replace(record, value=known[digest]))
        return MemorySide(
            framework=self.framework,
            index=Index(
                step=self.step,
                rank=self.rank,
                modules=tuple(self.modules),
                calls=tuple(self.calls),
                records=tuple(records),
                values=tuple(values),
            ),
            arrays=tuple(arrays),
        )

    def write(self, directory: Path, *, content: Keep | None = None, **changes: Any) -> Path:  # noqa: ANN401
        """Write the dump to a directory, replacing one that is there.

        Args:
            directory: Where.
            content: How much of each value; None writes all.
            changes: Fields of the manifest.
        """
        return write_dump(directory, self, content=content, **changes)

    def _add(  # noqa: PLR0913
        self,
        module: int,
        call: int | None,
        role: Role,
        slot: str,
        array: Array | None,
        *,
        order: int | None,
        phase: Phase | None = None,
        requires_grad: bool = False,
        tensor: int | None = None,
    ) -> Self:
        assert order is not None
        usual = Phase.BACKWARD if role in GRADIENT_ROLES else Phase.FORWARD
        record = RecordInfo(
            id=len(self.records),
            module=module,
            call=call,
            phase=phase or usual,
            role=role,
            slot=slot,
            order=order,
            shape=() if array is None else array.shape,
            value=None,
            requires_grad=requires_grad,
            tensor=tensor,
        )
        self.records.append((record, array))
        return self

    def _tick(self) -> int:
        self.order += 1
        return self.order - 1

    def _module_id(self, path: str) -> int:
        return next(module.id for module in self.modules if module.path == path)

    def _parent_of(self, path: str) -> int | None:
        while path:
            path = path.rpartition(".")[0]
            for module in self.modules:
                if module.path == path:
                    return module.id
        return None


def write_dump(
    directory: Path,
    *steps: DumpBuilder,
    content: Keep | None = None,
    **changes: Any,  # noqa: ANN401
) -> Path:
    """Write a dump of several steps or ranks, replacing one that is there.

    Args:
        directory: Where.
        steps: One builder for each file.
        content: How much of each value; None writes all.
        changes: Fields of the manifest.
    """
    with DumpWriter(directory, overwrite=True, content=content or Keep()) as writer:
        for built in steps:
            add_step(writer, built)
        fields = {"name": directory.name, "framework": steps[0].framework} | changes
        return writer.commit(manifest(**fields))


def add_step(writer: DumpWriter, built: DumpBuilder) -> None:
    """Write one whole step or rank of a dump."""
    with writer.step(built.step, built.rank) as step:
        step.add_modules(built.modules)
        for call in built.calls:
            step.add_call(call)
        for record, array in built.records:
            step.add_record(
                module=record.module,
                call=record.call,
                phase=record.phase,
                role=record.role,
                slot=record.slot,
                order=record.order,
                shape=record.shape,
                value=None if array is None else step.store(array),
                requires_grad=record.requires_grad,
                tensor=record.tensor,
                layout=record.layout,
            )
        if built.program is not None:
            step.add_program(built.program(step))


def _slots(arrays: Sequence[Array] | Mapping[str, Array], *, bare: bool) -> list[tuple[str, Array]]:
    if hasattr(arrays, "items"):
        return list(arrays.items())
    if bare and len(arrays) == 1:
        return [("", arrays[0])]
    return [(f"[{position}]", array) for position, array in enumerate(arrays)]


def _value(number: int, digest: str, array: Array) -> ValueInfo:
    return ValueInfo(
        id=number,
        digest=digest,
        dtype=dtype_name(array.dtype),
        size=array.size,
        statistics=statistics_of(array),
        dataset="/values/memory" if array.size else None,
    )
