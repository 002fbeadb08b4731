"""An index in columns: what is written is read, once where two files say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.dumpfile.indexcodec import StoredIndex, decode_index
from tests.support.indexes import datasets_of, document_of, full_index, set_cell

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES = ("modules", "calls", "records", "values")


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the datasets of the full index with a change."""
    document = document_of(full_index())
    change(document)
    return datasets_of(document)


def read(datasets: dict[str, np.ndarray[Any, Any]]) -> StoredIndex:
    stored, problems = decode_index(datasets)
    assert problems == []
    assert stored is not None
    return stored


def test_a_document_of_an_index_says_all_of_it() -> None:
    assert read(changed(lambda _: None)).index == read(full_index()).index


def test_columns_are_as_narrow_as_their_numbers() -> None:
    records = full_index()["records"]

    assert records.dtype["module"] == np.uint8
    assert records.dtype["tensor"] == np.int8


def test_rows_become_objects_when_they_are_asked_for() -> None:
    index = read(full_index()).index

    assert not set(TABLES) & vars(index).keys()
    assert len(index.records) == 8
    assert set(TABLES) & vars(index).keys() == {"records"}


@pytest.mark.parametrize("text", ["\ud800 \u00e9 \0", "],[", "x" * 100_000, "\U0001f600"])
def test_any_text_comes_back(text: str) -> None:
    stored = read(changed(lambda index: set_cell(index, "modules", "class_path", text)))

    assert stored.index.modules[0].class_path == text


@pytest.mark.parametrize("number", [float("inf"), -0.0, 5e-324, 1e308, None])
def test_any_number_comes_back(number: float | None) -> None:
    stored = read(changed(lambda index: set_cell(index, "values", "maximum", number)))

    assert repr(stored.index.values[0].statistics.maximum) == repr(number)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "1",
        '{"a":1,"a":2}',
        '{"a":NaN}',
        '{"a":1e999}',
        '{"a":' + "[" * 70 + "]" * 70 + "}",
    ],
)
def test_attributes_that_are_no_object_are_refused(text: str) -> None:
    datasets = changed(lambda index: set_cell(index, "modules", "class_path", text))
    datasets["modules"]["attributes"][0] = datasets["modules"]["class_path"][0]

    stored, problems = decode_index(datasets)

    assert stored is None
    assert [problem.loc for problem in problems] == ["modules[0].attributes"]


def test_class_names_of_containers_are_texts() -> None:
    stored, problems = decode_index(
        changed(lambda index: set_cell(index, "calls", "containers", {"output": 1}))
    )

    assert stored is None
    assert [problem.loc for problem in problems] == ["calls[0].containers"]


def test_equal_tables_become_the_same_objects() -> None:
    known = read(full_index())

    stored, _ = decode_index(full_index(), like=known)

    assert stored is not None
    for name in TABLES:
        assert getattr(stored.index, name) is getattr(known.index, name)


@pytest.mark.parametrize(
    ("table", "column", "cell", "shared"),
    [
        ("values", "minimum", -7.5, {"modules", "calls", "records"}),
        ("modules", "training", True, {"calls", "records", "values"}),
        ("calls", "training", True, {"modules", "records", "values"}),
        ("records", "requires_grad", True, {"modules", "calls", "values"}),
        ("recomputed", "count", 7, {"modules", "records", "values"}),
        ("samples", "count", 33, {"modules", "calls", "records"}),
        ("modules", "class_name", "Other", set()),
    ],
)
def test_only_what_is_equal_is_shared(
    table: str, column: str, cell: object, shared: set[str]
) -> None:
    known = read(full_index())
    datasets = changed(lambda index: set_cell(index, table, column, cell))

    stored, _ = decode_index(datasets, like=known)

    assert stored is not None
    assert stored.index == read(datasets).index
    assert stored.index != known.index
    assert {
        name for name in TABLES if getattr(stored.index, name) is getattr(known.index, name)
    } == shared


def test_an_index_without_a_table_is_not_like_one_with_it() -> None:
    without = changed(lambda index: index.pop("recomputed"))

    stored, _ = decode_index(without, like=read(full_index()))

    assert stored is not None
    assert [call.recomputed for call in stored.index.calls] == [0, 0, 0]


@pytest.mark.parametrize("table", ["modules", "calls", "values"])
def test_rows_that_others_refer_to_must_be_there(table: str) -> None:
    stored, problems = decode_index(changed(lambda index: index[table]["rows"].pop(0)))

    assert stored is None
    assert problems != []
