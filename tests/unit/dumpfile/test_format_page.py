"""The worked example in docs/format.md is what the code writes, and its code runs."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from padiff.dumpfile import DTYPE_NAMES, FORMAT_VERSION
from padiff.dumpfile.columns import POOLS
from padiff.dumpfile.indexcodec import OPTIONAL, TABLES
from padiff.dumpfile.programcolumns import PROGRAM_TABLES
from tests.support.dumps import DumpBuilder
from tests.support.indexes import read_tables

PAGE = (Path(__file__).parents[3] / "docs" / "format.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    x = np.array([1, 2], dtype=np.float32)
    built = DumpBuilder().module("", "Net").call("", inputs=[x], outputs=[2 * x])
    return built.write(tmp_path / "double")


def test_the_manifest_is_what_the_code_writes(dump: Path) -> None:
    written = json.loads((dump / "manifest.json").read_text())
    assert written.pop("files")[0]["path"] == "step_000000/rank_0000.h5"

    assert json.loads(blocks("json")[0]) == written


def test_the_index_is_what_the_code_writes(dump: Path) -> None:
    written: dict[str, object] = {}
    for name, table in read_tables(dump).items():
        columns = table.dtype.names
        written[name] = {one: cells(table[one]) for one in columns} if columns else cells(table)
        if name == "string_bytes":
            written[name] = table.tobytes().decode()

    assert json.loads(blocks("json")[1]) == written


def cells(column: np.ndarray[Any, Any]) -> list[object]:
    found: list[object] = column.tolist()
    return found if column.ndim == 1 else [row.tobytes().hex() for row in column]


def test_the_code_reads_the_example(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(dump.parent)
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(blocks("python")[0], {})

    assert printed.getvalue() == "[2. 4.]\n"


def test_every_column_and_dtype_is_described() -> None:
    words = set(re.findall(r"`(\w+)`", PAGE))
    tables = TABLES | OPTIONAL | PROGRAM_TABLES
    columns = {column.name for table in tables.values() for column in table}
    columns |= {*POOLS, *tables}

    assert columns <= words
    assert {name for name in DTYPE_NAMES if not re.search(r"int(16|32)", name)} <= words
    assert f"version {FORMAT_VERSION}\n" in PAGE
