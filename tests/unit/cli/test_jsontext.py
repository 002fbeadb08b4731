"""JSON has a line for each record, and is asked for one at a time."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from padiff.cli.output import json_pieces
from padiff.comparer.report.json_report import report_parts, to_json
from tests.support.comparisons import resnet_like

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # a lone surrogate is JSON, too
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


def text_of(data: object) -> str:
    return "".join(json_pieces(data))


@given(VALUES)
def test_it_says_what_the_data_say_in_ascii(data: object) -> None:
    text = text_of(data)

    assert json.loads(text) == data
    assert text.isascii()
    assert text.endswith("\n")


def test_a_record_stands_on_one_line_and_what_tells_more_on_several() -> None:
    data = {
        "settings": {"atol": None, "rules": ["a", "b"], "empty": {}},
        "origins": [{"pair": {"a": {"b": [1]}}, "evidence": ["x"], "causes": [{"n": 1}]}],
        "pairs": [{"hull": [[1, 2]], "shape": [], "at": {"m": 1}}, {}],
        "steps": [],
    }

    assert text_of(data).splitlines() == [
        "{",
        ' "settings": {',
        '  "atol": null,',
        '  "rules": [',
        '   "a",',
        '   "b"',
        "  ],",
        '  "empty": {}',
        " },",
        ' "origins": [',
        "  {",
        '   "pair": {"a": {"b": [1]}},',
        '   "evidence": [',
        '    "x"',
        "   ],",
        '   "causes": [',
        '    {"n": 1}',
        "   ]",
        "  }",
        " ],",
        ' "pairs": [',
        '  {"hull": [[1, 2]], "shape": [], "at": {"m": 1}},',
        "  {}",
        " ],",
        ' "steps": []',
        "}",
    ]


def test_lists_may_be_iterators() -> None:
    entries: list[object] = [{"a": [1]}, 2]

    text = text_of({"some": iter(entries), "none": iter(()), "in": {"side": iter(entries)}})

    assert text == text_of({"some": entries, "none": [], "in": {"side": entries}})


def test_entries_of_an_iterator_are_asked_for_one_at_a_time() -> None:
    asked: list[int] = []

    def entries() -> Iterator[object]:
        for number in range(3):
            asked.append(number)
            yield {"number": number}

    pieces = json_pieces({"records": entries()})
    found = next(piece for piece in pieces if "number" in piece)

    assert json.loads(found.lstrip("[")) == {"number": 0}
    assert asked == [0]


def test_a_report_is_the_same_from_lists_and_iterators_with_a_line_for_each_pair() -> None:
    data: Any = to_json(resnet_like())
    pairs = data["steps"][0]["pairs"]

    text = text_of(report_parts(resnet_like()))

    assert text == text_of(data)
    assert json.loads(text) == data
    assert {f"    {json.dumps(pair)}" for pair in pairs} <= {
        line.rstrip(",") for line in text.splitlines()
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, object()])
@pytest.mark.parametrize("level", range(4))
def test_what_strict_json_cannot_hold_is_refused(value: object, level: int) -> None:
    data = value
    for _ in range(level):
        data = {"a": [data]}

    with pytest.raises((ValueError, TypeError)):
        text_of(data)
