"""The JSON report follows the schema that is published, which names all that there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from padiff.comparer.report.json_report import to_json
from padiff.comparer.result import Comparison, Evidence, Kind, Looked, Verdict
from padiff.dumpfile import Phase, Role
from padiff.pairing import PairedBy
from tests.support.comparisons import resnet_like
from tests.support.hostile_names import NASTY, named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from enum import StrEnum

SCHEMA = json.loads(
    (Path(__file__).parents[4] / "docs" / "report.schema.json").read_text(encoding="utf-8")
)


def validate(data: object) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(data)


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("result", [resnet_like(), *map(named, NASTY)], ids=lambda _: "report")
def test_json_follows_the_published_schema(result: Comparison) -> None:
    validate(json.loads(json.dumps(to_json(result), allow_nan=False)))


def enumerations(schema: object, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the enumerations of a schema with where they are."""
    if isinstance(schema, dict):
        if "enum" in schema:
            yield path, schema["enum"]
        for name, part in schema.items():
            yield from enumerations(part, f"{path}/{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from enumerations(part, path)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("role", Role),
        ("phase", Phase),
        ("paired_by", PairedBy),
        ("$defs/verdict", set(Verdict) - {Verdict.INCONCLUSIVE}),
        ("looked_at", Looked),
        ("kind", Kind),
        ("rests_on", Evidence),
    ],
)
def test_the_schema_names_all_that_there_is(name: str, kinds: Collection[StrEnum]) -> None:
    found = [words for path, words in enumerations(SCHEMA) if f"/{name}/" in f"{path}/"]

    assert found
    assert all(sorted(words) == sorted(kinds) for words in found)


def test_schema_refuses_what_the_report_never_says() -> None:
    data = to_json(resnet_like())

    with pytest.raises(jsonschema.ValidationError):
        validate({**data, "verdict": "failed"})
    with pytest.raises(jsonschema.ValidationError):
        validate({name: value for name, value in data.items() if name != "pairs"})
