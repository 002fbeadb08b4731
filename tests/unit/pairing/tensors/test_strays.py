"""Values that no pair of calls covers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role
from padiff.pairing import PairedBy, RecordPair, pair
from tests.support.dumps import DumpBuilder, MemorySide

Floats = npt.NDArray[np.float32]


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def alone(name: str, class_name: str, made: Floats) -> MemorySide:
    """One call of a class that the other side does not have, then the root's output."""
    built = DumpBuilder().module("", "Net").module(name, class_name)
    built.module(f"{name}.inner", "Other").enter("", inputs=[random(2, 2)]).enter(name)
    built.call(f"{name}.inner", outputs=[made])
    return built.leave(outputs=[made * 2]).leave(outputs=[random(3, seed=5)]).side()


def shown(reference: MemorySide, candidate: MemorySide) -> list[RecordPair]:
    found = pair(reference, candidate).records
    return [p for p in found if p.paired_by is PairedBy.VALUE]


def functional(made: Floats) -> MemorySide:
    built = DumpBuilder(framework="paddle").module("", "Net").module("drop", "Dropout")
    built.enter("", inputs=[random(2, 2)])
    built.call("drop", inputs=[made], outputs=[random(9, seed=8)])
    return built.leave(outputs=[random(3, seed=5)]).side()


def test_equal_elements_pair_an_output_with_an_input() -> None:
    made = random(4, 3, seed=1)

    found = shown(alone("first", "Users", made), functional(made))

    assert len(found) == 1
    assert "same elements" in found[0].note


def test_equal_elements_in_another_layout_are_found() -> None:
    made = random(4, 3, 2, seed=1)

    found = shown(alone("first", "Users", made), functional(made.transpose(0, 2, 1).copy()))

    assert [str(p.rule) for p in found] == ["permute 0 2 1"]


def test_a_repetition_is_found() -> None:
    made = random(1, 3, 2, seed=1)

    found = shown(alone("first", "Users", made), functional(np.repeat(made, 5, axis=0)))

    assert [str(p.rule) for p in found] == ["expand"]


def test_values_of_equal_extremes_and_other_elements_stay_alone() -> None:
    made = random(4, 3, seed=1)
    order = np.argsort(made.reshape(-1))
    other = made.reshape(-1).copy()
    other[order[1:-1]] = other[order[1:-1][::-1]]

    assert shown(alone("first", "Users", made), functional(other.reshape(4, 3))) == []


def test_a_constant_is_no_evidence() -> None:
    made = np.ones((4, 3), np.float32)

    assert shown(alone("first", "Users", made), functional(made)) == []


def test_gradients_are_paired_with_gradients_only() -> None:
    made = random(4, 3, seed=1)
    reference = alone("first", "Users", random(7, seed=6))
    candidate = functional(made)
    built = DumpBuilder().module("", "Net").module("first", "Users").enter("")
    built.call("first", outputs=[random(7, seed=6)]).leave(outputs=[random(3, seed=5)])
    built.record("first", Role.GRAD_OUTPUT, made)

    assert shown(reference, candidate) == []
    assert shown(built.side(), candidate) == []
