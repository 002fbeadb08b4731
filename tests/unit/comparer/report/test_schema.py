"""The published schema is what the classes say, and every report follows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from padiff.comparer.report.json_report import schema, to_json
from tests.support.comparisons import resnet_like
from tests.support.hostile_names import NASTY, named

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison

PUBLISHED = json.loads(
    (Path(__file__).parents[4] / "docs" / "report.schema.json").read_text(encoding="utf-8")
)


def validate(data: object) -> None:
    jsonschema.Draft202012Validator(PUBLISHED).validate(data)


def test_the_published_schema_is_that_of_the_classes() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)

    assert schema() == PUBLISHED, "run `make golden`"


def test_every_class_field_and_word_of_a_result_is_described() -> None:
    definitions = PUBLISHED["$defs"]

    assert {"Verdict", "Metrics", "Edit", "Execution", "Details"} <= definitions.keys()
    assert all(one["description"] for one in definitions.values())


@pytest.mark.parametrize("result", [resnet_like(), *map(named, NASTY)], ids=lambda _: "report")
def test_json_follows_the_published_schema(result: Comparison) -> None:
    validate(json.loads(json.dumps(to_json(result), allow_nan=False)))


def test_schema_refuses_what_the_report_never_says() -> None:
    data = to_json(resnet_like())

    for changed in (
        {**data, "verdict": "failed"},
        {**data, "more": 1},
        {name: value for name, value in data.items() if name != "steps"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate(changed)
