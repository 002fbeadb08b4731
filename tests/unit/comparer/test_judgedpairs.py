"""Judged pairs of which those that agree are made only if somebody looks at them."""

from __future__ import annotations

import pickle
import weakref
from typing import TYPE_CHECKING

import pytest

from padiff.comparer import judgedpairs
from padiff.comparer.judgedpairs import JudgedPairs, picked, remarkable, replaced, unpacked
from padiff.comparer.result import JudgedPair, Verdict
from tests.support.comparisons import endpoint

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence, Set

    from padiff.comparer.judgedpairs import Saying, Spot


END = endpoint("fc")


def pair(reason: str, verdict: Verdict = Verdict.MATCH) -> JudgedPair:
    return JudgedPair(reference=END, candidate=END, verdict=verdict, reason=reason)


BAD = pair("is bad", Verdict.DIVERGED)
"""Stands second of four."""


class Made:
    """Makes the others, and remembers which."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.pairs = JudgedPairs(4, {1: BAD}, self)

    def made(self, places: Sequence[int]) -> list[JudgedPair]:
        self.asked += places
        return [pair(str(place)) for place in places]

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        raise NotImplementedError

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        raise NotImplementedError

    def nearest(self, told: Set[int]) -> int | None:
        raise NotImplementedError


ALL = (pair("0"), BAD, pair("2"), pair("3"))


def test_what_is_remarkable_is_there_without_making_the_others() -> None:
    made = Made()

    assert list(remarkable(made.pairs)) == [(1, BAD)]
    assert len(made.pairs) == 4
    assert made.pairs[1] is BAD
    assert not made.asked


def test_each_is_made_once_and_only_if_looked_at() -> None:
    made = Made()

    assert made.pairs[-1] is made.pairs[3]
    assert made.asked == [3]
    assert tuple(made.pairs) == ALL
    assert made.pairs[:2] == ALL[:2]
    assert sorted(made.asked) == [0, 2, 3]


def test_what_makes_them_is_let_go_when_all_are_made() -> None:
    made = Made()
    others = replaced(made.pairs, {2: ALL[2]})
    pairs, maker = made.pairs, weakref.ref(made)
    del made

    assert pairs[0] == others[0] == ALL[0]
    assert maker() is not None
    assert tuple(others) == tuple(pairs) == ALL
    assert maker() is None


def test_a_place_outside_is_refused() -> None:
    with pytest.raises(IndexError):
        Made().pairs[4]


def test_they_equal_hash_and_show_as_the_tuple_of_them() -> None:
    pairs = Made().pairs

    assert pairs == ALL
    assert pairs == Made().pairs
    assert pairs != ALL[:3]
    assert pairs != list(ALL)
    assert hash(pairs) == hash(ALL)
    assert repr(pairs) == repr(ALL)


def test_others_in_their_place_leave_the_rest_as_it_is() -> None:
    made = Made()
    skipped = pair("left out", Verdict.SKIPPED)
    first = made.pairs[0]

    found = replaced(made.pairs, {2: skipped})

    assert list(remarkable(found)) == [(1, BAD), (2, skipped)]
    assert found[0] is first
    assert tuple(found) == (ALL[0], BAD, skipped, ALL[3])
    assert tuple(made.pairs) == ALL


def test_others_can_stand_in_their_place_when_all_are_made_too() -> None:
    pairs = Made().pairs
    all_of_them = list(pairs)
    skipped = pair("left out", Verdict.SKIPPED)

    found = replaced(pairs, {2: skipped})

    assert pairs.columns() is None
    assert list(remarkable(found)) == [(1, BAD), (2, skipped)]
    assert found[0] is all_of_them[0]
    assert tuple(found) == (ALL[0], BAD, skipped, ALL[3])


def test_a_plain_sequence_of_pairs_serves_as_well() -> None:
    skipped = pair("left out", Verdict.SKIPPED)

    assert list(remarkable(ALL)) == list(enumerate(ALL))
    assert picked(ALL, [3, 1]) == picked(Made().pairs, [3, 1]) == [ALL[3], BAD]
    assert replaced(ALL, {2: skipped}) == (ALL[0], BAD, skipped, ALL[3])


def test_those_that_simply_match_are_unpacked_where_they_arrived_when_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = pair("")
    looked: list[bytes] = []

    def noted(data: bytes) -> tuple[object, ...]:
        looked.append(data)
        return unpacked(data)

    monkeypatch.setattr(judgedpairs, "unpacked", noted)
    pairs = JudgedPairs(4, {0: plain, 1: BAD, 2: plain, 3: plain}, None)

    arrived = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(pairs))))

    assert list(remarkable(arrived)) == [(1, BAD)]
    assert len(arrived) == 4
    assert arrived[1] is not None
    assert not looked
    changed = replaced(pickle.loads(pickle.dumps(pairs)), {3: BAD})
    assert tuple(changed) == (plain, BAD, plain, BAD)
    assert tuple(arrived) == tuple(pairs)
    assert arrived[1:3] == (BAD, plain)
    assert len(looked) == 2
