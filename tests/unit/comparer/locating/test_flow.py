"""What went through a call: error growth, feeders, nan, and calls that only move data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

X = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def two(first: npt.NDArray[np.float32], second: npt.NDArray[np.float32]) -> DumpBuilder:
    """Two calls in a row, what they gave, and glue between them."""
    built = DumpBuilder().module("", "Net").module("a", "A").module("b", "B")
    built.enter("", inputs=[X]).call("a", inputs=[X], outputs=[first])
    built.call("b", inputs=[first], outputs=[second])
    return built.leave(outputs=[second])


def compared(known: DumpBuilder, found: DumpBuilder, tmp_path: Path) -> Comparison:
    return compare(
        known.write(tmp_path / "known"), found.write(tmp_path / "found"), CompareSettings()
    )


def test_a_step_is_told_from_a_drift(tmp_path: Path) -> None:
    small = np.float32(1 + 1e-6)
    known, drifted = two(X, X * 100), two(X * small, X * 100 * np.float32(1 + 6e-6))
    stepped = two(X * small, X * 100 * np.float32(1.5))

    drift = compared(known, drifted, tmp_path).origins[0]
    step = compared(known, stepped, tmp_path).origins[0]

    assert drift.amplification is not None
    assert drift.amplification < 10
    assert any("drifted" in line for line in drift.evidence)
    assert step.amplification is not None
    assert step.amplification > 1000
    assert any("a step" in line for line in step.evidence)


def test_equal_inputs_amplify_without_bound(tmp_path: Path) -> None:
    found = compared(two(X, X * 2), two(X, X * 3), tmp_path)

    assert found.origins[0].amplification == math.inf


def test_the_origin_says_who_fed_it(tmp_path: Path) -> None:
    found = compared(two(X + 1, X * 2), two(X + 1, X * 3), tmp_path)

    assert any("input[0] is a output" in line for line in found.origins[0].evidence)


def test_the_first_producer_of_nan_is_named(tmp_path: Path) -> None:
    broken = (X * 2).copy()
    broken[1, 1] = np.nan

    found = compared(two(X + 1, X * 2), two(X + 1, broken), tmp_path)

    assert found.origins[0].evidence[0].startswith("makes nan or inf out of finite inputs on the c")


def test_a_call_that_only_moves_data_is_looked_through(tmp_path: Path) -> None:
    def moved(size: float) -> DumpBuilder:
        made = X * np.float32(size)
        built = DumpBuilder().module("", "Net").module("a", "A").module("move", "Move")
        built.enter("", inputs=[X]).call("a", inputs=[X], outputs=[made + 1])
        other = made if size == 1 else made.reshape(4, 3)
        built.call("move", inputs=[other], outputs=[made[::-1].copy()])
        return built.leave(outputs=[made])

    found = compared(moved(1), moved(2), tmp_path)

    named = [one.pair.reference.address.module for one in found.origins if one.pair.reference]
    assert "a" in named
    assert "move" not in named


def test_each_side_says_where_it_makes_its_first_nan(tmp_path: Path) -> None:
    bad = X.copy()
    bad[1, 2] = np.nan

    both = compared(two(X, bad), two(bad, bad), tmp_path)
    alone = compared(two(X, X * 2), two(X, bad), tmp_path)
    none = compared(two(X, X * 2), two(X, X * 3), tmp_path)

    said = "makes its first nan or inf at step 0"
    assert [note for note in both.steps[0].notes if "nan" in note] == [
        f"the reference {said} b#0 output: from finite inputs",
        f"the candidate {said} a#0 output: from finite inputs",
    ]
    assert [note for note in alone.steps[0].notes if "nan" in note] == [
        f"the candidate {said} b#0 output: from finite inputs"
    ]
    assert not [note for note in none.steps[0].notes if "nan" in note]


def test_what_is_off_by_more_than_its_size_has_not_drifted(tmp_path: Path) -> None:
    """Inputs agree as next to nothing does, however unlike they are."""

    def scaled(values: npt.NDArray[np.float32]) -> DumpBuilder:
        small = values * np.float32(1e-7)
        built = DumpBuilder().module("", "Net").module("b", "B").enter("", inputs=[small])
        return built.call("b", inputs=[small], outputs=[values]).leave(outputs=[values])

    paths = scaled(X).write(tmp_path / "known"), scaled(3 - X).write(tmp_path / "found")

    result = compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-6)).origins[0]

    assert result.amplification is not None
    assert result.amplification < 10
    assert not any("grows only" in line for line in result.evidence)


def test_growth_is_said_of_what_left_the_call(tmp_path: Path) -> None:
    """A weight's gradient is not what the gradients grew to that went through the call."""

    def backward(noise: float, gradient: float) -> DumpBuilder:
        built = two(X, X * 2)
        for module in ("b", "a"):
            for role, slot in ((Role.GRAD_OUTPUT, ""), (Role.GRAD_INPUT, "[0]")):
                built.record(module, role, X * np.float32(1 + noise), slot=slot)
        return built.tensor("b", "weight", X * np.float32(gradient), role=Role.WEIGHT_GRAD)

    result = compared(backward(0.0, 1.0), backward(1e-6, 2.0), tmp_path).origins[0]

    assert result.pair.reference is not None
    assert result.pair.reference.address.role is Role.WEIGHT_GRAD
    assert not any("grows" in line for line in result.evidence)


def test_an_origin_shows_what_diverged_where_its_own_records_agree(tmp_path: Path) -> None:
    def branching(off: float) -> DumpBuilder:
        built = DumpBuilder().module("", "Net").module("c", "C").module("c.a", "A")
        built.enter("", inputs=[X]).enter("c", inputs=[X])
        built.call("c.a", inputs=[X * 3 + np.float32(off)], outputs=[X * 5 + np.float32(off)])
        return built.leave(outputs=[X * 7]).leave(outputs=[X * 9])

    found = compared(branching(0), branching(1), tmp_path).origins

    assert [one.pair.verdict for one in found] == [Verdict.DIVERGED]
    assert found[0].pair.reference is not None
    assert found[0].pair.reference.address.module == "c"
    assert found[0].judged_at is not None
    assert found[0].judged_at.reference is not None
    assert found[0].judged_at.reference.address.module == "c.a"
