"""What data flow says about which layers ran before which."""

from __future__ import annotations

import random
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from padiff.pairing import SideName
from padiff.pairing.calls import order
from padiff.pairing.calls.order import Order, ancestors_of, common, has, union
from padiff.pairing.view import view_of
from tests.support import treegen
from tests.support.dumps import DumpBuilder, MemorySide
from tests.support.extremes import Dialect, extreme

if TYPE_CHECKING:
    from padiff.pairing.view import View

RANKS = st.sets(st.integers(0, 40))


def packed(ranks: set[int]) -> tuple[int, int]:
    return reduce(union, [(0, 1 << rank) for rank in ranks], (0, 0))


def unpacked(ancestors: tuple[int, int]) -> set[int]:
    return {rank for rank in range(60) if has(ancestors, rank)}


@given(one=RANKS, two=RANKS)
def test_sets_of_ranks_are_joined_and_met_as_sets_are(one: set[int], two: set[int]) -> None:
    assert unpacked(union(packed(one), packed(two))) == one | two
    assert unpacked(common(packed(one), packed(two))) == one & two


def chain(*, is_hidden: bool) -> MemorySide:
    """Run three layers, one fed by the other; or by what a function made of it."""
    random = np.random.default_rng(0)
    data = [random.standard_normal((2, 4)).astype(np.float32) for _ in range(8)]
    built = DumpBuilder().module("", "Net")
    for name in "abc":
        built.module(name, "Linear").tensor(name, "weight", random.standard_normal((4, 4)))
    built.enter("", inputs=[data[0]])
    for place, name in enumerate("abc"):
        given_ = data[place + 4] if is_hidden and place else data[place]
        built.call(name, inputs=[given_], outputs=[data[place + 1]])
    return built.leave(outputs=[data[3]]).side()


def test_layers_that_feed_one_another_are_in_order() -> None:
    found = ancestors_of(view_of(chain(is_hidden=False), SideName.REFERENCE), [1, 2, 3])

    assert [unpacked(one) for one in found] == [set(), {0}, {0, 1}]
    assert Order(found, [0, 1, 2]).undecided == set()


def test_nothing_is_known_across_functions_between_modules() -> None:
    found = ancestors_of(view_of(chain(is_hidden=True), SideName.REFERENCE), [1, 2, 3])

    assert [unpacked(one) for one in found] == [set(), set(), set()]
    assert Order(found, [0, 1, 2]).undecided == {0, 1, 2}


def test_long_runs_of_unknown_order_are_undecided_without_looking_at_every_two() -> None:
    assert Order([(0, 0)] * 1000, range(1000)).undecided == set(range(1000))


@given(known=st.lists(st.sets(st.integers(0, 40)), max_size=40), of=st.sets(st.integers(0, 39)))
def test_what_is_undecided_is_what_is_so_with_any_other(
    known: list[set[int]], of: set[int]
) -> None:
    ancestors = [
        packed({other for other in ranks if other < rank}) for rank, ranks in enumerate(known)
    ]
    group = sorted(rank for rank in of if rank < len(known))
    open_ = {
        (one, two)
        for two in group
        for one in group
        if one < two and one not in unpacked(ancestors[two])
    }

    found = Order(ancestors, group)

    assert found.undecided == {rank for both in open_ for rank in both}


@pytest.mark.parametrize("width", [64, 256])
def test_layers_side_by_side_take_few_steps_each(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Experts of two layers each: the second knows the first, and nothing else of its block."""
    steps = 0

    def counted(ancestors: tuple[int, int], rank: int) -> bool:
        nonlocal steps
        steps += 1
        return has(ancestors, rank)

    monkeypatch.setattr(order, "has", counted)
    ancestors = [(0, 0) if rank % 2 == 0 else (0, 1 << (rank - 1)) for rank in range(width)]

    assert Order(ancestors, range(width)).undecided == set(range(width))
    assert steps <= 5 * width


def layers_inside(view: View, call: int) -> list[int]:
    return [one for one in view.inside(call) if view.weights[view.calls[one].module]]


@pytest.mark.parametrize("seed", range(6))
def test_of_layers_inside_a_call_only_what_is_inside_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    side = treegen.run(treegen.plant(random.Random(seed), 6, is_rich=True), "torch").side
    view = view_of(side, SideName.REFERENCE)
    outer = [call for call in range(len(view.calls)) if layers_inside(view, call)]
    found = [ancestors_of(view, layers_inside(view, call)) for call in outer]

    monkeypatch.setattr(order, "_around", lambda view, _: range(len(view.calls)))
    whole = view_of(side, SideName.REFERENCE)

    assert len(outer) > 3
    assert found == [ancestors_of(whole, layers_inside(whole, call)) for call in outer]


def test_thousands_of_calls_of_which_each_is_looked_into_take_few_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = 0
    open_ = order._Flow._open

    def counted(self: order._Flow, call: int, parent: int | None) -> None:
        nonlocal steps
        steps += 1
        open_(self, call, parent)

    monkeypatch.setattr(order._Flow, "_open", counted)
    view = view_of(extreme("attentions", 600, Dialect.SAME), SideName.REFERENCE)

    for call in view.inner[0]:
        ancestors_of(view, layers_inside(view, call))

    assert len(view.inner[0]) > 100
    assert steps <= len(view.calls)
