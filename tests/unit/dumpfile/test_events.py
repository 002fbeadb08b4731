"""What a file says of calls beside their rows: draws and recomputations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import CallInfo, Draw, DumpWriter, ModuleInfo, open_dump
from padiff.dumpfile.indexcodec import decode_index
from tests.support.dumps import manifest
from tests.support.indexes import datasets_of, document_of, read_tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def made(path: Path, *, draws: Sequence[Draw] | None, recomputed: int = 0) -> Path:
    """Write a dump of one call."""
    root = ModuleInfo(id=0, path="", class_name="Net", class_path="net.Net", parent=None)
    call = CallInfo(id=0, module=0, index=0, parent=None, start=0, end=1, recomputed=recomputed)
    with DumpWriter(path) as writer:
        with writer.step(0) as step:
            step.add_modules([root])
            step.add_call(call)
            step.store(np.ones(1, np.float32))
            if draws is not None:
                step.add_draws(draws)
        return writer.commit(manifest(name="net"))


@pytest.mark.parametrize(
    "draws", [None, (), (Draw(call=0, after=0, generators=("torch", "numpy")),)], ids=str
)
def test_draws_come_back_as_they_were_written(
    draws: tuple[Draw, ...] | None, tmp_path: Path
) -> None:
    path = made(tmp_path / "net", draws=draws)

    with open_dump(path).open() as file:
        assert file.index.draws == draws


def test_recomputations_come_back_and_cost_nothing_without(tmp_path: Path) -> None:
    path = made(tmp_path / "net", draws=None, recomputed=2)

    with open_dump(path).open() as file:
        assert [call.recomputed for call in file.index.calls] == [2]
    assert "recomputed" not in read_tables(made(tmp_path / "other", draws=None))


@pytest.mark.parametrize(
    ("table", "rows", "loc"),
    [
        ("draws", [[1, 0, ["torch"]]], "draws[0].call"),
        ("draws", [[0, -1, ["torch"]]], "draws[0].after"),
        ("recomputed", [[1, 1]], "recomputed[0].call"),
        ("recomputed", [[-1, 1]], "recomputed[0].call"),
        ("recomputed", [[0, 0]], "recomputed[0].count"),
        ("recomputed", [[0, 1], [0, 1]], "recomputed"),
    ],
)
def test_events_of_calls_that_are_not_there_are_refused(
    table: str, rows: list[object], loc: str, tmp_path: Path
) -> None:
    path = made(
        tmp_path / "net", draws=[Draw(call=0, after=0, generators=("numpy",))], recomputed=1
    )
    content = document_of(read_tables(path))
    content[table]["rows"] = rows

    index, problems = decode_index(datasets_of(content))

    assert index is None
    assert loc in [problem.loc for problem in problems]
