"""What has no counterpart: listed, counted against coverage, excused where the user says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from tests.support.dumps import DumpBuilder, write_dump

if TYPE_CHECKING:
    from pathlib import Path


def net(*turns: str, wrap: bool = False, extra: int = 0) -> DumpBuilder:
    """Run layers one after the other; in the order given, each as often as it is named.

    Args:
        turns: Names of layers.
        wrap: Whether all is inside one more module.
        extra: How many values a module without weights gives beside.
    """
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((4, 4)).astype(np.float32) for name in "abc"}
    data = random.standard_normal((3, 4)).astype(np.float32)
    built = DumpBuilder().module("", "Net")
    inside = "body." if wrap else ""
    if wrap:
        built.module("body", "Body")
    for name, weight in weights.items():
        built.module(f"{inside}{name}", "Linear").tensor(f"{inside}{name}", "weight", weight)
    made = data
    built.enter("", inputs=[data])
    if wrap:
        built.enter("body", inputs=[data])
    for name in turns:
        given, made = made, made @ weights[name].T
        built.call(f"{inside}{name}", inputs=[given], outputs=[made])
    if extra:
        built.module("extra", "Steps")
        steps = [random.standard_normal((3, 4)).astype(np.float32) for _ in range(extra)]
        built.call("extra", inputs=[data], outputs=steps)
    # A head brings both to the same result, so that only what is between differs.
    result = data.sum(1, keepdims=True)
    if wrap:
        built.leave(outputs=[result])
    return built.leave(outputs=[result])


def compared(
    reference: DumpBuilder, candidate: DumpBuilder, folder: Path, **chosen: object
) -> Comparison:
    paths = [
        write_dump(folder / name, built)
        for name, built in (("reference", reference), ("candidate", candidate))
    ]
    return compare(paths[0], paths[1], CompareSettings(**chosen))  # type: ignore[arg-type]


def alone(result: Comparison) -> list[tuple[str, int | None]]:
    return [
        (pair.reference.address.module, pair.reference.address.call)
        for pair in result.steps[0].pairs
        if pair.candidate is None and pair.reference and pair.verdict is Verdict.MISSING
    ]


def test_a_call_that_only_one_side_makes_is_listed_and_lowers_coverage(tmp_path: Path) -> None:
    result = compared(net("a", "b", "c", "c"), net("a", "b", "c"), tmp_path)

    step = result.steps[0]
    assert alone(result) == [("c", 1)]
    assert step.coverage_reference.fraction < 1.0
    assert step.coverage_candidate.fraction == 1.0


def test_where_the_trees_differ_one_value_of_many_may_be_alone(tmp_path: Path) -> None:
    result = compared(net(*"abcabcabcc"), net(*"abcabcabc", wrap=True), tmp_path)

    assert not result.steps[0].same_structure
    assert 0.8 <= result.steps[0].coverage_reference.fraction < 1.0
    assert result.verdict is Verdict.MATCH


def test_coverage_below_the_gate_is_a_divergence_that_says_which_gate_held(tmp_path: Path) -> None:
    result = compared(net(*"abcabcabcc"), net(*"abcabcabc", wrap=True), tmp_path, min_coverage=1.0)

    assert result.verdict is Verdict.DIVERGED
    assert any("100" in reason and "required" in reason for reason in map(str, result.reasons))


def test_what_the_user_allows_to_be_missing_counts_no_more(tmp_path: Path) -> None:
    result = compared(
        net(*"abcabcabcc"),
        net(*"abcabcabc", wrap=True),
        tmp_path,
        min_coverage=1.0,
        allow_missing=("c",),
    )

    assert result.verdict is Verdict.MATCH, result.reasons


def test_steps_that_only_one_side_makes_are_no_fault_where_all_of_the_other_side_agrees(
    tmp_path: Path,
) -> None:
    """A third of the values has no counterpart."""
    reference, candidate = net(*"abc"), net(*"abc", wrap=True, extra=4)

    result = compared(reference, candidate, tmp_path)

    step = result.steps[0]
    assert step.coverage_reference.fraction == 1.0
    assert 0.5 <= step.coverage_candidate.fraction < 0.8
    assert result.verdict is Verdict.MATCH
    folder = tmp_path / "asked"
    assert compared(reference, candidate, folder, min_coverage=0.8).verdict is Verdict.DIVERGED
