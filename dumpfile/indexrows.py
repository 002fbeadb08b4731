"""Rows of an index: from objects to cells, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .address import Phase, Role
from .schema import (
    CallInfo,
    Content,
    Index,
    ModuleInfo,
    RecordInfo,
    Sample,
    SourceLine,
    Statistics,
    ValueInfo,
)
from .strictjson import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .indextables import Row, Table


def _line_cell(line: SourceLine | None) -> Row | None:
    return None if line is None else [line.file, line.line, line.function]


def module_row(module: ModuleInfo) -> Row:
    """Give the cells of a module, in the order of its columns."""
    return (
        module.path,
        module.class_name,
        module.class_path,
        module.bases,
        module.parent,
        module.aliases,
        module.training,
        plain(dict(module.attributes)),
        _line_cell(module.source),
    )


def call_row(call: CallInfo) -> Row:
    """Give the cells of a call, in the order of its columns."""
    return (
        call.module,
        call.index,
        call.parent,
        call.start,
        call.end,
        call.training,
        _line_cell(call.site),
        plain(dict(call.literals)),
        dict(call.containers),
    )


def _float_cell(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def value_row(value: ValueInfo) -> Row:
    """Give the cells of a value, in the order of its columns."""
    numbers = value.statistics
    return (
        value.digest,
        value.dtype,
        value.size,
        _float_cell(numbers.minimum),
        _float_cell(numbers.maximum),
        _float_cell(numbers.mean),
        _float_cell(numbers.l2),
        numbers.nan,
        numbers.posinf,
        numbers.neginf,
        numbers.zeros,
        value.content,
        value.dataset,
        value.offset,
    )


def sample_rows(values: Iterable[ValueInfo]) -> list[Row]:
    """Give the rows of the table ``samples``."""
    return [
        (value.id, value.sample.count, value.sample.shape)
        for value in values
        if value.sample is not None
    ]


def build_index(head: tuple[int, int], tables: dict[str, Table]) -> Index:
    """Make the objects of an index from checked columns."""
    return Index(
        step=head[0],
        rank=head[1],
        modules=_modules(tables["modules"]),
        calls=_calls(tables["calls"]),
        records=_records(tables["records"]),
        values=_values(tables["values"], _samples(tables["samples"])),
    )


def _line(cell: Row | None) -> SourceLine | None:
    return None if cell is None else SourceLine(file=cell[0], line=cell[1], function=cell[2])


def _modules(table: Table) -> tuple[ModuleInfo, ...]:
    return tuple(
        ModuleInfo(
            id=position,
            path=row[0],
            class_name=row[1],
            class_path=row[2],
            bases=tuple(row[3]),
            parent=row[4],
            aliases=tuple(row[5]),
            training=row[6],
            attributes=row[7],
            source=_line(row[8]),
        )
        for position, row in enumerate(zip(*table, strict=True))
    )


def _calls(table: Table) -> tuple[CallInfo, ...]:
    return tuple(
        CallInfo(
            id=position,
            module=row[0],
            index=row[1],
            parent=row[2],
            start=row[3],
            end=row[4],
            training=row[5],
            site=_line(row[6]),
            literals=row[7],
            containers=row[8],
        )
        for position, row in enumerate(zip(*table, strict=True))
    )


def _number(cell: float | str | None) -> float | None:
    return None if cell is None else float(cell)


def _samples(table: Table) -> dict[int, Sample]:
    return {row[0]: Sample(count=row[1], shape=tuple(row[2])) for row in zip(*table, strict=True)}


def _values(table: Table, samples: Mapping[int, Sample]) -> tuple[ValueInfo, ...]:
    contents = {content.value: content for content in Content}
    table[3:7] = [
        cells
        if float in (kinds := set(map(type, cells))) and kinds == {float}
        else [_number(cell) for cell in cells]
        for cells in table[3:7]
    ]
    return tuple(
        ValueInfo(
            id=position,
            digest=row[0],
            dtype=row[1],
            size=row[2],
            statistics=Statistics(
                minimum=row[3],
                maximum=row[4],
                mean=row[5],
                l2=row[6],
                nan=row[7],
                posinf=row[8],
                neginf=row[9],
                zeros=row[10],
            ),
            content=contents[row[11]],
            dataset=row[12],
            offset=row[13],
            sample=samples.get(position),
        )
        for position, row in enumerate(zip(*table, strict=True))
    )


def _records(table: Table) -> tuple[RecordInfo, ...]:
    phases = {phase.value: phase for phase in Phase}
    roles = {role.value: role for role in Role}
    return tuple(
        RecordInfo(
            id=position,
            module=row[0],
            call=row[1],
            phase=phases[row[2]],
            role=roles[row[3]],
            slot=row[4],
            order=row[5],
            shape=tuple(row[6]),
            value=row[7],
            requires_grad=row[8],
            tensor=row[9],
        )
        for position, row in enumerate(zip(*table, strict=True))
    )
