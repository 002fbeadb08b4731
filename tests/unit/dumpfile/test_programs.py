"""Programs on disk: what is written is read back, and nothing hostile is taken for a program."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from padiff.dumpfile import (
    Argument,
    Dtype,
    Form,
    LeafKind,
    Mode,
    Opaque,
    ProblemKind,
    ProgramBuilder,
    ProgramColumns,
    Slice,
    SourceLine,
    ValueRef,
)
from padiff.dumpfile.columns import PoolsBuilder, read_pools
from padiff.dumpfile.programcolumns import PROGRAM_TABLES, decode_program, encode_program
from tests.support.indexes import with_number

if TYPE_CHECKING:
    from padiff.dumpfile import Problem

NESTED: tuple[tuple[str | None, Argument], ...] = (
    (None, ValueRef(0)),
    (None, (ValueRef(1), None, True, (Slice(0, ValueRef(0)), ...))),
    ("alpha", 2.5),
    ("shift", complex(1, -2)),
    ("dtype", Dtype("bfloat16")),
    ("device", Opaque("cpu")),
    ("options", {"mode": "linear", "size": (3, -1)}),
    ("large", 1 << 40),
)


def small() -> ProgramBuilder:
    """Build a program of two leaves and two operators."""
    builder = ProgramBuilder()
    for name in ("weight", "bias"):
        builder.add_value(
            dtype="float32", shape=(2, 3), content=None, kind=LeafKind.PARAMETER, name=name
        )
    made = builder.add_value(dtype="float32", shape=(), content=None)
    builder.add_operator(
        "f", NESTED, [made], call=0, mode=3, site=SourceLine(file="m.py", line=7, function="g")
    )
    builder.add_operator("h", [(None, ValueRef(made))], [made], call=None)
    builder.add_border(1, made)
    return builder


Datasets = dict[str, np.ndarray[Any, Any]]


def encoded(builder: ProgramBuilder) -> tuple[Datasets, Datasets]:
    """Return the datasets of a program, and those of the pools."""
    pools = PoolsBuilder()
    pools.text("what the index says")
    return encode_program(builder.columns(), pools), pools.datasets()


def decoded(
    datasets: tuple[Datasets, Datasets], sizes: tuple[int, ...] = (1, 1, 6, 6)
) -> tuple[ProgramColumns | None, list[Problem]]:
    """Read a program beside an index of one call and two records."""
    problems: list[Problem] = []
    pools = read_pools(datasets[1], problems)
    if pools is None:
        return None, problems
    index = {
        "calls": {"module": np.zeros(1, np.int64)},
        "records": {"module": np.zeros(2, np.int64)},
        "values": {"size": np.array(sizes)},
    }
    return decode_program(datasets[0], index, pools)


def test_what_is_written_is_read_back() -> None:
    columns = small().columns()

    found, problems = decoded(encoded(small()))

    assert problems == []
    assert found is not None
    names = [item.name for item in fields(ProgramColumns)]
    moved = (
        *("string", "shape", "site", "value_dtype", "value_shape", "value_name"),
        *("argument_key", "argument_number", "operator_name", "operator_site"),
    )
    for name in (name for name in names if not name.startswith(moved)):
        np.testing.assert_array_equal(getattr(found, name), getattr(columns, name), err_msg=name)
    assert found.shape(int(found.value_shape[0])) == (2, 3)
    for name in ("value_dtype", "value_name", "operator_name", "argument_key"):
        before, after = getattr(columns, name), getattr(found, name)
        texts = [None if one < 0 else columns.strings[one] for one in before]
        assert [None if one < 0 else found.strings[one] for one in after] == texts
    site = int(found.operator_site[0])
    assert found.strings[found.site_file[site]] == "m.py"
    assert found.site_line[site] == 7
    assert found.operator_site[1] == -1
    text = number_at(Form.OPAQUE)
    assert found.strings[found.argument_number[text]] == "cpu"


def test_columns_are_as_narrow_as_their_numbers() -> None:
    datasets, _ = encoded(small())

    assert datasets["operators"].dtype["call"] == np.int8
    assert datasets["operators"].dtype["mode"] == np.uint8
    assert datasets["arguments"].dtype["number"] == np.int64


def broken(name: str, at: int, number: int) -> tuple[Datasets, Datasets]:
    """Return a program with one number changed, in a column of a table or of a pool."""
    datasets, pools = encoded(small())
    table, _, column = name.partition(".")
    where = datasets if table in datasets else pools
    where[table] = with_number(where[table], column or None, at, number)
    return datasets, pools


def number_at(form: Form) -> int:
    """Find the first argument of a form in the small program."""
    return int(np.flatnonzero(small().columns().argument_form == form)[0])


@pytest.mark.parametrize(
    ("name", "at", "number", "kind"),
    [
        ("values.dtype", 0, 99, ProblemKind.REFERENCE),
        ("values.shape", 0, -1, ProblemKind.TYPE),
        ("values.kind", 0, 40, ProblemKind.TYPE),
        ("values.content", 0, 4, ProblemKind.REFERENCE),
        ("operators.name", 1, 999, ProblemKind.REFERENCE),
        ("operators.call", 0, 1, ProblemKind.REFERENCE),
        ("operators.mode", 0, 256, ProblemKind.TYPE),
        ("operators.mode", 0, 64, ProblemKind.REFERENCE),
        ("operators.mode", 1, 64, ProblemKind.REFERENCE),
        ("operators.site", 0, 5, ProblemKind.REFERENCE),
        ("operators.rows", 0, 1, ProblemKind.SIZE),
        ("operators.rows", 0, -1, ProblemKind.TYPE),
        ("operators.outputs", 0, 1 << 40, ProblemKind.SIZE),
        ("arguments.form", 0, 14, ProblemKind.TYPE),
        ("arguments.key", 0, 1 << 30, ProblemKind.REFERENCE),
        ("outputs.value", 0, 3, ProblemKind.REFERENCE),
        ("borders.record", 0, 2, ProblemKind.REFERENCE),
        ("borders.value", 0, -1, ProblemKind.REFERENCE),
        ("list_items", 0, -2, ProblemKind.TYPE),
        ("list_ends", 0, 1 << 40, ProblemKind.SIZE),
        ("string_ends", 0, -5, ProblemKind.SIZE),
        ("string_bytes", 0, 255, ProblemKind.SYNTAX),
        ("sites.line", 0, -7, ProblemKind.TYPE),
        ("sites.file", 0, 99, ProblemKind.REFERENCE),
        ("values.kind", 2, 1, None),
        ("values.kind", 0, 0, ProblemKind.REFERENCE),
        ("arguments.number", number_at(Form.VALUE), 2, ProblemKind.REFERENCE),
        ("arguments.number", number_at(Form.FLOAT), 9, ProblemKind.RANGE),
        ("arguments.number", number_at(Form.STRING), -1, ProblemKind.RANGE),
        ("arguments.number", number_at(Form.TUPLE), 18, ProblemKind.REFERENCE),
        ("arguments.number", number_at(Form.MAPPING), 1 << 62, ProblemKind.RANGE),
    ],
)
def test_numbers_that_cannot_be_are_told(
    name: str, at: int, number: int, kind: ProblemKind | None
) -> None:
    found, problems = decoded(broken(name, at, number))

    assert {problem.kind for problem in problems} == (set() if kind is None else {kind})
    assert (found is None) is (kind is not None)


def test_what_ran_while_the_model_was_built_stands_last_with_values_of_its_own() -> None:
    builder = small()
    made = builder.add_value(dtype="float32", shape=(), content=None)
    builder.add_operator("k", [(None, 2.0)], [made], call=None, mode=Mode.CONSTRUCTION)

    found, problems = decoded(encoded(builder))

    assert problems == []
    assert found is not None
    assert found.construction == (2, made)
    builder.add_border(0, made)  # the forward pass has no such value
    assert [one.kind for one in decoded(encoded(builder))[1]] == [ProblemKind.REFERENCE]


@pytest.mark.parametrize("form", [Form.COMPLEX, Form.VALUE, Form.FLOAT])
def test_what_is_not_there_cannot_be_an_argument(form: Form) -> None:
    builder = ProgramBuilder()
    given = 0.5 if form is Form.COMPLEX else 3
    builder.add_operator("f", [(None, given)], [], call=None)
    datasets, pools = encoded(builder)
    for column, number in (("form", int(form)), ("number", 0)):
        datasets["arguments"] = with_number(datasets["arguments"], column, 0, number)

    found, problems = decoded((datasets, pools))

    assert found is None
    assert [one.kind for one in problems] == [ProblemKind.RANGE]


@pytest.mark.parametrize("name", ["content", "gradient"])
def test_contents_have_as_many_elements_as_their_value(name: str) -> None:
    datasets = broken(f"values.{name}", 1, 2)

    fitting, none = decoded(datasets, sizes=(0, 0, 6, 0))
    found, problems = decoded(datasets, sizes=(6, 6, 5, 6))

    assert fitting is not None
    assert none == []
    assert found is None
    loc = f"program.value_{name}"
    assert [(one.loc, one.kind) for one in problems] == [(loc, ProblemKind.SIZE)]


def test_a_table_without_a_column_is_told() -> None:
    datasets, pools = encoded(small())
    datasets["borders"] = datasets["borders"][["record"]]

    found, problems = decoded((datasets, pools))

    assert found is None
    loc = "program.borders.columns"
    assert [(one.loc, one.kind) for one in problems] == [(loc, ProblemKind.MISSING)]


@pytest.mark.parametrize("table", PROGRAM_TABLES)
def test_a_table_that_is_not_there_is_told(table: str) -> None:
    datasets, pools = encoded(small())
    del datasets[table]

    found, problems = decoded((datasets, pools))

    assert found is None
    assert [(one.loc, one.kind) for one in problems] == [("program", ProblemKind.MISSING)]


def test_arguments_nested_without_end_are_refused() -> None:
    builder = ProgramBuilder()
    nested: Argument = 1
    for _ in range(40):
        nested = (nested,)
    builder.add_operator("f", [(None, nested)], [], call=None)

    found, problems = decoded(encoded(builder))

    assert found is None
    assert [one.kind for one in problems] == [ProblemKind.REFERENCE]


@given(st.data())
def test_damaged_columns_end_in_problems_or_in_a_program(data: st.DataObject) -> None:
    datasets, pools = encoded(small())
    where = data.draw(st.sampled_from([datasets, pools]))
    name = data.draw(st.sampled_from(sorted(where)))
    table = where[name]
    if table.size:
        at = data.draw(st.integers(0, table.size - 1))
        names = table.dtype.names
        column = None if names is None else data.draw(st.sampled_from(names))
        number = data.draw(st.integers(-(1 << 62), 1 << 62))
        where[name] = with_number(table, column, at, number)
    where[name] = where[name][: data.draw(st.integers(0, table.size))]

    found, problems = decoded((datasets, pools))

    assert (found is None) is bool(problems)
