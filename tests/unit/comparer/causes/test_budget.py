"""The work of all searches for causes of one comparison is bounded, shared and counted."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from padiff.comparer import CompareSettings, compare, comparison
from padiff.comparer.causes.budget import MOST_AT_ONCE, USED_UP, Budget
from padiff.comparer.causes.causes import LOOKING
from padiff.comparer.causes.causesides import MOST_ELEMENTS
from padiff.comparer.report.csv_report import to_csv
from padiff.comparer.report.html import to_html
from padiff.comparer.report.json_report import to_json
from padiff.comparer.report.markdown import to_markdown
from padiff.comparer.report.reading import read_report
from padiff.comparer.report.sarif import to_sarif
from tests.support.drawing import draw
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import Array, normal

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer import Comparison, Divergence

HEADS, TOKENS, WIDTH = 2, 48, 4
SHAPE = (1, TOKENS, HEADS * WIDTH)
ALL_SCORES = HEADS * TOKENS * TOKENS


def mixed(parts: list[Array], *, is_causal: bool) -> Array:
    """Mix values head by head and token by token."""
    query, key, value = (part.reshape(TOKENS, HEADS, WIDTH).astype(float) for part in parts)
    made = np.zeros((TOKENS, HEADS, WIDTH))
    for token in range(TOKENS):
        seen = token + 1 if is_causal else TOKENS
        for head in range(HEADS):
            powers = np.exp(key[:seen, head] @ query[token, head] / WIDTH**0.5)
            made[token, head] = powers / powers.sum() @ value[:seen, head]
    whole: Array = made.reshape(SHAPE).astype(np.float32)
    return whole


class Asked(NamedTuple):
    """A comparison, and what its searches asked for."""

    result: Comparison
    budget: Budget

    @property
    def explained(self) -> list[bool]:
        """Tell of each origin whether its cause was found."""
        return [any("both are attentions" in line for line in one.evidence) for one in self.origins]

    @property
    def cut(self) -> list[bool]:
        """Tell of each origin whether it says that not all was looked for."""
        return [USED_UP in one.evidence for one in self.origins]

    @property
    def origins(self) -> list[Divergence]:
        """Give the origins."""
        return list(self.result.origins)


def attentions(
    count: int, folder: Path, monkeypatch: pytest.MonkeyPatch, budget: Budget | None = None
) -> Asked:
    """Compare attentions side by side that have a mask on the reference alone."""
    paths = []
    source = normal(1, 3, seed=5)
    for side, is_causal in (("masked", True), ("plain", False)):
        built = DumpBuilder().module("", "Net")
        for place in range(count):
            name = f"part{place}"
            built.module(name, "Attention").module(f"{name}.out", "Out")
            for what in ("q", "k", "v"):
                built.module(f"{name}.{what}", "Project")
        built.enter("", inputs=[source])
        for place in range(count):
            name = f"part{place}"
            parts = [normal(*SHAPE, seed=100 * place + each) for each in range(3)]
            built.enter(name, inputs=[source])
            for what, part in zip("qkv", parts, strict=True):
                built.call(f"{name}.{what}", inputs=[source], outputs=[part])
            made = mixed(parts, is_causal=is_causal)
            built.call(f"{name}.out", inputs=[made], outputs=[made[:, :1] * 2])
            built.leave(outputs=[made[:, :1] * 2])
        paths.append(built.leave(outputs=[source]).write(folder / side))
    given = budget or Budget()
    monkeypatch.setattr(comparison, "Budget", lambda: given)
    return Asked(compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)), given)


def test_what_is_left_over_goes_to_those_who_ask_for_less() -> None:
    budget = Budget(10)

    assert [budget.grants(wanted) for wanted in (6, 5, 4, 1)] == [True, False, True, False]
    assert (budget.spent, budget.refusals) == (10, 2)


def test_one_divergence_leaves_something_for_the_others() -> None:
    budget = Budget(10, 6)

    with budget.one_divergence():
        assert [budget.grants(wanted) for wanted in (6, 1)] == [True, False]
    with budget.one_divergence():
        assert [budget.grants(wanted) for wanted in (4, 1)] == [True, False]


def test_ways_are_tried_as_long_as_there_is_work_for_one_more() -> None:
    budget = Budget(7)

    assert list(budget.tries(range(10), 3)) == [0, 1]
    assert (budget.spent, budget.refusals) == (6, 1)


def test_attentions_are_all_explained_and_forms_are_tried_on_a_part_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = attentions(1, tmp_path / "one", monkeypatch)
    many = attentions(6, tmp_path / "many", monkeypatch)

    assert (one.explained, many.explained) == ([True], [True] * 6)
    assert not any(many.cut)
    assert many.budget.refusals == 0
    # more than a hundred forms are tried, each of which would take all scores
    assert one.budget.spent < LOOKING + 40 * ALL_SCORES
    assert many.budget.spent == pytest.approx(6 * one.budget.spent, rel=0.05)


def test_the_first_origins_are_explained_and_the_others_say_that_they_were_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = attentions(1, tmp_path / "one", monkeypatch).budget.spent

    most = needed * 9 // 4
    found = attentions(4, tmp_path / "many", monkeypatch, Budget(most))

    assert found.explained == [True, True, False, False]
    assert found.cut == [False, False, True, True]
    assert found.budget.spent <= most


def test_the_same_dumps_get_the_same_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        attentions(3, tmp_path / name, monkeypatch, Budget(LOOKING * 5 // 2))
        for name in ("one", "two")
    ]

    assert runs[0].budget.spent == runs[1].budget.spent
    assert [one.evidence for one in runs[0].origins] == [one.evidence for one in runs[1].origins]


def test_every_format_that_names_causes_says_that_some_were_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = attentions(1, tmp_path, monkeypatch, Budget(0)).result
    data = to_json(result)
    report = read_report(data)

    assert USED_UP in " ".join(draw(result, width=200).split())
    assert USED_UP in html.unescape(to_markdown(report))
    assert USED_UP in to_html(data)
    assert USED_UP in str(to_sarif(report))
    assert USED_UP in str(data["origins"])
    assert USED_UP not in to_csv(report)  # a row for each record, without causes


def test_the_largest_tensor_that_is_read_is_looked_at_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, source = normal(8, 64, 96, seed=1), normal(2, 3)
    paths = []
    for side, wrong in (("a", 0.0), ("b", 1e-2)):
        built = DumpBuilder().module("", "Net").module("m", "Layer").enter("", inputs=[source])
        found = made + np.float32(wrong) * normal(*made.shape, seed=2)
        built.call("m", inputs=[source], outputs=[found])
        paths.append(built.leave(outputs=[source]).write(tmp_path / side))
    budget = Budget()
    monkeypatch.setattr(comparison, "Budget", lambda: budget)

    origin = compare(paths[0], paths[1], CompareSettings()).origins[0]

    assert not origin.causes  # so that all was tried
    assert (budget.spent - LOOKING) / made.size < (MOST_AT_ONCE - LOOKING) / MOST_ELEMENTS


def test_a_budget_is_for_one_comparison(tmp_path: Path) -> None:
    paths = []
    for side, factor in (("a", 1.0), ("b", 1.5)):
        built = DumpBuilder().module("", "Net").module("m", "Layer")
        built.enter("", inputs=[normal(2, 3)])
        built.call("m", inputs=[normal(2, 3)], outputs=[normal(4, 4) * np.float32(factor)])
        paths.append(
            built.leave(outputs=[normal(4, 4) * np.float32(factor)]).write(tmp_path / side)
        )

    for _ in range(2):
        origin = compare(paths[0], paths[1], CompareSettings()).origins[0]

        assert [str(cause.name) for cause in origin.causes] == ["factor"]


def test_a_divergence_may_take_a_part_of_all() -> None:
    budget = Budget()

    assert not budget.grants(MOST_AT_ONCE + 1)
    assert budget.grants(MOST_AT_ONCE)
