"""Functions that several recordings replace, and put back in whatever order they end."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from padiff.dumper.watch import Patch

if TYPE_CHECKING:
    from collections.abc import Callable


class Base:
    def greet(self) -> str:
        return "own"


class Below(Base):
    """Inherits what is replaced."""


def around(word: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    return lambda greet: lambda self: f"{word} {greet(self)}"


@pytest.mark.parametrize("kind", [Base, Below])
@pytest.mark.parametrize("order", [*permutations("abc")])
def test_a_function_is_put_back_whoever_goes_first(kind: type[Base], order: tuple[str]) -> None:
    before = dict(vars(kind))
    patches = {word: Patch(kind, "greet", around(word)) for word in "abc"}
    gone: list[str] = []

    for word in order:
        assert all(one in kind().greet() for one in {*"abc"} - {*gone})
        patches[word].remove()
        patches[word].remove()
        gone.append(word)

    assert kind().greet() == "own"
    assert dict(vars(kind)) == before


def test_one_that_goes_first_is_gone_with_those_on_top_of_it() -> None:
    below, top = (Patch(Base, "greet", around(word)) for word in "ab")
    below.remove()
    again = Patch(Base, "greet", around("c"))

    assert Base().greet() == "c b a own"
    again.remove()
    assert Base().greet() == "b a own"
    top.remove()
    assert Base().greet() == "own"
