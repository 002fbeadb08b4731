"""Which part of a longer tensor counts, by its own zeros or those of its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.dumpfile import Role
from padiff.pairing.result import SideName
from padiff.pairing.tensors.repeated import part_of
from padiff.pairing.view import view_of
from tests.support.dumps import DumpBuilder

Array = npt.NDArray[Any]
RNG = np.random.default_rng(3)


def _rule(given: Array, made: Array, gradient: Array | None, role: Role, short: list[int]) -> str:
    built = DumpBuilder().module("", "Net").module("conv", "Conv1d")
    built.enter("", inputs=[given]).call("conv", inputs=[given], outputs=[made])
    built.leave(outputs=[made.sum()])
    if gradient is not None:
        built.record("conv", Role.GRAD_OUTPUT, gradient)
    view = view_of(built.side(), SideName.REFERENCE)
    (record,) = [one for one in view.records if one.role is role and one.module == 1]
    return str(part_of(view, record, tuple(short)))


def _within(shape: tuple[int, ...], *cuts: slice) -> Array:
    found = np.zeros(shape, np.float32)
    found[cuts] = RNG.normal(size=found[cuts].shape)
    return found


ALL = slice(None)


@pytest.mark.parametrize(
    ("used", "short", "rule"),
    [
        ((ALL, ALL, slice(0, 12)), [2, 3, 12], "groups 1 0:12 2"),
        ((ALL, ALL, slice(3, 15)), [2, 3, 12], "groups 1 3:15 2"),
        ((ALL, slice(1, 3), slice(0, 12)), [2, 2, 12], "groups 1 1:3 1 | groups 1 0:12 2"),
        ((ALL, ALL, ALL), [2, 3, 12], "identity"),  # all of it is used
        ((ALL, ALL, slice(0, 11)), [2, 3, 12], "identity"),
        ((ALL, ALL, slice(0, 12)), [2, 4, 12], "identity"),  # longer along another axis
        ((ALL, ALL, slice(0, 12)), [6, 12], "identity"),
    ],
)
def test_gradient_tells_which_part_of_an_output_is_used(
    used: tuple[slice, ...], short: list[int], rule: str
) -> None:
    made = RNG.normal(size=(2, 3, 15)).astype(np.float32)

    assert _rule(made, made, _within((2, 3, 15), *used), Role.OUTPUT, short) == rule


def test_without_a_gradient_nothing_tells() -> None:
    made = RNG.normal(size=(2, 3, 15)).astype(np.float32)

    assert _rule(made, made, None, Role.OUTPUT, [2, 3, 12]) == "identity"


def test_zeros_tell_what_an_input_was_padded_by() -> None:
    given = _within((2, 3, 15), ALL, ALL, slice(3, 15))

    assert _rule(given, given[..., :9], None, Role.INPUT, [2, 3, 12]) == "groups 1 3:15 2"
