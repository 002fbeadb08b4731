"""Patterns of paths: what they match and capture, in bounded time whatever they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.pairing.maps.pattern import Kind, Part, PathPattern

EXPRESSIONS = {
    Kind.CHARACTER: "[^.]",
    Kind.COMPONENT: "[^.]*",
    Kind.ANY: ".*",
    Kind.ABOVE: r"(?:.*\.)?",
    Kind.BELOW: r"(?:\..*)?",
}
WORDS = ["a", "b", ".", "*", "**", "?", "{i}", "a.", ".b", "ab"]


@given(st.lists(st.sampled_from(WORDS), max_size=8), st.text("ab.", max_size=10))
@settings(max_examples=600, deadline=None)
def test_a_pattern_matches_what_a_regular_expression_matches(words: list[str], path: str) -> None:
    text = "".join(words)
    text = text.replace("{i}", "*", max(text.count("{i}") - 1, 0))
    pattern = PathPattern.parse(text)

    found = re.fullmatch("".join(map(expression, pattern.parts)), path)

    assert pattern.match(path) == (None if found is None else found.groupdict())


def expression(part: Part) -> str:
    """Write a part of a pattern as a regular expression."""
    if part.kind is Kind.TEXT:
        return re.escape(part.text)
    return EXPRESSIONS.get(part.kind, f"(?P<{part.text}>[^.]+)")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("**a" * 30 + "b", "a" * 3000),
        ("*a" * 30 + "b", "a" * 3000),
        ("**.a." * 20 + "b", "a." * 2000 + "c"),
        ("{i}a*b" * 1 + "*a" * 20, "a" * 3000 + "b"),
    ],
)
def test_no_pattern_takes_for_ever(text: str, path: str) -> None:
    assert PathPattern.parse(text).match(path) is None


def test_a_pattern_captures_the_same_in_long_paths() -> None:
    pattern = PathPattern.parse("**.layers.{i}.**.out?.*")
    path = "m." * 200 + "layers.12." + "n." * 200 + "out3.weight"

    assert pattern.match(path) == {"i": "12"}
    assert pattern.match(path.replace("out3", "in")) is None
    assert pattern.match("x.layers.12.y.out3.weight") == {"i": "12"}


def test_a_path_that_leaves_nothing_open_matches_itself() -> None:
    path = "0." * 500 + "weight"

    pattern = PathPattern.parse(path)

    assert (pattern.is_literal, pattern.match(path)) == (True, {})
    assert pattern.match(path.removesuffix("t")) is None
    assert not PathPattern.parse(f"{path}.*").is_literal
