"""Shapes and order of what a model gives are a promise to whoever calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

Floats = npt.NDArray[np.float32]
Turn = Callable[[Floats], Floats]


def same(array: Floats) -> Floats:
    return array


def channels_last(array: Floats) -> Floats:
    return array.transpose(0, 2, 3, 1)


def built(framework: str, inner: Turn, outer: Turn) -> DumpBuilder:
    """Build a net of four layers whose tensors lie as ``inner`` says, and its output as ``outer``.

    The loss is the output's first element, in no shape at all, or in one axis if outer gives that.
    """
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 3, 5, 5)).astype(np.float32)
    made = [random.standard_normal((4, 4, 5, 5)).astype(np.float32) for _ in range(4)]
    net = DumpBuilder(framework=framework).module("", "Net")
    for number in range(4):
        net.module(f"layers.{number}", "Conv2d")
    net.enter("", inputs=[x])
    for number, array in enumerate(made):
        net.call(f"layers.{number}", outputs=[np.ascontiguousarray(inner(array))])
    return net.leave(outputs=[np.ascontiguousarray(outer(made[-1]))])


def compared(folder: Path, *nets: DumpBuilder) -> Comparison:
    paths = [net.write(folder / str(number)) for number, net in enumerate(nets)]
    return compare(paths[0], paths[1], CompareSettings())


def verdict_on_output(found: Comparison) -> tuple[Verdict, str]:
    (pair,) = (
        pair
        for pair in found.steps[0].pairs
        if pair.reference is not None
        and (pair.reference.address.module, pair.reference.address.role) == ("", Role.OUTPUT)
    )
    return pair.verdict, pair.reason


@pytest.mark.parametrize(
    ("turn", "verdict"),
    [
        (lambda array: array.reshape(8, 50), Verdict.INCOMPARABLE),
        (lambda array: array[None], Verdict.INCOMPARABLE),
        (channels_last, Verdict.INCOMPARABLE),
        (lambda array: array.transpose(1, 0, 2, 3), Verdict.DIVERGED),
        (lambda array: array.transpose(0, 1, 3, 2), Verdict.DIVERGED),
    ],
    ids=["reshaped", "one axis more", "channels last", "batch and channels", "transposed"],
)
@pytest.mark.parametrize("is_inside", [True, False], ids=["inside too", "at the end"])
def test_no_layout_is_guessed_between_models_of_one_framework(
    turn: Turn, verdict: Verdict, is_inside: bool, tmp_path: Path
) -> None:
    nets = built("torch", same, same), built("torch", turn if is_inside else same, turn)

    found = compared(tmp_path, *nets)

    assert (found.verdict, verdict_on_output(found)[0]) == (Verdict.DIVERGED, verdict)
    if verdict is Verdict.INCOMPARABLE:
        assert "shape (4, 4, 5, 5) on the reference" in verdict_on_output(found)[1]


def test_layouts_inside_one_framework_are_found_as_before(tmp_path: Path) -> None:
    found = compared(tmp_path, built("torch", same, same), built("torch", channels_last, same))

    assert found.verdict is Verdict.MATCH


def test_two_frameworks_may_differ_by_a_layout_that_is_noted(tmp_path: Path) -> None:
    nets = built("torch", same, same), built("paddle", channels_last, channels_last)

    found = compared(tmp_path, *nets)

    assert found.verdict is Verdict.MATCH
    (note,) = found.steps[0].notes
    assert note == (
        "the model's output lies otherwise on the candidate: permute 0 2 3 1 "
        "(NCHW on the reference, NHWC on the candidate)"
    )


def test_a_part_of_the_output_is_not_the_output(tmp_path: Path) -> None:
    nets = [
        DumpBuilder().module("", "Net").call("", inputs=[one], outputs=[one])
        for one in (np.full(shape, 2.0, np.float32) for shape in ((), (3,)))
    ]

    found = compared(tmp_path, *nets)

    assert verdict_on_output(found)[0] is Verdict.INCOMPARABLE


def test_a_loss_of_another_shape_cannot_be_compared(tmp_path: Path) -> None:
    nets = [
        built("torch", same, same).record("", Role.LOSS, np.full(shape, 2.0, np.float32))
        for shape in ((), (1,))
    ]

    found = compared(tmp_path, *nets)

    assert found.verdict is Verdict.DIVERGED
