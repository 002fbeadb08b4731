"""Where among all pairs a divergence is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from padiff.comparer.causes.causesides import Sides
from padiff.comparer.judgedpairs import JudgedPairs
from padiff.comparer.result import JudgedPair, Kind, Verdict
from tests.support.comparisons import endpoint, metrics, pair

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence, Set

    from padiff.comparer.overview import Saying, Spot

FINE = pair(endpoint("a"), endpoint("a"), measured=metrics(1e-9))
BAD = pair(endpoint("b"), endpoint("b"), Verdict.DIVERGED, measured=metrics())
LAST = pair(endpoint("c"), endpoint("c"))
ALL = (FINE, BAD, LAST)


class Plain:
    """Has all but the diverged one, and remembers who was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def made(self, places: Sequence[int]) -> list[JudgedPair]:
        self.asked += places
        return [ALL[place] for place in places]

    def sayings(self, told: Set[int]) -> Counter[Saying]:
        raise NotImplementedError

    def spots(self, told: Set[int]) -> list[tuple[int, Spot]]:
        raise NotImplementedError

    def nearest(self, told: Set[int]) -> int | None:
        raise NotImplementedError


def sides(plain: Plain) -> Sides:
    """Give sides of which nothing is asked but where pairs are."""
    tree: Any = SimpleNamespace(pairs=JudgedPairs(3, {1: BAD}, plain))
    none: Any = None
    return Sides(tree=tree, reference=none, candidate=none)


def test_a_diverged_pair_is_found_without_making_those_that_agree() -> None:
    plain = Plain()

    assert sides(plain).position(replace(BAD, kind=Kind.ORIGIN)) == 1
    assert not plain.asked


@pytest.mark.parametrize("place", [0, 2])
def test_a_pair_that_agrees_and_is_to_blame_is_found(place: int) -> None:
    assert sides(Plain()).position(replace(ALL[place], kind=Kind.ORIGIN)) == place


def test_what_was_judged_at_another_address_is_found_there() -> None:
    elsewhere = replace(BAD, reference=endpoint("d"), candidate=endpoint("d"))

    assert sides(Plain()).position(elsewhere) == 1


def test_its_own_place_goes_before_that_of_the_same_numbers() -> None:
    both = replace(FINE, metrics=BAD.metrics)

    assert sides(Plain()).position(both) == 0


def test_what_is_nowhere_has_no_place() -> None:
    assert sides(Plain()).position(pair(endpoint("d"), endpoint("d"))) is None


def test_all_pairs_are_gone_through_once_however_many_are_elsewhere() -> None:
    plain = Plain()
    both = sides(plain)
    elsewhere = [endpoint(name) for name in "defg"]

    found = [both.position(replace(BAD, reference=one, candidate=one)) for one in elsewhere]

    assert found == [1] * 4
    assert sorted(plain.asked) == [0, 2]
