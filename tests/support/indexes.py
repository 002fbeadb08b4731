"""Indexes for tests: one that has every table, and any index as a document that can be spoilt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from padiff.dumpfile import (
    CallInfo,
    Content,
    Draw,
    ModuleInfo,
    Sample,
    SourceLine,
    Statistics,
    ValueInfo,
)
from padiff.dumpfile.columns import PoolsBuilder, encode_table, read_pools, unpack
from padiff.dumpfile.indexcodec import OPTIONAL, TABLES, encode_index

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]

FILE = "step_000000/rank_0000.h5"
_LINE = SourceLine(file="net.py", line=7, function="forward")


def read_tables(dump: Path, group: str = "index") -> dict[str, Array]:
    """Return the datasets of the index, or of the program, of a dump's first file."""
    with h5py.File(dump / FILE) as file:
        return {name: dataset[...] for name, dataset in file[group].items()}


def write_tables(dump: Path, datasets: dict[str, Array], group: str = "index") -> Path:
    """Put other datasets in their place, and let the manifest state the size of the file."""
    with h5py.File(dump / FILE, "r+") as file:
        del file[group]
        for name, table in datasets.items():
            file.create_dataset(f"{group}/{name}", data=table, track_times=False)
    document = json.loads((dump / "manifest.json").read_text(encoding="utf-8"))
    document["files"][0]["size_bytes"] = (dump / FILE).stat().st_size
    (dump / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
    return dump


def document_of(datasets: dict[str, Array]) -> dict[str, Any]:
    """Return an index as a mapping from table to ``columns`` (names) and ``rows`` (cells)."""
    problems: list[Any] = []
    pools = read_pools(datasets, problems)
    assert pools is not None
    document: dict[str, Any] = {}
    for name, columns in (TABLES | OPTIONAL).items():
        if name in datasets:
            table = unpack(name, datasets[name], columns, problems)
            assert table is not None
            for column in columns:
                column.right_cells(table[column.name], pools, _ANY)
            cells = [column.decode(table[column.name], pools) for column in columns]
            rows = [
                [list(cell) if isinstance(cell, tuple) else cell for cell in row]
                for row in zip(*cells, strict=True)
            ]
            document[name] = {"columns": [column.name for column in columns], "rows": rows}
    return document


_ANY = dict.fromkeys((*TABLES, *OPTIONAL), 1 << 62)


def datasets_of(document: dict[str, Any]) -> dict[str, Array]:
    """Return the datasets of a document, whatever its cells say."""
    pools = PoolsBuilder()
    datasets: dict[str, Array] = {}
    for name, columns in (TABLES | OPTIONAL).items():
        if name in document:
            rows = document[name]["rows"]
            cells = {column.name: [row[at] for row in rows] for at, column in enumerate(columns)}
            datasets[name] = encode_table(columns, cells, pools)
    return pools.datasets() | datasets


def edit_index(dump: Path, change: Callable[[Any], object]) -> Path:
    """Change the document of a dump's first index."""
    document = document_of(read_tables(dump))
    change(document)
    return write_tables(dump, datasets_of(document))


def set_cell(document: Any, table: str, column: str, cell: object, row: int = 0) -> None:  # noqa: ANN401
    """Put something into one cell of a document."""
    document[table]["rows"][row][document[table]["columns"].index(column)] = cell


def with_number(table: Array, column: str | None, row: int, number: Any) -> Array:  # noqa: ANN401
    """Return a table with one number changed, in a field as wide as that needs.

    Args:
        table: As a file holds it.
        column: Name of the field; None where the table has none.
        row: Of the number.
        number: What it becomes.
    """
    if column is None:
        wide = table.astype(np.int64)
        wide[row] = number
        return wide
    assert table.dtype.names is not None
    kinds = [
        (name, np.dtype(np.int64) if name == column and kind.kind in "iu" else kind)
        for name, kind in ((name, table.dtype[name]) for name in table.dtype.names)
    ]
    made = np.empty(table.size, kinds)
    for name in table.dtype.names:
        made[name] = table[name]
    made[column][row] = number
    return made


def full_index() -> dict[str, Array]:
    """Return the datasets of an index of three modules, calls and values, and of eight records."""
    pools = PoolsBuilder()
    names = [column.name for column in TABLES["records"]]
    index = encode_index(
        step=3,
        rank=1,
        modules=_modules(),
        calls=(
            CallInfo(id=0, module=0, index=0, parent=None, start=0, end=7, site=_LINE),
            CallInfo(
                id=1,
                module=1,
                index=0,
                parent=0,
                start=1,
                end=2,
                literals={"input['causal']": True, "input[1]": 0.5},
                recomputed=2,
            ),
            CallInfo(
                id=2, module=2, index=0, parent=0, start=3, end=None, containers={"output": "Out"}
            ),
        ),
        values=_values(),
        records=dict(zip(names, zip(*_RECORDS, strict=True), strict=True)),
        draws=(
            Draw(call=0, after=0, generators=("torch", "numpy")),
            Draw(call=None, after=5, generators=()),
        ),
        pools=pools,
    )
    return pools.datasets() | index


def _modules() -> tuple[ModuleInfo, ...]:
    return (
        ModuleInfo(id=0, path="", class_name="Net", class_path="net.Net", parent=None),
        ModuleInfo(
            id=1,
            path="fc",
            class_name="Linear",
            class_path="torch.nn.Linear",
            bases=("torch.nn.Module",),
            parent=0,
            aliases=("head", "tail"),
            training=True,
            attributes={"eps": 1e-5, "shape": [2, 3], "mode": "a],[b"},
            source=_LINE,
        ),
        ModuleInfo(
            id=2,
            path="act",
            class_name="ReLU",
            class_path="torch.nn.ReLU",
            parent=0,
            attributes={"inplace": True},
            source=_LINE,
        ),
    )


def _values() -> tuple[ValueInfo, ...]:
    page = "/values/p0000_float32"
    return (
        ValueInfo(
            id=0,
            digest="0123456789abcdef" * 2,
            dtype="float32",
            size=6,
            statistics=Statistics(minimum=-1.0, maximum=2.5, mean=0.1, l2=3.0, zeros=1),
            dataset=page,
        ),
        ValueInfo(
            id=1,
            digest="f" * 32,
            dtype="bfloat16",
            size=6000,
            statistics=Statistics(minimum=None, maximum=None, mean=None, l2=None, nan=6000),
            content=Content.SAMPLE,
            dataset="/values/v00000001",
            sample=Sample(count=32, shape=(60, 100)),
        ),
        ValueInfo(
            id=2,
            digest="0" * 32,
            dtype="float32",
            size=0,
            statistics=Statistics(minimum=None, maximum=None, mean=None, l2=None),
        ),
    )


_RECORDS = (
    (0, 0, "forward", "input", "[0]", 0, (2, 3), 0, False, None),
    (0, 0, "forward", "output", "", 7, (0,), 2, True, None),
    (1, 1, "forward", "input", "[0]", 1, (2, 3), 0, False, None),
    (1, 1, "forward", "output", "", 2, (60, 100), 1, True, None),
    (1, 1, "backward", "grad_input", "[0]", 9, (3, 2), 0, False, None),
    (2, 2, "forward", "input", "['x']", 3, (6000,), 1, False, None),
    (1, None, "forward", "weight", ".weight", 0, (3, 2), 0, True, 0),
    (1, None, "backward", "weight_grad", ".weight", 10, (3, 2), None, False, 0),
)
