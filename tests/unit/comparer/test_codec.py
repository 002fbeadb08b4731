"""Dataclasses go through JSON unchanged; what is written otherwise is refused by its place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from enum import StrEnum
from typing import Any

import jsonschema
import pytest

from padiff.comparer.codec import UNWRITTEN, Codec, derived, listed
from padiff.dumpfile import ConfigError


class Colour(StrEnum):
    """What it looks like."""

    DEEP_RED = "like wine, but deeper"
    """Red."""
    BLUE = "like the sky"


@dataclass(frozen=True)
class Leaf:
    """A leaf."""

    size: float


@dataclass(frozen=True)
class Branch:
    """A branch."""

    leaves: tuple[Leaf, ...] = ()
    """Its leaves."""


@dataclass(frozen=True)
class Tree:
    """A tree.

    With all that a document
    can hold.
    """

    name: str
    colour: Colour
    ends: tuple[int, str]
    parts: tuple[Leaf | Branch, ...] = ()
    numbers: Sequence[float] = ()
    """Long."""
    colours: frozenset[Colour] = frozenset()
    by_colour: Mapping[Colour, bool] = field(default_factory=dict)
    leaf: Leaf | None = None
    age: int | None = None
    seen: frozenset[int] = field(default=frozenset(), metadata=UNWRITTEN)

    @property
    @derived
    def is_big(self) -> bool:
        """Whether it is big."""
        return len(self.numbers) > 2


CODEC = Codec(Tree, {})
LEAST = Tree("oak", Colour.BLUE, (1, "a"))
MOST = Tree(
    "elm",
    Colour.DEEP_RED,
    (2, "b"),
    parts=(Leaf(1.5), Branch((Leaf(math.inf),))),
    numbers=(math.inf, -math.inf, 3.0),
    colours=frozenset(Colour),
    by_colour={Colour.BLUE: True},
    leaf=Leaf(2.0),
    age=7,
)


def written(tree: Tree) -> Any:  # noqa: ANN401 -- any JSON
    return json.loads(json.dumps(listed(CODEC.write(tree)), allow_nan=False))


@pytest.mark.parametrize("tree", [LEAST, MOST], ids=lambda tree: tree.name)
def test_what_is_written_is_read_and_follows_the_schema(tree: Tree) -> None:
    assert CODEC.read(written(tree), "tree") == tree
    jsonschema.Draft202012Validator(CODEC.schema()).validate(written(tree))


def test_defaults_are_left_out_and_enums_go_by_name() -> None:
    data = {"name": "oak", "colour": "blue", "ends": [1, "a"], "is_big": False, "numbers": []}

    assert written(LEAST) == data
    assert written(MOST)["parts"][0] == {"type": "leaf", "size": 1.5}
    assert written(MOST)["numbers"] == ["inf", "-inf", 3.0]


def test_nan_is_read_by_name() -> None:
    assert math.isnan(CODEC.read({**written(LEAST), "numbers": ["nan"]}, "tree").numbers[0])


def test_what_no_document_holds_takes_its_default() -> None:
    tree = Tree("oak", Colour.BLUE, (1, "a"), seen=frozenset({3}))

    assert "seen" not in written(tree)
    assert CODEC.read(written(tree), "tree").seen == frozenset()


def test_a_long_sequence_is_written_one_entry_at_a_time_and_last() -> None:
    asked: list[float] = []

    class Numbers(tuple[float, ...]):
        __slots__ = ()

        def __iter__(self) -> Any:  # noqa: ANN401
            for one in (1.0, 2.0):
                asked.append(one)
                yield one

    data = CODEC.write(Tree("oak", Colour.BLUE, (1, "a"), numbers=Numbers()))

    assert [*data][-1] == "numbers"
    assert (next(data["numbers"]), asked) == (1.0, [1.0])


def test_descriptions_are_the_docstrings() -> None:
    schema = CODEC.schema()

    assert schema["description"] == "A tree. With all that a document can hold."
    assert schema["properties"]["numbers"]["description"] == "Long."
    assert schema["properties"]["is_big"]["description"] == "Whether it is big."
    assert schema["$defs"]["Colour"]["oneOf"][0] == {"const": "deep_red", "description": "Red."}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": None}, "tree.name: expected a string, found null"),
        ({"name": 1}, "tree.name: expected a string, found 1"),
        ({"colour": "green"}, "tree.colour: expected one of deep_red, blue, found 'green'"),
        ({"colour": []}, "tree.colour: expected one of deep_red, blue, found list"),
        ({"age": True}, "tree.age: expected an integer of at most 64 bits, found True"),
        ({"age": 1.0}, "tree.age: expected an integer of at most 64 bits, found 1.0"),
        ({"age": 2**64}, "tree.age: expected an integer of at most 64 bits, found 1844"),
        ({"numbers": [1, "one"]}, "tree.numbers[1]: expected a number, found 'one'"),
        ({"numbers": [math.inf]}, "tree.numbers[0]: expected a number, found inf"),
        ({"numbers": [10**400]}, "tree.numbers[0]: expected a number, found 1000"),
        ({"numbers": {}}, "tree.numbers: expected a list, found dict"),
        ({"ends": [1]}, "tree.ends: expected a list of 2, found list"),
        ({"ends": [1, 2]}, "tree.ends[1]: expected a string, found 2"),
        ({"leaf": {"size": True}}, "tree.leaf.size: expected a number, found True"),
        ({"leaf": {}}, "tree.leaf: expected 'size', found no such entry"),
        (
            {"parts": [{"size": 1}]},
            "parts[0]: expected an object whose type is one of leaf, branch",
        ),
        ({"parts": [{"type": "leaf"}]}, "tree.parts[0]: expected 'size', found no such entry"),
        ({"by_colour": {"green": True}}, "tree.by_colour.green: expected one of"),
        ({"by_colour": {"blue": 1}}, "tree.by_colour.blue: expected true or false, found 1"),
        ({"more": 1}, "tree: expected one of name, colour, "),
        ({"se\x1ben": 1}, r"found an unknown entry 'se\\x1ben'"),
    ],
)
def test_what_is_otherwise_is_refused_by_its_place(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        CODEC.read({**written(MOST), **changed}, "tree", hint="plant again")


def test_two_classes_of_one_name_have_no_document() -> None:
    other = make_dataclass("Leaf", [("colour", Colour)])
    both = make_dataclass("Both", [("one", Leaf), ("two", other)])

    with pytest.raises(TypeError, match="another of this name"):
        Codec(both, {}).schema()
