"""The table of each framework, by the name that stands in a dump."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from .jax_table import JAX
from .mindspore_table import MINDSPORE
from .onnx_table import ONNX
from .paddle_table import PADDLE
from .rules import Table
from .torch_table import TORCH

TABLE_GROUP = "padiff.tables"
"""Entry-point group by which another package brings the table of its adapter.

The name is the framework's in a dump; it points to a ``Table``, in a module that does not import
the framework: comparing needs none.
"""


class _Tables(Mapping[str, Table]):
    """The tables that are built in, then those of other packages, which are looked for last."""

    def __init__(self, *tables: Table) -> None:
        self._built_in = {table.framework: table for table in tables}

    def __getitem__(self, framework: str) -> Table:
        if framework in self._built_in:
            return self._built_in[framework]
        table: Table = _others()[framework].load()
        return table

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((*self._built_in, *_others()))

    def __len__(self) -> int:
        return len(tuple(iter(self)))


@functools.cache
def _others() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=TABLE_GROUP)}


TABLES: Mapping[str, Table] = _Tables(TORCH, PADDLE, ONNX, JAX, MINDSPORE)
"""How a framework's operators are lowered."""
