"""What data flow says about which layers ran before which."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from padiff.pairing import SideName
from padiff.pairing.calls.needs import common, members_of, needs_of, union, unordered
from padiff.pairing.view import view_of
from tests.support.dumps import DumpBuilder
from tests.support.extremes import Dialect, extreme

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.dumps import MemorySide

RANKS = st.sets(st.integers(0, 40))


def packed(ranks: Iterable[int]) -> tuple[int, int]:
    return reduce(union, [(0, 1 << rank) for rank in ranks], (0, 0))


def unpacked(ranks: tuple[int, int]) -> set[int]:
    return set(np.flatnonzero(members_of(ranks, range(60))).tolist())


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
        taken = data[place + 4] if is_hidden and place else data[place]
        built.call(name, inputs=[taken], outputs=[data[place + 1]])
    return built.leave(outputs=[data[3]]).side()


def test_layers_that_feed_one_another_are_in_order() -> None:
    _, found = needs_of(view_of(chain(is_hidden=False), SideName.REFERENCE))

    assert [unpacked(one) for one in found] == [set(), {0}, {0, 1}]
    assert unordered(found, [0, 1, 2]) == [False, False, False]


def test_nothing_is_known_across_functions_between_modules() -> None:
    _, found = needs_of(view_of(chain(is_hidden=True), SideName.REFERENCE))

    assert [unpacked(one) for one in found] == [set(), set(), set()]
    assert unordered(found, [0, 1, 2]) == [True, True, True]


@given(known=st.lists(st.sets(st.integers(0, 40)), max_size=40), of=st.sets(st.integers(0, 39)))
def test_what_is_unordered_is_what_is_so_with_any_other(
    known: list[set[int]], of: set[int]
) -> None:
    needs = [packed(other for other in ranks if other < rank) for rank, ranks in enumerate(known)]
    group = sorted(rank for rank in of if rank < len(known))
    open_ = {
        (one, two)
        for two in group
        for one in group
        if one < two and one not in unpacked(needs[two])
    }

    found = unordered([needs[rank] for rank in group], group)

    lost = {rank for both in open_ for rank in both}
    assert found == [rank in lost for rank in group]


def test_what_layers_need_is_worked_out_once_for_all_calls_that_are_looked_into() -> None:
    view = view_of(extreme("attentions", 60, Dialect.SAME), SideName.REFERENCE)

    assert needs_of(view) is needs_of(view)
    assert len(view.needs) == 1
