"""Masks that both sides hand on in another form are no divergence where nothing comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]
X, SCORES = normal(2, 4, 8, seed=1), normal(4, 4, seed=2)
FREE = np.tril(np.ones((4, 4), bool))


def net(path: Path, handed: Array, *, wrong: float = 1.0, is_wrapped: bool = False) -> Path:
    """Write two blocks that take rows and a mask, the second one also after a projection."""
    weights = np.exp(np.where(FREE, SCORES, -np.inf))
    made = np.matmul(weights / weights.sum(-1, keepdims=True), X).astype(np.float32)
    last = np.matmul(made, normal(8, 8, seed=3)).astype(np.float32) * np.float32(wrong)
    built = DumpBuilder().module("", "Net")
    built.module("first", "Block").module("second", "Block").module("out", "Linear")
    built.tensor("out", "weight", normal(8, 8, seed=3))
    built.enter("", inputs=[X])
    if is_wrapped:
        built.module("wrap", "Identity").call("wrap", inputs=[X], outputs=[X])
    built.call("first", inputs=[X, handed], outputs=[made])
    built.call("second", inputs=[made, handed], outputs=[last])
    built.call("out", inputs=[last], outputs=[last * 2]).leave(outputs=[last * 2])
    return built.write(path)


def compared(
    tmp_path: Path, known: Array, found: Array, *, is_wrapped: bool = True, wrong: float = 1.0
) -> Comparison:
    reference = net(tmp_path / "known", known)
    candidate = net(tmp_path / "found", found, is_wrapped=is_wrapped, wrong=wrong)
    return compare(reference, candidate, CompareSettings())


def mask(value: float) -> Array:
    return np.where(FREE, 0, value).astype(np.float32)


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (mask(-np.inf), mask(-1e4)),
        (mask(-1e4), SCORES + mask(-3e38)),
        (np.arange(4), np.arange(1, 5)),
    ],
    ids=["another least", "added to a bias", "positions"],
)
def test_what_makes_no_difference_is_skipped_and_told(
    known: Array, found: Array, tmp_path: Path
) -> None:
    result = compared(tmp_path, known, found)

    assert result.verdict is Verdict.MATCH
    skipped = [one for one in result.steps[0].pairs if one.reason.startswith("masks or positions")]
    assert [one.verdict for one in skipped] == [Verdict.SKIPPED] * 2
    (note,) = (note for note in result.steps[0].notes if "masks or positions" in note)
    assert note.startswith("2 records hold")


def test_between_equal_structures_it_stays_a_divergence(tmp_path: Path) -> None:
    result = compared(tmp_path, mask(-np.inf), mask(-1e4), is_wrapped=False)

    assert result.verdict is Verdict.DIVERGED


def test_what_is_no_mask_stays_a_divergence_though_nothing_comes_of_it(tmp_path: Path) -> None:
    """A norm hides the scale of what it is given."""
    result = compared(tmp_path, SCORES, SCORES * 2)

    assert result.verdict is Verdict.DIVERGED


def test_a_call_that_takes_it_and_gives_something_else_keeps_it_diverged(tmp_path: Path) -> None:
    other = np.where(FREE.T, 0, -1e4).astype(np.float32)
    known, found = tmp_path / "known", tmp_path / "found"
    for path, handed, wrong in ((known, mask(-1e4), 1.0), (found, other, 1.5)):
        given = X * np.float32(wrong)
        built = DumpBuilder().module("", "Net").module("block", "Block")
        built.tensor("block", "weight", SCORES).enter("", inputs=[X])
        if path is found:
            built.module("wrap", "Identity").call("wrap", inputs=[X], outputs=[X])
        built.call("block", inputs=[X, handed], outputs=[given]).leave(outputs=[given])
        built.write(path)

    result = compare(known, found, CompareSettings())

    bad = [
        one.reference.address.slot for one in result.steps[0].pairs if one.fatal and one.reference
    ]
    assert result.verdict is Verdict.DIVERGED
    assert "[1]" in bad


def test_a_fault_in_the_only_call_that_takes_a_mask_is_named_not_what_makes_the_mask(
    tmp_path: Path,
) -> None:
    """The first attention hands its mask on, and uses it itself."""
    known, found = tmp_path / "known", tmp_path / "found"
    for path, handed, wrong in ((known, mask(-1e4), 1.0), (found, mask(-3e38), 1.5)):
        made = np.matmul(X, normal(8, 8, seed=3)).astype(np.float32)
        last = (made * 2 * np.float32(wrong)).astype(np.float32)
        built = DumpBuilder().module("", "Net")
        for name in ("first", "second"):
            built.module(name, "Attention").tensor(name, "weight", normal(8, 8, seed=3))
        built.enter("", inputs=[X])
        if path is found:
            built.module("wrap", "Identity").call("wrap", inputs=[X], outputs=[X])
        built.call("first", inputs=[X], outputs=[made, handed])
        built.call("second", inputs=[made, handed], outputs=[last]).leave(outputs=[last])
        built.write(path)

    result = compare(known, found, CompareSettings())

    assert [one.pair.reference.address.module for one in result.origins if one.pair.reference] == [
        "second"
    ]


def test_a_state_of_zeros_that_was_not_carried_on_is_no_mask(tmp_path: Path) -> None:
    """What makes the state agrees; the call that should take it does not."""
    known, found = tmp_path / "known", tmp_path / "found"
    for path in (known, found):
        made = np.matmul(X, normal(8, 8, seed=3)).astype(np.float32)
        state = np.zeros_like(made) if path is found else made
        last = (X + state).astype(np.float32)
        built = DumpBuilder().module("", "Net")
        for name in ("encoder", "cell"):
            built.module(name, "Cell").tensor(name, "weight", normal(8, 8, seed=3))
        built.enter("", inputs=[X])
        if path is found:
            built.module("wrap", "Identity").call("wrap", inputs=[X], outputs=[X])
        built.call("encoder", inputs=[X], outputs=[made])
        built.call("cell", inputs=[X, state], outputs=[last]).leave(outputs=[last])
        built.write(path)

    result = compare(known, found, CompareSettings())

    assert [one.pair.reference.address.module for one in result.origins if one.pair.reference] == [
        ""
    ]
