"""Every result has the members that docs/python.md promises, and they say the same thing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import padiff
from padiff.dumpfile import SourceLine
from tests.support.dumps import DumpBuilder
from tests.support.members import ask_every_member
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from collections.abc import Callable


def compared(folder: Path, *, is_good: bool) -> padiff.Comparison:
    return padiff.compare(*tiny_pair(folder, eps=1e-5 if is_good else 0.5))


def opened(folder: Path, *, is_good: bool) -> padiff.Dump:
    x = np.ones((2, 3), np.float32)
    output = x if is_good else x * np.inf
    builder = DumpBuilder().module("", "Net")
    builder.call("", inputs=[x], outputs=[output], site=SourceLine(file="net.py", line=7))
    return padiff.open_dump(builder.write(folder / "dump"))


def planned(folder: Path, *, is_good: bool) -> padiff.Plan:
    reference, candidate = tiny_pair(folder)
    if not is_good:
        padiff.save("other", {"x": 1.0}, out=folder)
        candidate = folder / "other"
    return padiff.plan_weights(reference, candidate)


def loaded(_: Path, *, is_good: bool) -> padiff.Comparison:
    batches = [np.ones(3, np.float32), np.zeros(3, np.float32)]
    other = batches if is_good else [batches[0], batches[1] + 1]
    return padiff.check_dataloader(batches, other, quiet=True)


MAKERS: dict[str, Callable[..., Any]] = {
    "compare": compared,
    "open_dump": opened,
    "plan_weights": planned,
    "check_dataloader": loaded,
}
"""The results that need no framework; tests/frameworks/test_members.py asks those of models."""


@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_every_result_has_every_member(name: str, is_good: bool, tmp_path: Path) -> None:
    result = MAKERS[name](tmp_path, is_good=is_good)

    assert bool(result) is (is_good or name == "open_dump")
    ask_every_member(result, tmp_path, is_good=is_good)


def test_an_open_weight_says_its_side_module_and_why(tmp_path: Path) -> None:
    plan = planned(tmp_path, is_good=False)

    assert len(plan.origins) == len(plan.missing) + len(plan.ambiguous)
    assert plan.first is not None
    assert plan.first.where.endswith(plan.missing[0])
    assert plan.first.where.startswith(("reference ", "candidate "))
    assert plan.first.module
    assert plan.first.cause


def test_a_dump_says_where_nan_or_inf_came_from(tmp_path: Path) -> None:
    dump = opened(tmp_path, is_good=False)

    (found,) = dump.origins

    assert found.where == "step 0 (root)#0 output"
    assert found.cause == "nan or inf from finite inputs"
    assert found.source == "net.py:7"


def test_the_page_lists_the_members_and_who_has_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "python.md").read_text(encoding="utf-8")
    section = page.partition("## What every result has")[2].partition("\n## ")[0]

    for name in ("first", "origins", "report", "to_html", "to_json", "to_dataframe"):
        assert f"`{name}" in section
    for name in ("compare", "auto_diff", "record", "open_dump", "audit", "plan_weights"):
        assert f"`padiff.{name}`" in section
