"""Total gradients of tensors that glue code shares differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from padiff.comparer.result import JudgedPair

LAYERS = ["a", "b", "c", "d"]


def values(seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)


def densely(
    *, shared: dict[str, float] | None = None, wrong: dict[str, float] | None = None
) -> DumpBuilder:
    """Layers whose inputs are made by glue, and the gradients that arrive at both ends of each.

    Args:
        shared: What the other consumers of a layer's input add to its total gradient.
        wrong: By how much the gradient of a layer's output is off.
    """
    built = DumpBuilder().module("", "Net")
    for path in LAYERS:
        built.module(path, "Layer")
    built.enter("", inputs=[values(0)])
    for at, path in enumerate(LAYERS):
        built.call(path, inputs=[values(10 + at)], outputs=[values(20 + at)])
    built.leave(outputs=[values(5)])
    for at, path in reversed(list(enumerate(LAYERS))):
        off = np.float32((wrong or {}).get(path, 0.0))
        built.record(path, Role.GRAD_OUTPUT, values(30 + at) + off)
        other = np.float32((shared or {}).get(path, 0.0))
        built.record(path, Role.GRAD_INPUT, values(40 + at) + other, slot="[0]")
    return built


def compared(known: DumpBuilder, found: DumpBuilder, tmp_path: Path) -> Comparison:
    paths = known.write(tmp_path / "known"), found.write(tmp_path / "found")
    return compare(*paths, CompareSettings())


def gradient(found: Comparison, path: str) -> JudgedPair:
    return next(
        pair
        for pair in found.steps[0].pairs
        if pair.reference is not None
        and (pair.reference.address.module, pair.reference.address.role) == (path, Role.GRAD_INPUT)
    )


def origins(found: Comparison) -> list[str]:
    return [one.pair.reference.address.module for one in found.origins if one.pair.reference]


def test_a_total_of_which_nothing_comes_is_skipped(tmp_path: Path) -> None:
    found = compared(densely(), densely(shared={"b": 3.0, "d": 1.0}), tmp_path)

    assert (found.verdict, found.origins) == (Verdict.MATCH, ())
    assert gradient(found, "b").verdict is Verdict.SKIPPED
    assert "share differently" in gradient(found, "b").reason


def test_a_fault_elsewhere_is_not_joined_by_false_origins(tmp_path: Path) -> None:
    candidate = densely(shared={"d": 3.0, "b": 2.0}, wrong={"b": 1.0})

    found = compared(densely(), candidate, tmp_path)

    assert found.verdict is Verdict.DIVERGED
    assert gradient(found, "d").verdict is Verdict.SKIPPED
    assert "d" not in origins(found)


def test_a_wrong_gradient_that_arrives_is_kept(tmp_path: Path) -> None:
    candidate = densely(shared={"c": 2.0}, wrong={"b": 2.0, "a": 1.0})

    found = compared(densely(), candidate, tmp_path)

    assert gradient(found, "c").verdict is Verdict.DIVERGED
    assert origins(found)[0] in {"c", ""}


def test_a_gradient_that_a_call_returned_the_tensor_of_is_kept(tmp_path: Path) -> None:
    def chain(size: float) -> DumpBuilder:
        built = DumpBuilder().module("", "Net").module("a", "Layer").module("b", "Layer")
        built.enter("", inputs=[values(0)]).call("a", inputs=[values(0)], outputs=[values(1)])
        built.call("b", inputs=[values(1)], outputs=[values(2)]).leave(outputs=[values(2)])
        middle = values(4) * np.float32(size)
        built.record("b", Role.GRAD_OUTPUT, values(3))
        built.record("b", Role.GRAD_INPUT, middle, slot="[0]")
        return built.record("a", Role.GRAD_OUTPUT, middle)

    found = compared(chain(1.0), chain(2.0), tmp_path)

    assert gradient(found, "b").verdict is Verdict.DIVERGED
