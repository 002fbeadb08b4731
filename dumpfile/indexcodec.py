"""The index of a file as datasets: one for each table, with a field for each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from .address import Phase, Role
from .bulk import build_all, collector_paused
from .columns import (
    POOLS,
    Column,
    Kind,
    Pools,
    PoolsBuilder,
    Table,
    check_table,
    encode_table,
    length_of,
    read_pools,
    unpack,
)
from .dtypes import DTYPE_NAMES, MOST_AXES
from .indexrelations import check_relations
from .problem import Problem, ProblemKind
from .schema import (
    CallInfo,
    Content,
    Draw,
    Index,
    Layout,
    Mesh,
    ModuleInfo,
    RecordInfo,
    Sample,
    Statistics,
    ValueInfo,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .columns import Cells
    from .dtypes import Array


TABLES: dict[str, tuple[Column, ...]] = {
    "step": (Column("step", Kind.INTEGER), Column("rank", Kind.INTEGER)),
    "modules": (
        Column("path", Kind.TEXT),
        Column("class_name", Kind.TEXT),
        Column("class_path", Kind.TEXT),
        Column("bases", Kind.TEXTS),
        Column("parent", Kind.ROW, table="modules", optional=True),
        Column("aliases", Kind.TEXTS),
        Column("training", Kind.FLAG),
        Column("attributes", Kind.MAPPED),
        Column("source", Kind.LINE),
    ),
    "calls": (
        Column("module", Kind.ROW, table="modules"),
        Column("index", Kind.INTEGER),
        Column("parent", Kind.ROW, table="calls", optional=True),
        Column("start", Kind.INTEGER),
        Column("end", Kind.INTEGER, optional=True),
        Column("training", Kind.FLAG),
        Column("site", Kind.LINE),
        Column("literals", Kind.MAPPED),
        Column("containers", Kind.MAPPED, of=str),
    ),
    "records": (
        Column("module", Kind.ROW, table="modules"),
        Column("call", Kind.ROW, table="calls", optional=True),
        Column("phase", Kind.WORD, words=tuple(Phase)),
        Column("role", Kind.WORD, words=tuple(Role)),
        Column("slot", Kind.TEXT),
        Column("order", Kind.INTEGER),
        Column("shape", Kind.NUMBERS, most=MOST_AXES),
        Column("value", Kind.ROW, table="values", optional=True),
        Column("requires_grad", Kind.FLAG),
        Column("tensor", Kind.INTEGER, optional=True),
    ),
    "values": (
        Column("digest", Kind.DIGEST),
        Column("dtype", Kind.WORD, words=DTYPE_NAMES),
        Column("size", Kind.INTEGER),
        Column("minimum", Kind.NUMBER),
        Column("maximum", Kind.NUMBER),
        Column("mean", Kind.NUMBER),
        Column("l2", Kind.NUMBER),
        Column("nan", Kind.INTEGER),
        Column("posinf", Kind.INTEGER),
        Column("neginf", Kind.INTEGER),
        Column("zeros", Kind.INTEGER),
        Column("content", Kind.WORD, words=tuple(Content)),
        Column("dataset", Kind.TEXT, optional=True),
        Column("offset", Kind.INTEGER),
    ),
}
"""The columns of each table that every file has; ``step`` has one row."""

OPTIONAL: dict[str, tuple[Column, ...]] = {
    "samples": (
        Column("value", Kind.ROW, table="values"),
        Column("count", Kind.INTEGER, low=1),
        Column("shape", Kind.NUMBERS, most=MOST_AXES),
    ),
    "draws": (
        Column("call", Kind.ROW, table="calls", optional=True),
        Column("after", Kind.INTEGER),
        Column("generators", Kind.TEXTS),
    ),
    "recomputed": (Column("call", Kind.ROW, table="calls"), Column("count", Kind.INTEGER, low=1)),
    "meshes": (
        Column("dims", Kind.TEXTS),
        Column("sizes", Kind.NUMBERS),
        Column("ranks", Kind.NUMBERS),
    ),
    "layouts": (
        Column("mesh", Kind.ROW, table="meshes"),
        Column("placements", Kind.TEXTS),
        Column("shape", Kind.NUMBERS, most=MOST_AXES),
    ),
    "spread": (
        Column("record", Kind.ROW, table="records"),
        Column("layout", Kind.ROW, table="layouts"),
    ),
}
"""The columns of the tables that a file may lack."""


_ALL = TABLES | OPTIONAL
_MADE_OF = {
    "modules": ("modules",),
    "calls": ("calls", "recomputed"),
    "values": ("values", "samples"),
    "records": ("records", "meshes", "layouts", "spread"),
}
"""The tables that rows become objects of, each with all tables that those are made of."""
_NUMBERS = tuple(item.name for item in fields(Statistics))

Rows = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class StoredIndex:
    """An index as it was read."""

    index: Index
    datasets: Mapping[str, Array]
    """As they lie in the file."""
    tables: Mapping[str, Table]
    """The columns of all tables; those that the file lacks have no rows."""
    pools: Pools
    rows: Mapping[str, Rows]
    """Makes the objects of a table, once."""


def encode_index(  # noqa: PLR0913
    *,
    step: int,
    rank: int,
    modules: Sequence[ModuleInfo],
    calls: Sequence[CallInfo],
    values: Sequence[ValueInfo],
    records: Mapping[str, Cells],
    draws: Sequence[Draw] | None = None,
    layouts: Sequence[Layout] = (),
    spread: Sequence[tuple[int, int]] = (),
    pools: PoolsBuilder,
) -> dict[str, Array]:
    """Return the datasets of an index by name, without those of the pools.

    Args:
        step: Iteration.
        rank: Index of the process.
        modules: Rows of the table.
        calls: Rows of the table.
        values: Rows of the table.
        records: The columns of the table, of the cells that ``RecordInfo`` has.
        draws: Rows of the table; None leaves it out, since nobody looked.
        layouts: Rows of the table, and the meshes that they are on.
        spread: Rows of the table: a record's number and that of its layout.
        pools: Gets the texts, lists and source lines.
    """
    meshes: dict[Mesh, int] = {}
    on_mesh = [meshes.setdefault(layout.mesh, len(meshes)) for layout in layouts]
    sampled = [value for value in values if value.sample is not None]
    repeated = [call for call in calls if call.recomputed]
    statistics = [value.statistics for value in values]
    numbers = {name: list(map(attrgetter(name), statistics)) for name in _NUMBERS}
    cells: dict[str, Mapping[str, Cells]] = {
        "step": {"step": [step], "rank": [rank]},
        "modules": _cells("modules", modules),
        "calls": _cells("calls", calls),
        "records": records,
        "values": _cells("values", values, **numbers),
        "samples": _cells(
            "samples", [value.sample for value in sampled], value=[value.id for value in sampled]
        ),
        "draws": _cells("draws", draws or ()),
        "recomputed": {
            "call": [call.id for call in repeated],
            "count": [call.recomputed for call in repeated],
        },
        "meshes": _cells("meshes", tuple(meshes)),
        "layouts": _cells("layouts", layouts, mesh=on_mesh),
        "spread": {"record": [one for one, _ in spread], "layout": [one for _, one in spread]},
    }
    is_there = {name: any(map(len, cells[name].values())) for name in OPTIONAL}
    is_there["draws"] = draws is not None
    return {
        name: encode_table(columns, cells[name], pools)
        for name, columns in _ALL.items()
        if is_there.get(name, True)
    }


def _cells(table: str, rows: Sequence[object], **known: Cells) -> dict[str, Cells]:
    """Return the cells of each column of a table: those that are known, and fields of the rows."""
    names = [column.name for column in _ALL[table] if column.name not in known]
    return known | {name: list(map(attrgetter(name), rows)) for name in names}


def decode_index(
    datasets: Mapping[str, Array], *, like: StoredIndex | None = None
) -> tuple[StoredIndex | None, list[Problem]]:
    """Read an index and check everything that can be checked without the elements.

    Args:
        datasets: Its datasets and those of the pools, by name.
        like: An index that this one may be like: what is equal becomes the same objects.

    Returns:
        The index, None if there are problems; and the problems, whose ``loc`` is like
        ``records[12].shape``.
    """
    problems: list[Problem] = []
    missing = sorted({*TABLES, *POOLS} - datasets.keys())
    for kind, names, message in (
        (ProblemKind.MISSING, missing, "expected the dataset, found none"),
        (ProblemKind.UNEXPECTED, sorted(datasets.keys() - {*_ALL, *POOLS}), "unknown dataset"),
    ):
        problems += [Problem(loc=name, kind=kind, message=message) for name in names]
    if problems:
        return None, problems
    with collector_paused():
        pools = read_pools(datasets, problems)
        tables = _read_tables(datasets, problems)
        if pools is not None and not problems:
            rows = {name: length_of(table) for name, table in tables.items()}
            for name, columns in _ALL.items():
                check_table(name, columns, tables[name], pools, rows, problems)
        if pools is not None and not problems:
            check_relations(tables, pools, problems)
        if pools is None or problems:
            return None, problems
        return _stored(datasets, tables, pools, like), []


def _read_tables(datasets: Mapping[str, Array], problems: list[Problem]) -> dict[str, Table]:
    """Return the columns of all tables; those that the file lacks have no rows."""
    tables: dict[str, Table] = {}
    for name, columns in _ALL.items():
        if name not in datasets:
            tables[name] = {column.name: np.zeros(0, np.int64) for column in columns}
            continue
        table = unpack(name, datasets[name], columns, problems)
        if table is not None:
            tables[name] = table
    if "step" in tables and length_of(tables["step"]) != 1:
        message = f"expected one row, found {length_of(tables['step'])}"
        problems.append(Problem(loc="step", kind=ProblemKind.SIZE, message=message))
    return tables


def _stored(
    datasets: Mapping[str, Array],
    tables: Mapping[str, Table],
    pools: Pools,
    like: StoredIndex | None,
) -> StoredIndex:
    """Make an index whose objects are made when they are first asked for."""
    makers = {"modules": _modules, "calls": _calls, "values": _values, "records": _records}
    is_like = like is not None and _are_equal(POOLS, datasets, like.datasets)
    rows: dict[str, Rows] = {}
    for name, make in makers.items():
        if like is not None and is_like and _are_equal(_MADE_OF[name], datasets, like.datasets):
            rows[name] = like.rows[name]
        else:
            rows[name] = cache(partial(_paused, make, tables, pools))
    index = Index(
        step=int(tables["step"]["step"][0]),
        rank=int(tables["step"]["rank"][0]),
        draws=_draws(tables, pools) if "draws" in datasets else None,
        meshes=_meshes(tables, pools),
        **rows,
    )
    return StoredIndex(index=index, datasets=datasets, tables=tables, pools=pools, rows=rows)


def _are_equal(names: Iterable[str], one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    """Return whether datasets are the same in both."""
    return all(
        (name in one) is (name in other)
        and (
            name not in one
            or (
                one[name].dtype == other[name].dtype
                and one[name].tobytes() == other[name].tobytes()  # nan is like nan
            )
        )
        for name in names
    )


# -- rows as objects


def _paused(
    make: Callable[[Mapping[str, Table], Pools], tuple[Any, ...]],
    tables: Mapping[str, Table],
    pools: Pools,
) -> tuple[Any, ...]:
    with collector_paused():
        return make(tables, pools)


def _decoded(name: str, tables: Mapping[str, Table], pools: Pools) -> dict[str, Any]:
    table = tables[name]
    return {column.name: column.decode(table[column.name], pools) for column in _ALL[name]}


def _modules(tables: Mapping[str, Table], pools: Pools) -> tuple[ModuleInfo, ...]:
    count = length_of(tables["modules"])
    columns = _decoded("modules", tables, pools)
    return tuple(build_all(ModuleInfo, count, id=range(count), **columns))


def _calls(tables: Mapping[str, Table], pools: Pools) -> tuple[CallInfo, ...]:
    count = length_of(tables["calls"])
    recomputed = np.zeros(count, np.int64)
    recomputed[tables["recomputed"]["call"]] = tables["recomputed"]["count"]
    columns = _decoded("calls", tables, pools)
    return tuple(
        build_all(CallInfo, count, id=range(count), recomputed=recomputed.tolist(), **columns)
    )


def _values(tables: Mapping[str, Table], pools: Pools) -> tuple[ValueInfo, ...]:
    count = length_of(tables["values"])
    columns = _decoded("values", tables, pools)
    numbers = {name: columns.pop(name) for name in _NUMBERS}
    statistics = build_all(Statistics, count, **numbers)
    samples: list[Sample | None] = [None] * count
    for row in _rows("samples", tables, pools):
        samples[row["value"]] = Sample(count=row["count"], shape=row["shape"])
    return tuple(
        build_all(
            ValueInfo, count, id=range(count), statistics=statistics, sample=samples, **columns
        )
    )


def _records(tables: Mapping[str, Table], pools: Pools) -> tuple[RecordInfo, ...]:
    count = length_of(tables["records"])
    meshes = _meshes(tables, pools)
    known = [
        Layout(mesh=meshes[row["mesh"]], placements=row["placements"], shape=row["shape"])
        for row in _rows("layouts", tables, pools)
    ]
    layouts: list[Layout | None] = [None] * count
    for row in _rows("spread", tables, pools):
        layouts[row["record"]] = known[row["layout"]]
    columns = _decoded("records", tables, pools)
    return tuple(build_all(RecordInfo, count, id=range(count), layout=layouts, **columns))


def _meshes(tables: Mapping[str, Table], pools: Pools) -> tuple[Mesh, ...]:
    return tuple(Mesh(**row) for row in _rows("meshes", tables, pools))


def _draws(tables: Mapping[str, Table], pools: Pools) -> tuple[Draw, ...]:
    return tuple(Draw(**row) for row in _rows("draws", tables, pools))


def _rows(name: str, tables: Mapping[str, Table], pools: Pools) -> list[dict[str, Any]]:
    """Return the rows of a small table, by column."""
    columns = _decoded(name, tables, pools)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
