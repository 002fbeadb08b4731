"""Sequences that are made at the first look."""

from __future__ import annotations

import weakref

from padiff.comparer.judgedpairs import Later


def counted(*items: int) -> tuple[Later[int], list[int]]:
    made: list[int] = []

    def make() -> tuple[int, ...]:
        made.append(len(items))
        return items

    return Later(make), made


def test_nothing_is_made_before_the_first_look_and_once_after_it() -> None:
    found, made = counted(3, 1, 2)

    assert not made
    assert list(found) == [3, 1, 2]
    assert (len(found), found[-1], found[:2]) == (3, 2, (3, 1))
    assert made == [3]


def test_it_equals_hashes_and_shows_as_the_tuple_of_its_items() -> None:
    found, _ = counted(3, 1, 2)

    assert found == (3, 1, 2)
    assert found == counted(3, 1, 2)[0]
    assert found != (3, 1)
    assert found != [3, 1, 2]
    assert hash(found) == hash((3, 1, 2))
    assert repr(found) == "(3, 1, 2)"


def test_what_makes_them_is_let_go_when_they_are_made() -> None:
    class Maker:
        def __call__(self) -> list[int]:
            return [1]

    maker = Maker()
    found, alive = Later(maker), weakref.ref(maker)
    del maker

    assert alive() is not None
    assert list(found) == [1]
    assert alive() is None
