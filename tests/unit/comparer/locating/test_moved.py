"""Values at other places inside the model: no divergence where they come back, else a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.locating.calltree import CallTree
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

Array = npt.NDArray[Any]
TOKENS, MATRIX, GRADIENT = normal(6, 8, seed=1), normal(8, 8, seed=2), normal(6, 8, seed=3)
ORDER = np.array([3, 0, 5, 1, 4, 2])
KEPT = np.arange(6)
SMALL = 1e-7


def net(  # noqa: PLR0913
    path: Path,
    order: Array = KEPT,
    back: Array | None = None,
    *,
    inner: float = 1.0,
    part: float = 1.0,
    after: float = 1.0,
    returned: bool = False,
    padded: bool = False,
    weight_grad: float = 1.0,
) -> Path:
    """Write a block that gives its tokens to a layer in some order, and adds what comes back.

    ``part`` is the share that is added; ``inner`` and ``after`` are faults of the layer and of the
    one behind the block.
    """
    back = np.argsort(order) if back is None else back
    given = TOKENS[order]
    made = given @ MATRIX * np.float32(inner)
    block = (TOKENS + np.float32(part) * made[back]).astype(np.float32)
    last = (block @ MATRIX * np.float32(after)).astype(np.float32)
    built = (
        DumpBuilder().module("", "Net").module("block", "Block").module("block.layer", "Experts")
    )
    built.module("last", "Linear").tensor("block.layer", "weight", MATRIX)
    built.tensor("last", "weight", MATRIX.T.copy())
    built.enter("", inputs=[TOKENS]).enter("block", inputs=[TOKENS])
    extra = [np.zeros((2, 8), np.float32)] if padded else []
    built.call(
        "block.layer",
        inputs=[np.concatenate([given, *extra])],
        outputs=[np.concatenate([made, *extra])],
    )
    built.leave(outputs=[block]).call("last", inputs=[block], outputs=[last])
    built.leave(outputs=[last, given] if returned else [last])
    built.record("block.layer", Role.GRAD_OUTPUT, GRADIENT[order])
    built.record("block.layer", Role.GRAD_INPUT, (GRADIENT @ MATRIX.T)[order], slot="[0]")
    built.record(
        "block.layer",
        Role.WEIGHT_GRAD,
        TOKENS.T @ GRADIENT * np.float32(weight_grad),
        slot=".weight",
    )
    return built.write(path)


def compared(tmp_path: Path, **found: Any) -> Comparison:  # noqa: ANN401
    known = net(tmp_path / "known", part=found.get("part", 1.0), returned="returned" in found)
    return compare(known, net(tmp_path / "found", **found), CompareSettings())


def named(result: Comparison) -> list[str]:
    return [one.pair.reference.address.module for one in result.origins if one.pair.reference]


def moved(result: Comparison) -> list[Role]:
    return [
        one.reference.address.role
        for one in result.steps[0].pairs
        if one.reference and one.verdict is Verdict.SKIPPED and "other places" in one.reason
    ]


def test_what_comes_back_to_its_place_is_skipped_and_told(tmp_path: Path) -> None:
    result = compared(tmp_path, order=ORDER)

    assert result.verdict is Verdict.MATCH, result.reasons
    assert set(moved(result)) == {Role.INPUT, Role.OUTPUT, Role.GRAD_INPUT, Role.GRAD_OUTPUT}
    (note,) = (one for one in result.steps[0].notes if "other places" in one)
    assert note == (
        "4 records hold the same values at other places, and what comes of them agrees: first at "
        "step 0 block.layer#0 input[0]"
    )


def test_padding_is_no_other_value(tmp_path: Path) -> None:
    result = compared(tmp_path, order=ORDER, padded=True)

    assert result.verdict is Verdict.MATCH, result.reasons


def test_what_comes_back_to_another_place_is_named_at_the_code_around(tmp_path: Path) -> None:
    result = compared(tmp_path, order=ORDER, back=ORDER)

    assert named(result) == ["block"]
    assert moved(result) == []


def test_a_fault_of_the_layer_itself_is_named_as_what_it_gives_is_nearly_right(
    tmp_path: Path,
) -> None:
    result = compared(tmp_path, order=ORDER, inner=1.1)

    assert named(result) == ["block.layer"]
    assert Role.INPUT in moved(result)
    assert Role.OUTPUT not in moved(result)
    assert any("nearly the same comes of them" in note for note in result.steps[0].notes)


def test_a_layer_that_gives_something_else_altogether_says_nothing_of_the_order(
    tmp_path: Path,
) -> None:
    result = compared(tmp_path, order=ORDER, inner=-2.0)

    assert named(result) == ["block"]
    assert moved(result) == []


def test_a_fault_behind_is_named_and_not_what_is_moved(tmp_path: Path) -> None:
    result = compared(tmp_path, order=ORDER, after=1.1)

    assert named(result) == ["last"]


def test_what_is_hardly_added_does_not_tell_whether_it_came_back(tmp_path: Path) -> None:
    """Layer scales begin near zero: a wrong order does not show, and is one all the same."""
    result = compared(tmp_path, order=ORDER, back=KEPT, part=SMALL)

    assert result.verdict is Verdict.DIVERGED
    assert named(result) == ["block"]


def test_what_the_model_returns_is_not_excused(tmp_path: Path) -> None:
    result = compared(tmp_path, order=ORDER, returned=True)

    assert result.verdict is Verdict.DIVERGED


def test_gradients_stay_diverged_where_that_of_a_weight_is_off(tmp_path: Path) -> None:
    result = compared(tmp_path, order=ORDER, weight_grad=1.1)

    assert result.verdict is Verdict.DIVERGED
    assert set(moved(result)) == {Role.INPUT, Role.OUTPUT}


def row(path: Path, count: int, order: Array) -> Path:
    """Write blocks one after the other, whose values never come back to their places."""
    built = DumpBuilder().module("", "Net")
    for number in range(count):
        built.module(f"{number}", "Block").module(f"{number}.layer", "Linear")
        built.tensor(f"{number}.layer", "weight", MATRIX + np.float32(number))
    given = TOKENS[order]
    built.enter("", inputs=[TOKENS])
    for number in range(count):
        made = np.tanh(given @ MATRIX + np.float32(number / count))
        after = (made + given).astype(np.float32)
        built.enter(f"{number}", inputs=[given])
        built.call(f"{number}.layer", inputs=[given], outputs=[made])
        built.leave(outputs=[after])
        given = after
    return built.leave(outputs=[given]).write(path)


def test_the_work_grows_with_the_calls_and_not_with_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = 0
    plain = CallTree.bad_inside

    def counted(tree: CallTree, call: int, *roles: Role) -> list[int]:
        nonlocal looked
        looked += 1
        return plain(tree, call, *roles)

    monkeypatch.setattr(CallTree, "bad_inside", counted)
    work = []
    for count in (20, 40):
        looked = 0
        known = row(tmp_path / f"known{count}", count, KEPT)
        result = compare(known, row(tmp_path / f"found{count}", count, ORDER), CompareSettings())
        assert named(result) == [""]
        work.append(looked)

    assert work[0] > 0
    assert work[1] <= 2.2 * work[0]


def test_values_whose_squares_no_number_holds_are_compared(tmp_path: Path) -> None:
    given = normal(6, 8, seed=4).astype(np.float64)

    def written(name: str, factor: float) -> Path:
        built = DumpBuilder().module("", "Net").module("one", "Linear").module("two", "Linear")
        made, last = given @ MATRIX, given @ MATRIX @ MATRIX * factor
        built.enter("", inputs=[given]).call("one", inputs=[given], outputs=[made])
        built.call("two", inputs=[made * factor], outputs=[last]).leave(outputs=[last])
        return built.write(tmp_path / name)

    result = compare(written("known", 1.0), written("found", 1e200), CompareSettings())

    assert result.verdict is Verdict.DIVERGED
