"""Rows of an index: from objects to cells, and back."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from .bulk import build_all
from .schema import (
    CallInfo,
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
    from collections.abc import Callable, Iterable, Mapping

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


def _float_cells(*numbers: float | None) -> Row:
    if math.isfinite(sum([one for one in numbers if one is not None])):
        return numbers
    return [one if one is None or math.isfinite(one) else str(one) for one in numbers]


def value_row(value: ValueInfo) -> Row:
    """Give the cells of a value, in the order of its columns."""
    numbers = value.statistics
    return (
        value.digest,
        value.dtype,
        value.size,
        *_float_cells(numbers.minimum, numbers.maximum, numbers.mean, numbers.l2),
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


def build_index(
    head: tuple[int, int],
    tables: Mapping[str, Table],
    shared: Mapping[str, Any],
    *,
    has_draws: bool,
) -> Index:
    """Make the objects of an index from columns that are checked and made.

    Args:
        head: Step and rank.
        tables: Every table, those that the file lacks empty.
        shared: Rows of tables that are made already, by table.
        has_draws: Whether the file says what was drawn.
    """
    makers: dict[str, Callable[[Table], tuple[Any, ...]]] = {
        "modules": _modules,
        "calls": partial(_calls, recomputed=dict(zip(*tables["recomputed"], strict=True))),
        "values": partial(_values, samples=_samples(tables["samples"])),
        "records": _records,
    }
    made = {
        name: shared[name] if name in shared else make(tables[name])
        for name, make in makers.items()
    }
    return Index(
        step=head[0],
        rank=head[1],
        modules=made["modules"],
        calls=made["calls"],
        records=made["records"],
        values=made["values"],
        draws=_draws(tables["draws"]) if has_draws else None,
    )


def _modules(table: Table) -> tuple[ModuleInfo, ...]:
    count = len(table[0])
    return tuple(
        build_all(
            ModuleInfo,
            count,
            id=range(count),
            path=table[0],
            class_name=table[1],
            class_path=table[2],
            bases=table[3],
            parent=table[4],
            aliases=table[5],
            training=table[6],
            attributes=table[7],
            source=table[8],
        )
    )


def _draws(table: Table) -> tuple[Draw, ...]:
    return tuple(
        Draw(call=row[0], after=row[1], generators=row[2]) for row in zip(*table, strict=True)
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
            site=table[6],
            literals=table[7],
            containers=table[8],
            recomputed=times,
        )
    )


def _samples(table: Table) -> dict[int, Sample]:
    return {row[0]: Sample(count=row[1], shape=row[2]) for row in zip(*table, strict=True)}


def _values(table: Table, samples: Mapping[int, Sample]) -> tuple[ValueInfo, ...]:
    count = len(table[0])
    statistics = build_all(
        Statistics,
        count,
        minimum=table[3],
        maximum=table[4],
        mean=table[5],
        l2=table[6],
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
            dtype=table[1],
            size=table[2],
            statistics=statistics,
            content=table[11],
            dataset=table[12],
            offset=table[13],
            sample=list(map(samples.get, range(count))),
        )
    )


def _records(table: Table) -> tuple[RecordInfo, ...]:
    count = len(table[0])
    return tuple(
        build_all(
            RecordInfo,
            count,
            id=range(count),
            module=table[0],
            call=table[1],
            phase=table[2],
            role=table[3],
            slot=table[4],
            order=table[5],
            shape=table[6],
            value=table[7],
            requires_grad=table[8],
            tensor=table[9],
        )
    )
