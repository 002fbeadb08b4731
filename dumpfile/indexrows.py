"""Rows of an index: from objects to cells, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from .address import Phase, Role
from .bulk import build_all
from .schema import (
    CallInfo,
    Content,
    Draw,
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
    from collections.abc import Iterable, Mapping, Sequence

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


def draw_rows(draws: Iterable[Draw]) -> list[Row]:
    """Give the rows of the table ``draws``."""
    return [(draw.call, draw.after, draw.generators) for draw in draws]


def recomputed_rows(calls: Iterable[CallInfo]) -> list[Row]:
    """Give the rows of the table ``recomputed``."""
    return [(call.id, call.recomputed) for call in calls if call.recomputed]


def build_index(head: tuple[int, int], tables: dict[str, Table], *, has_draws: bool) -> Index:
    """Make the objects of an index from checked columns.

    Args:
        head: Step and rank.
        tables: Every table, those that the file lacks empty.
        has_draws: Whether the file says what was drawn.
    """
    return Index(
        step=head[0],
        rank=head[1],
        modules=_modules(tables["modules"]),
        calls=_calls(tables["calls"], dict(zip(*tables["recomputed"], strict=True))),
        records=_records(tables["records"]),
        values=_values(tables["values"], _samples(tables["samples"])),
        draws=_draws(tables["draws"]) if has_draws else None,
    )


def _shared(cells: Sequence[Any]) -> list[Any]:
    """Let equal cells, of which there are few distinct ones, be one object."""
    known: dict[Any, Any] = {}
    return list(map(known.setdefault, cells, cells))


def _lines(cells: Sequence[Row | None]) -> list[SourceLine | None]:
    """Make source lines; those of one place are one object."""
    known: dict[tuple[Any, ...], SourceLine] = {}
    found: list[SourceLine | None] = []
    for cell in cells:
        if cell is None:
            found.append(None)
            continue
        key = tuple(cell)
        line = known.get(key)
        if line is None:
            line = known[key] = SourceLine(file=key[0], line=key[1], function=key[2])
        found.append(line)
    return found


def _modules(table: Table) -> tuple[ModuleInfo, ...]:
    count = len(table[0])
    return tuple(
        build_all(
            ModuleInfo,
            count,
            id=range(count),
            path=table[0],
            class_name=_shared(table[1]),
            class_path=_shared(table[2]),
            bases=_shared(list(map(tuple, table[3]))),
            parent=table[4],
            aliases=list(map(tuple, table[5])),
            training=table[6],
            attributes=table[7],
            source=_lines(table[8]),
        )
    )


def _draws(table: Table) -> tuple[Draw, ...]:
    return tuple(
        Draw(call=row[0], after=row[1], generators=tuple(row[2]))
        for row in zip(*table, strict=True)
    )


def _calls(table: Table, recomputed: Mapping[int, int]) -> tuple[CallInfo, ...]:
    count = len(table[0])
    times = [recomputed.get(call, 0) for call in range(count)]
    return tuple(
        build_all(
            CallInfo,
            count,
            id=range(count),
            module=table[0],
            index=table[1],
            parent=table[2],
            start=table[3],
            end=table[4],
            training=table[5],
            site=_lines(table[6]),
            literals=table[7],
            containers=table[8],
            recomputed=times,
        )
    )


def _numbers(cells: Sequence[float | str | None]) -> Sequence[float | None]:
    if {float}.issuperset(map(type, cells)):
        return cast("Sequence[float]", cells)
    return [None if cell is None else float(cell) for cell in cells]


def _samples(table: Table) -> dict[int, Sample]:
    return {row[0]: Sample(count=row[1], shape=tuple(row[2])) for row in zip(*table, strict=True)}


def _values(table: Table, samples: Mapping[int, Sample]) -> tuple[ValueInfo, ...]:
    count = len(table[0])
    contents = {content.value: content for content in Content}
    statistics = build_all(
        Statistics,
        count,
        minimum=_numbers(table[3]),
        maximum=_numbers(table[4]),
        mean=_numbers(table[5]),
        l2=_numbers(table[6]),
        nan=table[7],
        posinf=table[8],
        neginf=table[9],
        zeros=table[10],
    )
    return tuple(
        build_all(
            ValueInfo,
            count,
            id=range(count),
            digest=table[0],
            dtype=_shared(table[1]),
            size=table[2],
            statistics=statistics,
            content=list(map(contents.__getitem__, table[11])),
            dataset=_shared(table[12]),
            offset=table[13],
            sample=list(map(samples.get, range(count))),
        )
    )


def _records(table: Table) -> tuple[RecordInfo, ...]:
    count = len(table[0])
    phases = {phase.value: phase for phase in Phase}
    roles = {role.value: role for role in Role}
    return tuple(
        build_all(
            RecordInfo,
            count,
            id=range(count),
            module=table[0],
            call=table[1],
            phase=list(map(phases.__getitem__, table[2])),
            role=list(map(roles.__getitem__, table[3])),
            slot=_shared(table[4]),
            order=table[5],
            shape=_shared(list(map(tuple, table[6]))),
            value=table[7],
            requires_grad=table[8],
            tensor=table[9],
        )
    )
