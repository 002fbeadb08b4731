"""Activations of other kinds at one place are partners where a port is wrong, and only there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.pairing import pair
from padiff.pairing.result import PairedBy
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.pairing.result import CallPair
    from tests.support.dumps import MemorySide

Array = npt.NDArray[Any]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(5, 4))
FIRST, SECOND = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4))


def _tanh(x: Array) -> Array:
    return np.asarray(np.tanh(x))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


_DO: dict[str, Callable[[Array], Array]] = {"Tanh": _tanh, "Sigmoid": _sigmoid, "ReLU": _relu}


def _side(
    shown: Sequence[str],
    functions: Sequence[str] = (),
    *,
    is_gated: bool = False,
    names: Sequence[str] = ("up", "act", "down"),
) -> MemorySide:
    """Give two layers around activations, whose products go on; ``functions`` leave no trace."""
    up, act, down = names
    built = DumpBuilder().module("", "Net", class_path="user.Net")
    built.module(up, "Linear").tensor(up, "weight", FIRST)
    for number, name in enumerate(shown):
        built.module(f"{act}{number}", name)
    built.module(down, "Linear").tensor(down, "weight", SECOND)
    built.enter("", inputs=[X])
    h = X @ FIRST.T
    built.call(up, inputs=[X], outputs=[h])
    product = np.ones_like(h)
    for number, name in enumerate(shown):
        made = _DO[name](h)
        built.call(f"{act}{number}", inputs=[h], outputs=[made])
        product = product * made
    for name in functions:
        product = product * _DO[name](h)
    if is_gated:
        product = product * 0.5
    y = product @ SECOND.T
    built.call(down, inputs=[product], outputs=[y])
    return built.leave(outputs=[y]).side()


def _activations(one: MemorySide, two: MemorySide) -> dict[str, tuple[str, CallPair]]:
    indices = one.index, two.index
    found = {}
    for made in pair(one, two).calls:
        modules = [
            index.modules[index.calls[call].module]
            for index, call in zip(indices, (made.reference, made.candidate), strict=True)
        ]
        if modules[0].class_name in _DO:
            found[modules[0].path] = modules[1].class_name, made
    return found


@pytest.mark.parametrize("names", [("up", "act", "down"), ("a", "b", "c")])
@pytest.mark.parametrize("is_gated", [False, True])
def test_another_activation_at_the_same_place_is_the_partner_and_not_certain(
    names: Sequence[str], *, is_gated: bool
) -> None:
    reference = _side(["Tanh"], is_gated=is_gated)
    candidate = _side(["Sigmoid"], is_gated=is_gated, names=names)

    kind, made = _activations(reference, candidate)["act0"]

    assert kind == "Sigmoid"
    assert made.paired_by is PairedBy.POSITION
    assert made.confidence < 1.0


def test_a_right_port_that_shows_another_of_two_activations_has_no_such_pair() -> None:
    """A gate: tanh of it times its sigmoid; each author has a module for the other one."""
    reference, candidate = _side(["Tanh"], ["Sigmoid"]), _side(["Sigmoid"], ["Tanh"])

    assert _activations(reference, candidate) == {}


def test_of_two_that_could_be_meant_none_is_the_partner() -> None:
    reference, candidate = _side(["Tanh"]), _side(["Sigmoid", "ReLU"])

    assert _activations(reference, candidate) == {}


def test_activations_of_one_kind_are_partners_before_others() -> None:
    reference, candidate = _side(["Tanh", "ReLU"]), _side(["Sigmoid", "ReLU"])

    found = _activations(reference, candidate)

    assert {path: kind for path, (kind, _) in found.items()} == {"act0": "Sigmoid", "act1": "ReLU"}
