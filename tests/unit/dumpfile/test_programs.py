"""Programs on disk: what is written is read back, and nothing hostile is taken for a program."""

from __future__ import annotations

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
from padiff.dumpfile.programcolumns import PROGRAM_COLUMNS, decode_program, encode_program

if TYPE_CHECKING:
    from padiff.dumpfile import Problem

LIMITS = {"calls": 1, "records": 2, "contents": 4}
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


def decoded(
    datasets: dict[str, np.ndarray[Any, Any]],
) -> tuple[ProgramColumns | None, list[Problem]]:
    return decode_program(datasets.__getitem__, LIMITS)


def test_what_is_written_is_read_back() -> None:
    columns = small().columns()

    found, problems = decoded(encode_program(columns))

    assert problems == []
    assert found is not None
    assert found.strings == columns.strings
    for name in PROGRAM_COLUMNS[2:]:
        np.testing.assert_array_equal(getattr(found, name), getattr(columns, name), err_msg=name)
    assert found.shape(int(found.value_shape[0])) == (2, 3)


def test_names_take_no_room_where_no_value_has_one() -> None:
    builder = ProgramBuilder()
    builder.add_value(dtype="int64", shape=(), content=None, kind=LeafKind.CONSTANT)

    datasets = encode_program(builder.columns())
    found, problems = decoded(datasets)

    assert datasets["value_name"].size == 0
    assert problems == []
    assert found is not None
    assert found.value_name.tolist() == [-1]


def test_columns_are_as_narrow_as_their_numbers() -> None:
    datasets = encode_program(small().columns())

    assert datasets["operator_call"].dtype == np.int8
    assert datasets["operator_mode"].dtype == np.uint8
    assert datasets["argument_number"].dtype == np.int64


def broken(name: str, at: int, number: int) -> dict[str, np.ndarray[Any, Any]]:
    datasets = encode_program(small().columns())
    changed = datasets[name].astype(np.int64)
    changed[at] = number
    return {**datasets, name: changed}


def number_at(form: Form) -> int:
    """Find the first argument of a form in the small program."""
    return int(np.flatnonzero(small().columns().argument_form == form)[0])


@pytest.mark.parametrize(
    ("name", "at", "number", "kind"),
    [
        ("value_dtype", 0, 99, ProblemKind.RANGE),
        ("value_shape", 0, -1, ProblemKind.RANGE),
        ("value_kind", 0, 40, ProblemKind.RANGE),
        ("value_content", 0, 4, ProblemKind.RANGE),
        ("operator_name", 1, 999, ProblemKind.RANGE),
        ("operator_call", 0, 1, ProblemKind.RANGE),
        ("operator_mode", 0, 128, ProblemKind.RANGE),
        ("operator_mode", 0, 64, ProblemKind.REFERENCE),
        ("operator_mode", 1, 64, ProblemKind.REFERENCE),
        ("operator_site", 0, 5, ProblemKind.RANGE),
        ("operator_rows", 0, 1, ProblemKind.SIZE),
        ("operator_rows", 0, -1, ProblemKind.SIZE),
        ("operator_outputs", 0, 1 << 40, ProblemKind.SIZE),
        ("argument_form", 0, 14, ProblemKind.RANGE),
        ("argument_key", 0, 1 << 30, ProblemKind.RANGE),
        ("outputs", 0, 3, ProblemKind.RANGE),
        ("border_record", 0, 2, ProblemKind.RANGE),
        ("border_value", 0, -1, ProblemKind.RANGE),
        ("shape_sizes", 0, -2, ProblemKind.RANGE),
        ("shape_ends", 0, 1 << 40, ProblemKind.RANGE),
        ("string_ends", 0, -5, ProblemKind.SIZE),
        ("string_bytes", 0, 255, ProblemKind.SYNTAX),
        ("value_kind", 2, 1, None),
        ("value_kind", 0, 0, ProblemKind.REFERENCE),
        ("argument_number", number_at(Form.VALUE), 2, ProblemKind.REFERENCE),
        ("argument_number", number_at(Form.FLOAT), 9, ProblemKind.RANGE),
        ("argument_number", number_at(Form.STRING), -1, ProblemKind.RANGE),
        ("argument_number", number_at(Form.TUPLE), 18, ProblemKind.REFERENCE),
        ("argument_number", number_at(Form.MAPPING), 1 << 62, ProblemKind.RANGE),
    ],
)
def test_numbers_that_cannot_be_are_told(
    name: str, at: int, number: int, kind: ProblemKind | None
) -> None:
    found, problems = decoded(broken(name, at, number))

    assert [problem.kind for problem in problems] == ([] if kind is None else [kind])
    assert (found is None) is (kind is not None)


def test_what_ran_while_the_model_was_built_stands_last_with_values_of_its_own() -> None:
    builder = small()
    made = builder.add_value(dtype="float32", shape=(), content=None)
    builder.add_operator("k", [(None, 2.0)], [made], call=None, mode=Mode.CONSTRUCTION)

    found, problems = decoded(encode_program(builder.columns()))

    assert problems == []
    assert found is not None
    assert found.construction == (2, made)
    builder.add_border(0, made)  # the forward pass has no such value
    assert [one.kind for one in decoded(encode_program(builder.columns()))[1]] == [
        ProblemKind.REFERENCE
    ]


@pytest.mark.parametrize("form", [Form.COMPLEX, Form.VALUE, Form.FLOAT])
def test_what_is_not_there_cannot_be_an_argument(form: Form) -> None:
    builder = ProgramBuilder()
    given = 0.5 if form is Form.COMPLEX else 3
    builder.add_operator("f", [(None, given)], [], call=None)
    datasets = encode_program(builder.columns())
    changes = {"argument_form": np.array([form]), "argument_number": np.array([0])}

    found, problems = decoded({**datasets, **changes})

    assert found is None
    assert [one.kind for one in problems] == [ProblemKind.RANGE]


@pytest.mark.parametrize("name", ["value_content", "value_gradient"])
def test_contents_have_as_many_elements_as_their_value(name: str) -> None:
    datasets = broken(name, 1, 2)

    fitting, none = decode_program(datasets.__getitem__, LIMITS, sizes=(0, 0, 6, 0))
    found, problems = decode_program(datasets.__getitem__, LIMITS, sizes=(6, 6, 5, 6))

    assert fitting is not None
    assert none == []
    assert found is None
    assert [(one.loc, one.kind) for one in problems] == [(f"program.{name}", ProblemKind.SIZE)]


def test_a_column_of_another_length_is_told() -> None:
    datasets = encode_program(small().columns())
    datasets["value_name"] = datasets["value_name"][:-1]

    found, problems = decoded(datasets)

    assert found is None
    assert [(one.loc, one.kind) for one in problems] == [("program.value", ProblemKind.SIZE)]


def test_arguments_nested_without_end_are_refused() -> None:
    builder = ProgramBuilder()
    nested: Argument = 1
    for _ in range(40):
        nested = (nested,)
    builder.add_operator("f", [(None, nested)], [], call=None)

    found, problems = decoded(encode_program(builder.columns()))

    assert found is None
    assert [one.kind for one in problems] == [ProblemKind.REFERENCE]


@given(st.sampled_from(PROGRAM_COLUMNS), st.data())
def test_damaged_columns_end_in_problems_or_in_a_program(name: str, data: st.DataObject) -> None:
    datasets = encode_program(small().columns())
    column = datasets[name]
    if column.size:
        at = data.draw(st.integers(0, column.size - 1))
        column = column.copy() if name == "floats" else column.astype(np.int64)
        column[at] = data.draw(st.integers(-(1 << 62), 1 << 62))
    datasets[name] = column[: data.draw(st.integers(0, column.size))]

    found, problems = decoded(datasets)

    assert (found is None) is bool(problems)
