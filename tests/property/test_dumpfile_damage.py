"""A damaged dump gives a ``PadiffError``, or still reads; it never does anything else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from padiff.dumpfile import PadiffError, open_dump, validate
from padiff.dumpfile.indexcodec import decode_index
from padiff.dumpfile.manifestcodec import decode_manifest
from tests.support.dumps import DumpBuilder
from tests.support.indexes import full_index, with_number

if TYPE_CHECKING:
    from pathlib import Path

FILE = "step_000000/rank_0000.h5"
IN_PLACE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    small = np.arange(4, dtype=np.float32)
    large = np.arange(20_000, dtype=np.float32)
    built = DumpBuilder().module("", "Net").call("", inputs=[small], outputs=[large])
    return built.write(tmp_path / "net")


def read_everything(dump: Path) -> None:
    with open_dump(dump).open() as file:
        for record in file.index.records:
            file.array(record).sum()


def state_size(dump: Path) -> None:
    """Let the manifest state the size that the file has, so that HDF5 gets to see it."""
    path = dump / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"][0]["size_bytes"] = (dump / FILE).stat().st_size
    path.write_text(json.dumps(manifest))


@IN_PLACE
@given(data=st.data())
def test_a_file_truncated_anywhere_is_refused(dump: Path, data: st.DataObject) -> None:
    path = dump / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    state_size(dump)

    with pytest.raises(PadiffError):
        read_everything(dump)
    assert validate(dump, deep=True) != []
    path.write_bytes(whole)


@IN_PLACE
@given(data=st.data())
def test_a_manifest_truncated_anywhere_is_refused(dump: Path, data: st.DataObject) -> None:
    path = dump / "manifest.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])

    with pytest.raises(PadiffError):
        open_dump(dump)
    assert validate(dump, deep=False) != []
    path.write_bytes(whole)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths_in(document: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401
    """List where something stands in a JSON document."""
    keys: Any = range(len(document)) if isinstance(document, list) else document
    if not isinstance(document, list | dict):
        return [prefix]
    return [prefix, *(path for key in keys for path in paths_in(document[key], (*prefix, key)))]


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:  # noqa: ANN401
    """Give the document with one thing replaced."""
    made = json.loads(json.dumps(document))
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


@given(data=st.data())
def test_any_number_anywhere_in_an_index_is_read_alone_as_beside_another(
    data: st.DataObject,
) -> None:
    datasets = full_index()
    known, _ = decode_index(full_index())
    assert known is not None
    name = data.draw(st.sampled_from(sorted(datasets)))
    table = datasets[name]
    column = None if table.dtype.names is None else data.draw(st.sampled_from(table.dtype.names))
    row = data.draw(st.integers(0, max(table.size - 1, 0)))
    if table.size and (column is None or table[column].ndim == 1):
        number = data.draw(st.integers(-2, 4) | st.integers(-(1 << 63), (1 << 63) - 1))
        datasets[name] = with_number(table, column, row, number)
    datasets[name] = datasets[name][: data.draw(st.none() | st.integers(0, table.size))]

    stored, problems = decode_index(datasets)
    beside, same = decode_index(datasets, like=known)

    assert (stored is None) is (problems != [])
    assert same == problems
    if stored is not None and beside is not None:
        assert beside.index == stored.index


@IN_PLACE
@given(data=st.data())
def test_anything_anywhere_in_a_manifest_is_read_or_a_problem(
    dump: Path, data: st.DataObject
) -> None:
    document = json.loads((dump / "manifest.json").read_text())
    path = data.draw(st.sampled_from(paths_in(document)[1:]))

    manifest, problems = decode_manifest(
        json.dumps(replaced(document, path, data.draw(json_values))).encode()
    )

    assert (manifest is None) is (problems != [])
