"""Calls that are told by what they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing import pair
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    import numpy.typing as npt

    from padiff.pairing import Pairing
    from tests.support.dumps import MemorySide

    Array = npt.NDArray[np.float32]

WEIGHT = np.random.default_rng(7).standard_normal((4, 4)).astype(np.float32)


def drawn(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((2, 4)).astype(np.float32)


def shared(name: str, *inputs: Array) -> MemorySide:
    """Call one layer with each input."""
    made = DumpBuilder().module("", "Net").module(name, "Linear")
    made.tensor(name, "weight", WEIGHT).enter("", inputs=list(inputs))
    for value in inputs:
        made.call(name, inputs=[value], outputs=[value @ WEIGHT])
    return made.leave(outputs=[inputs[0]]).side()


def row(names: str, outputs: list[Array], seed: int) -> MemorySide:
    """Call layers of which functions make the inputs, with weights of their own."""
    made = DumpBuilder().module("", "Net")
    for place, name in enumerate(names):
        made.module(name, "Linear").tensor(name, "weight", WEIGHT * (seed + place + 2))
    made.enter("", inputs=[drawn(seed)])
    for place, (name, output) in enumerate(zip(names, outputs, strict=True)):
        made.call(name, inputs=[drawn(seed + 10 + place)], outputs=[output])
    return made.leave(outputs=[drawn(seed)]).side()


def pairs(found: Pairing) -> list[tuple[int, int]]:
    return [(one.reference, one.candidate) for one in found.calls]


def test_calls_of_one_layer_are_told_by_what_they_take() -> None:
    left, right = drawn(1), drawn(2)

    found = pair(shared("tower", left, right), shared("body", right, left))

    assert pairs(found) == [(0, 0), (1, 2), (2, 1)]
    assert [one.confidence for one in found.calls] == [1.0] * 3


def test_outputs_that_look_alike_prove_nothing() -> None:
    outputs = [drawn(3), drawn(4) * 3, drawn(5) * 9]
    alike = [outputs[2][::-1], drawn(6) * 3, drawn(8) * 9]

    found = pair(row("abc", outputs, 20), row("xyz", alike, 60))

    assert len(found.calls) == 4
    assert all(one.confidence < 1 for one in found.calls if one.reference)
