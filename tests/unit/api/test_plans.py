"""A plan of weights from Python."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest

import padiff
from padiff.dumpfile import ConfigError
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path


def test_a_plan_is_true_only_if_every_weight_has_a_partner(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    plan = padiff.plan_weights(reference, candidate)

    assert plan
    assert plan.missing == plan.ambiguous == ()
    assert repr(plan).endswith("0 ambiguous, 0 missing")
    assert plan.report().splitlines()[-1].endswith("0 missing, 0 dropped")
    table = plan.to_dataframe()
    assert len(table) == int(repr(plan).split()[0])
    assert not table.ambiguous.any()
    listed = json.loads(plan.to_json(tmp_path / "maps" / "plan.json").read_text())
    assert [row["candidate"] for row in listed] == list(table.candidate)
    assert tomllib.loads(plan.to_map(tmp_path / "maps" / "plan.toml").read_text())


def test_a_plan_names_what_is_missing(tmp_path: Path) -> None:
    reference, _ = tiny_pair(tmp_path)
    padiff.save("other", {"x": 1.0}, out=tmp_path)

    plan = padiff.plan_weights(reference, tmp_path / "other")

    assert not plan
    assert len(plan.missing) == len(plan.to_dataframe())
    assert f"missing: {plan.missing[0]}" in repr(plan)
    assert "<details>" in plan._repr_html_()
    page = plan.to_html(tmp_path / "pages" / "plan.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert plan.missing[0] in page.partition("<pre")[2]


def test_a_model_in_the_place_of_a_dump_is_refused_with_a_way_out(tmp_path: Path) -> None:
    reference, _ = tiny_pair(tmp_path)

    with pytest.raises(ConfigError, match="expected its path, found 'object'") as caught:
        padiff.compare(reference, object())  # type: ignore[arg-type]

    assert "auto_diff" in str(caught.value.hint)


def test_parts_of_results_have_a_repr_of_one_line(tmp_path: Path) -> None:
    found = padiff.compare(*tiny_pair(tmp_path))

    assert "\n" not in repr(found.steps[0])
    assert len(repr(found.steps[0])) < 200
