"""Cases survive JSON, and what is no case is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from padiff.dumpfile import ConfigError
from padiff.ops.cases import (
    Case,
    Dtype,
    Fill,
    Layout,
    Tensor,
    cases_from_json,
    cases_to_json,
)

CASE = Case(
    operator="where",
    arguments={
        "input": Tensor(shape=(2, 0), fill=Fill.WIDE, seed=3, layout=Layout.STRIDED),
        "values": (Tensor(shape=(), elements=(float("nan"),)), 1, None, -0.5),
        "bound": float("-inf"),
        "dtype": Dtype(name="int64"),
        "mode": "same",
    },
    seed=4,
)


def test_a_case_is_the_same_after_json() -> None:
    text = json.dumps(cases_to_json([CASE]), allow_nan=False)

    assert repr(cases_from_json(json.loads(text), "x")) == repr([CASE])


@pytest.mark.parametrize(
    "damage",
    [
        {"operator": None, "arguments": 3},
        {"arguments": {}},
        {"operator": "abs", "arguments": {"x": {"tensor": {"shape": [2], "colour": 3}}}},
        {"operator": "abs", "arguments": {"x": {"tensor": {"shape": [1 << 40]}}}},
        {"operator": "abs", "arguments": {"x": {"tensor": {"shape": [2], "elements": [1]}}}},
        {"operator": "abs", "arguments": {"x": {"tensor": {"shape": [2], "dtype": "object"}}}},
        {"operator": "abs", "arguments": {"x": {"code": "1"}}},
    ],
)
def test_what_is_no_case_is_refused_with_its_place(damage: dict[str, Any]) -> None:
    data = {"padiff_cases": 1, "cases": [damage]}

    with pytest.raises(ConfigError, match=r"case 0 of 'f\.json'"):
        cases_from_json(data, "f.json")
