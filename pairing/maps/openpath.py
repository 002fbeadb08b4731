"""Match a path against a pattern in time that grows with the product of their lengths.

A regular expression of several open parts may try every way to divide a path among them: a pattern
and a path from somebody who means harm would keep it busy for years. Here the places from which
the rest of the pattern matches are worked out from its end, as the bits of one integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Kind", "Part", "match_parts"]


class Kind(Enum):
    """What a part of a pattern stands for."""

    TEXT = auto()
    """Itself."""
    CHARACTER = auto()
    """One character, no dot."""
    COMPONENT = auto()
    """Any characters but dots."""
    CAPTURE = auto()
    """At least one character, no dot; captured."""
    ANY = auto()
    """Any characters."""
    ABOVE = auto()
    """Nothing, or any characters that end in a dot."""
    BELOW = auto()
    """Nothing, or a dot and any characters."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a pattern."""

    kind: Kind
    text: str = ""
    """Of a text: itself; of a capture: its name."""


def match_parts(parts: Sequence[Part], path: str) -> dict[str, str] | None:
    """Give what is captured, None if the path does not match as a whole.

    Args:
        parts: Of the pattern, in order; each takes as much as it can, the first ones first.
        path: Any text.
    """
    dots = sum(1 << place for place, char in enumerate(path) if char == ".")
    good = [1 << len(path)]  # places from which the rest matches, for each rest, the last first
    for part in reversed(parts):
        good.append(_before(part, good[-1], path, dots))
    good.reverse()
    if not good[0] & 1:
        return None
    found: dict[str, str] = {}
    place = 0
    for part, rest in zip(parts, good[1:], strict=True):
        after = _longest(part, rest, path, place)
        if part.kind is Kind.CAPTURE:
            found[part.text] = path[place:after]
        place = after
    return found


def _before(part: Part, rest: int, path: str, dots: int) -> int:
    """Give the places from which a part leads to one of those in ``rest``."""
    whole = (1 << len(path)) - 1
    match part.kind:
        case Kind.TEXT:
            found = (rest >> len(part.text)) & _occurrences(part.text, path)
        case Kind.CHARACTER:
            found = (rest >> 1) & whole & ~dots
        case Kind.COMPONENT:
            found = _within_components(rest, path)
        case Kind.CAPTURE:
            found = (_within_components(rest, path) >> 1) & whole & ~dots
        case Kind.ANY:
            found = _up_to_last(rest)
        case Kind.ABOVE:
            found = rest | (_up_to_last(rest & (dots << 1)) >> 1)
        case Kind.BELOW:
            found = rest | ((_up_to_last(rest) >> 1) & dots)
    return found


def _up_to_last(rest: int) -> int:
    return (1 << rest.bit_length()) - 1


def _occurrences(text: str, path: str) -> int:
    found, place = 0, path.find(text)
    while place >= 0:
        found |= 1 << place
        place = path.find(text, place + 1)
    return found


def _within_components(rest: int, path: str) -> int:
    """Give the places from which one in ``rest`` is reached without passing a dot."""
    found, start = 0, 0
    for component in path.split("."):
        stop = start + len(component)
        inside = (rest >> start) & ((2 << (stop - start)) - 1)
        found |= _up_to_last(inside) << start
        start = stop + 1
    return found


def _longest(part: Part, rest: int, path: str, place: int) -> int:
    """Give the last place in ``rest`` to which a part leads from a place that is good."""
    match part.kind:
        case Kind.TEXT:
            return place + len(part.text)
        case Kind.CHARACTER:
            return place + 1
        case Kind.COMPONENT | Kind.CAPTURE:
            stop = path.find(".", place)
            rest &= (2 << (len(path) if stop < 0 else stop)) - 1
            return rest.bit_length() - 1
        case Kind.ANY:
            return rest.bit_length() - 1
        case Kind.ABOVE:
            ends = sum(1 << at + 1 for at, char in enumerate(path) if char == "." and at >= place)
            return max(place, (rest & ends).bit_length() - 1)
        case Kind.BELOW:
            is_dot = path[place : place + 1] == "."
            last = rest.bit_length() - 1
            return last if is_dot and last > place else place
