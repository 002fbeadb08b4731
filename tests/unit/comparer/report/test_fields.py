"""Entries of JSON that anybody may have written are asked for by name and type."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from padiff.comparer.report.fields import Fields
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

WRONG: tuple[tuple[str, object, Callable[[Fields], object], str], ...] = (
    ("text", None, lambda top: top.text("x"), "a string, found null"),
    ("text", 1, lambda top: top.maybe_text("x"), "a string, found int"),
    ("texts", ["a", 1], lambda top: top.texts("x"), "a list of strings, found list"),
    ("integer", True, lambda top: top.integer("x"), "an integer, found bool"),
    ("integer", 1.0, lambda top: top.maybe_integer("x"), "an integer, found float"),
    ("integers", [1, True], lambda top: top.integers("x"), "a list of integers, found list"),
    ("number", True, lambda top: top.number("x"), "a number, found bool"),
    ("number", "1", lambda top: top.number("x"), "a number, found str"),
    ("numbers", "NaN", lambda top: top.numbers(without="_"), "a number, found str"),
    ("flag", 0, lambda top: top.maybe_flag("x"), "true or false, found int"),
    ("each", {}, lambda top: top.inners("x"), "a list, found dict"),
)


@pytest.mark.parametrize(("value", "ask", "said"), [case[1:] for case in WRONG])
def test_an_entry_of_another_type_is_refused_by_its_place(
    value: object, ask: Callable[[Fields], object], said: str
) -> None:
    top = Fields({"list": [{"x": value}]}, "report")

    with pytest.raises(ConfigError, match=re.escape(f"report.list[0].x: expected {said}")):
        ask(top.inners("list")[0])


@pytest.mark.parametrize(
    "ask", [case[2] for case in WRONG if case[0] != "numbers"] + [lambda top: top.raw("x")]
)
def test_an_entry_that_is_not_there_is_refused(ask: Callable[[Fields], object]) -> None:
    with pytest.raises(ConfigError, match=r"report\.a: expected 'x', found no such entry"):
        ask(Fields({"a": {}}, "report").inner("a"))


def test_an_entry_that_is_no_object_is_refused_by_its_place() -> None:
    with pytest.raises(
        ConfigError, match=r"cannot read report.x\[1\]: expected an object, found int"
    ):
        Fields({"x": [{}, 2]}, "report").inners("x")


def test_numbers_have_nan_and_inf_by_name_and_null() -> None:
    found = Fields({"a": 1, "b": 2.5, "c": "-inf", "d": None, "skip_index": [1]}, "report").numbers(
        without="_index"
    )

    assert found == {"a": 1, "b": 2.5, "c": -math.inf, "d": None}
    assert Fields({"a": "nan"}, "report").number("a") != 0


def test_a_list_may_be_an_iterator() -> None:
    top = Fields({"x": iter([{"a": 1}, {"a": 2}])}, "report")

    assert [entry.integer("a") for entry in top.each("x")] == [1, 2]
