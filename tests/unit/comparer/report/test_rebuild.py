"""A report that went through JSON is drawn at a terminal as if the dumps were there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from padiff.comparer import CompareSettings, compare
from padiff.comparer.report.json_report import to_json
from padiff.comparer.report.rebuild import rebuild
from padiff.dumpfile import ConfigError, Keep
from tests.support.comparisons import resnet_like
from tests.support.drawing import draw
from tests.support.dumps import write_dump
from tests.support.tiny_net import tiny_net, tiny_pair

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer import Comparison


def through_json(result: Comparison) -> Comparison:
    return rebuild(json.loads(json.dumps(to_json(result), allow_nan=False)))


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        {},
        {"eps": 0.5},
        {"gradient_change": 0.1},
        {"weight_change": 0.1},
        {"eps": float("nan")},
        {"backward": False},
    ],
)
def test_text_of_two_dumps_is_the_same(
    fault: dict[str, Any], verbose: bool, tmp_path: Path
) -> None:
    result = compare(*tiny_pair(tmp_path, **fault), CompareSettings(atol=1e-5))

    text = draw(through_json(result), verbose=verbose, explain_pairing=verbose)

    assert text == draw(result, verbose=verbose, explain_pairing=verbose)


def test_text_of_several_steps_and_ranks_is_the_same(tmp_path: Path) -> None:
    reference = write_dump(tmp_path / "one", *(tiny_net(step=step) for step in range(3)))
    candidate = write_dump(
        tmp_path / "other", tiny_net("paddle"), tiny_net("paddle", step=1, eps=0.1)
    )
    result = compare(reference, candidate, CompareSettings())

    assert draw(through_json(result)) == draw(result)


def test_text_of_partial_dumps_is_the_same(tmp_path: Path) -> None:
    paths = [
        tiny_net(framework, eps=eps).write(tmp_path / framework, content=Keep.parse("stats"))
        for framework, eps in (("torch", 1e-5), ("paddle", 0.5))
    ]
    result = compare(paths[0], paths[1], CompareSettings())

    assert draw(through_json(result)) == draw(result)


def test_text_of_what_has_no_place_in_the_tree_is_the_same() -> None:
    result = resnet_like()

    assert draw(through_json(result)).splitlines()[0] == draw(result).splitlines()[0]


def test_layout_of_the_candidate_is_kept() -> None:
    result = resnet_like()
    step = result.steps[0]
    moved = replace(step.pairs[0], layout="reshape", candidate_layout="transpose")
    result = replace(result, steps=(replace(step, pairs=(moved, *step.pairs[1:])),))

    assert through_json(result).steps[0].pairs[0].candidate_layout == "transpose"


@pytest.mark.parametrize(
    ("name", "value"),
    [("verdict", "failed"), ("steps", [{"step": 0}]), ("pairs", [{}]), ("settings", [])],
)
def test_what_no_comparison_says_is_refused(name: str, value: object) -> None:
    data = {**to_json(resnet_like()), name: value}

    with pytest.raises(ConfigError, match="cannot read"):
        rebuild(data)  # type: ignore[arg-type]
