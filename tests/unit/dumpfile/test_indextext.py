"""An index is read as it is written, piece by piece, and just as any other JSON of the same say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from padiff.dumpfile import indextext
from padiff.dumpfile.indexcodec import decode_index
from padiff.dumpfile.indexlike import WrittenIndex
from padiff.dumpfile.indextext import find_tables, read_rows
from tests.support.indexes import full_index

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = full_index()


def spaced(text: bytes) -> bytes:
    """Give the same document with spaces, which is read as a whole."""
    return json.dumps(json.loads(text)).encode()


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    """Give the index with a change, in the form in which it is written."""
    document = json.loads(TEXT)
    change(document)
    return json.dumps(document, separators=(",", ":")).encode()


def test_every_table_of_a_written_index_is_found() -> None:
    found = find_tables(TEXT)

    assert found is not None
    assert found[0] == (3, 1)
    assert list(found[1]) == list(json.loads(TEXT))[2:]
    for name, place in found[1].items():
        assert json.loads(b"[" + TEXT[place] + b"]") == json.loads(TEXT)[name]["rows"]


def test_both_readers_make_the_same_of_it() -> None:
    index, problems, rows = decode_index(TEXT)
    other, same, none = decode_index(spaced(TEXT))

    assert index is not None
    assert index == other
    assert (problems, same, none) == ([], [], {})
    assert rows != {}


def test_a_cut_within_a_string_or_a_list_goes_on_to_the_next_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indextext, "_PIECE_BYTES", 1)
    row = b'[0,0,["],[","],["]]'

    assert read_rows("draws", b",".join([row] * 3)) == [[0] * 3, [0] * 3, [("],[", "],[")] * 3]
    assert read_rows("draws", b'[0,0,["' + b"],[" * 100 + b'"]]') is None


@pytest.mark.parametrize("size", [0, 1, 7, 100, 1000])
def test_the_size_of_the_pieces_changes_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = decode_index(TEXT)
    monkeypatch.setattr(indextext, "_PIECE_BYTES", size)

    assert decode_index(TEXT) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index["records"]["rows"][0].__setitem__(4, "],["),
        lambda index: index["records"]["rows"][0].__setitem__(4, '"]],["a'),
        lambda index: index["modules"]["rows"][0].__setitem__(7, {"a": [[1], [2]], "b": [[], []]}),
        lambda index: index["modules"]["rows"][0].__setitem__(7, {"eps": 1e-5, "deep": [{"x": 1}]}),
        lambda index: index["calls"]["rows"][0].__setitem__(7, {"calls": {"columns": []}}),
        lambda index: index["modules"]["rows"][0].__setitem__(2, "\ud800 \u00e9 \0"),
        lambda index: index["modules"].__setitem__("rows", []),
        lambda index: index["values"]["rows"][0].__setitem__(3, 1),
        lambda index: index["values"]["rows"][0].__setitem__(4, "inf"),
    ],
    ids=range(9),
)
def test_strings_and_lists_that_look_like_borders_are_read(
    change: Callable[[dict[str, Any]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = changed(change)
    monkeypatch.setattr(indextext, "_PIECE_BYTES", 1)

    assert decode_index(text)[:2] == decode_index(spaced(text))[:2]


FRAME = b'"calls":{"columns":["module","index","parent","start","end","training","site",'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"step":3,', b'{"step":03,'),
        (b'{"step":3,', b'{"step":3,"step":3,'),
        (b'{"step":3,', b'{"step":-1,'),
        (b"]}," + FRAME, b"]}}" + FRAME),
        (b"]}," + FRAME, b",]}," + FRAME),
        (b"]}," + FRAME, b"],}" + FRAME),
        (b"]]}}", b"]],}}"),
        (b"]]}}", b"]]}]"),
        (b"]]}}", b"]]}},"),
        (b"]]}}", b"],]}}"),
        (b"]]}}", b"],[]]}}"),
        (b'"inplace":true', b'"inplace":true,"inplace":true'),
        (b'"inplace":true', b'"inplace":NaN'),
        (b'"inplace":true', b'"inplace":1e999'),
        (b'"inplace":true', b'"inplace":\xff'),
        (b'"inplace":true', b'"inplace":' + b"[" * 100_000),
        (b'"inplace":true', b'"inplace":' + b"[" * 70 + b"]" * 70),
    ],
    ids=range(17),
)
def test_what_is_no_index_is_refused(old: bytes, new: bytes) -> None:
    assert TEXT.count(old) >= 1

    index, problems, rows = decode_index(TEXT.replace(old, new, 1))

    assert index is None
    assert problems != []
    assert rows == {}


def test_rows_that_are_not_all_right_are_left_to_the_other_reader() -> None:
    assert read_rows("draws", b'[0,0,["torch"]]') == [[0], [0], [("torch",)]]
    assert read_rows("draws", b"") == [[], [], []]
    assert read_rows("draws", b"[0,0,[1]]") is None
    assert read_rows("draws", b"[0,0]") is None
    assert read_rows("draws", b"0,0,[]") is None
    assert read_rows("draws", b"[0,0,[]],") is None
    assert read_rows("draws", b"[0,0,[]]],[[0,0,[]]") is None


def like(text: bytes) -> WrittenIndex:
    """Read an index that another one may be like."""
    index, _, rows = decode_index(text)
    assert index is not None
    return WrittenIndex(index=index, holder=b"before" + text, start=6, rows=rows)


def test_equal_text_becomes_the_same_objects() -> None:
    known = like(TEXT)

    index, problems, _ = decode_index(TEXT, like=known)

    assert problems == []
    assert index == known.index
    assert index is not None
    for name in ("modules", "calls", "records", "values"):
        assert getattr(index, name) is getattr(known.index, name)


@pytest.mark.parametrize(
    ("table", "row", "column", "cell", "shared"),
    [
        ("values", 0, 3, -7.5, {"modules", "calls", "records"}),
        ("modules", 1, 1, "Other", {"calls", "records", "values"}),
        ("calls", 1, 5, True, {"modules", "records", "values"}),
        ("records", 0, 8, True, {"modules", "calls", "values"}),
        ("recomputed", 0, 1, 7, {"modules", "records", "values"}),
        ("samples", 0, 1, 33, {"modules", "calls", "records"}),
    ],
)
def test_only_what_is_equal_is_shared(
    table: str, row: int, column: int, cell: object, shared: set[str]
) -> None:
    known = like(TEXT)
    text = changed(lambda index: index[table]["rows"][row].__setitem__(column, cell))

    index, problems, _ = decode_index(text, like=known)

    assert problems == []
    assert index == decode_index(text)[0]
    assert index != known.index
    names = ("modules", "calls", "records", "values")
    assert {name for name in names if getattr(index, name) is getattr(known.index, name)} == shared


@pytest.mark.parametrize(
    ("table", "row", "column", "cell", "loc"),
    [
        ("calls", 1, 0, 2, "records[2].module"),
        ("values", 0, 2, 5, "records[0].shape"),
    ],
)
def test_rows_of_equal_text_are_checked_against_what_they_refer_to(
    table: str, row: int, column: int, cell: object, loc: str
) -> None:
    text = changed(lambda index: index[table]["rows"][row].__setitem__(column, cell))

    index, problems, _ = decode_index(text, like=like(TEXT))

    assert index is None
    assert loc in [problem.loc for problem in problems]
    assert problems == decode_index(text)[1]


@pytest.mark.parametrize("table", ["modules", "calls", "values"])
def test_rows_of_equal_text_need_as_many_rows_to_refer_to(table: str) -> None:
    text = changed(lambda index: index[table]["rows"].pop())

    index, problems, _ = decode_index(text, like=like(TEXT))

    assert index is None
    assert problems != []
    assert problems == decode_index(text)[1]


def test_an_index_without_a_table_is_not_like_one_with_it() -> None:
    without = changed(lambda index: index.pop("recomputed"))

    index, problems, _ = decode_index(without, like=like(TEXT))

    assert problems == []
    assert index is not None
    assert [call.recomputed for call in index.calls] == [0, 0, 0]
