"""Patterns of module paths in map files: ``layers.{i}.q``, ``backbone.**``, ``**.dropout``.

Matching takes time that grows with the product of the lengths of path and pattern, where a regular
expression of several open parts may try every way to divide a path among them. The places from
which the rest of the pattern matches are worked out from its end, as the bits of one integer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from padiff.dumpfile import ConfigError


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
    """Return what is captured, None if the path does not match as a whole.

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
    """Return the places from which a part leads to one of those in ``rest``."""
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
    """Return the places from which one in ``rest`` is reached without passing a dot."""
    found, start = 0, 0
    for component in path.split("."):
        stop = start + len(component)
        inside = (rest >> start) & ((2 << (stop - start)) - 1)
        found |= _up_to_last(inside) << start
        start = stop + 1
    return found


def _longest(part: Part, rest: int, path: str, place: int) -> int:
    """Return the last place in ``rest`` to which a part leads from a place that is good."""
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


_PART = re.compile(r"\{(\w*)\}|\*\*|\*|\?|[^*?{}]+|[{}]")


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A dotted path in which parts are left open.

    ``*`` is any text without a dot, ``?`` one character of it, ``**`` any number of components
    (none included), ``{name}`` one component that is captured.
    """

    text: str
    parts: tuple[Part, ...]
    captures: frozenset[str]
    """Names of the captures."""

    @classmethod
    def parse(cls, text: str) -> PathPattern:
        """Read a pattern; ``(root)`` is the root module.

        Raises:
            ConfigError: A brace is not closed, or a capture has no proper name.
        """
        parts: list[Part] = []
        seen: set[str] = set()
        for match in _PART.finditer("" if text == "(root)" else text):
            part, name = match[0], match[1]
            if name is not None and (name in seen or not name.isidentifier()):
                raise ConfigError(f"cannot read the pattern {text!r}: bad capture {part!r}")
            if part in {"{", "}"}:
                raise ConfigError(f"cannot read the pattern {text!r}: stray {part!r}")
            parts.append(_part(part, name))
            seen.update([name] if name else [])
        return cls(text, tuple(_joined(parts)), frozenset(seen))

    def match(self, path: str) -> dict[str, str] | None:
        """Return the captured components of a path, None if the pattern does not match it."""
        if self.is_literal:
            return {} if path == self.path else None
        both = self.parts[0], self.parts[-1]
        begins, ends = (part.text if part.kind is Kind.TEXT else "" for part in both)
        if not (path.startswith(begins) and path.endswith(ends)):
            return None  # that much tells of most paths
        return match_parts(self.parts, path)

    @property
    def is_literal(self) -> bool:
        """Return whether the pattern is the path that it matches."""
        return all(part.kind is Kind.TEXT for part in self.parts)

    @property
    def path(self) -> str:
        """Return the path that a literal pattern stands for."""
        return "" if self.text == "(root)" else self.text


def _part(text: str, name: str | None) -> Part:
    if name is not None:
        return Part(Kind.CAPTURE, name)
    open_kind = {"**": Kind.ANY, "*": Kind.COMPONENT, "?": Kind.CHARACTER}.get(text)
    return Part(Kind.TEXT, text) if open_kind is None else Part(open_kind)


def _joined(parts: list[Part]) -> Iterator[Part]:
    """Let ``**`` next to a dot stand for no component at all, too."""
    rest = list(reversed(parts))
    while rest:
        part = rest.pop()
        after = rest[-1] if rest else None
        if part.kind is Kind.ANY and after is not None and after.text.startswith("."):
            rest[-1] = Part(Kind.TEXT, after.text[1:])
            yield Part(Kind.ABOVE)
        elif part.kind is Kind.TEXT and part.text.endswith(".") and _is_any(after):
            rest.pop()
            yield Part(Kind.TEXT, part.text[:-1])
            yield Part(Kind.BELOW)
        else:
            yield part


def _is_any(part: Part | None) -> bool:
    return part is not None and part.kind is Kind.ANY


Names = tuple[str, ...]
"""Dotted names that belong together, one of each place: reference and candidate, say."""
Spot = tuple[int, int]
"""Which of the names, and which of its parts; the numbers are the odd ones."""
_NUMBER = re.compile(r"([0-9]+)")
_CAPTURES = "ijklmnpqrstuvw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Members that one pattern per place describes."""

    patterns: Names
    members: tuple[Names, ...]
    """In the order in which they were given."""


def fold(members: Iterable[Names]) -> list[Family]:
    """Group names that differ only in numbers, the same numbers in each place.

    A number that is the same in all members stays a number; one that varies becomes a capture if
    each of the names has it. What does not fold is a family of one. In the order of the first
    member.

    >>> [f.patterns for f in fold([("a.0.q", "b.0"), ("a.1.q", "b.1"), ("a.1.k", "c")])]
    [('a.{i}.q', 'b.{i}'), ('a.1.k', 'c')]
    """
    groups: dict[Names, list[Names]] = defaultdict(list)
    for names in members:
        groups[tuple(map(_stem, names))].append(names)
    return [family for group in groups.values() for family in _split(group)]


def _stem(name: str) -> str:
    return _NUMBER.sub("#", name)


def _split(group: Sequence[Names]) -> list[Family]:
    """Find one pattern for the group, or for parts of it that agree in one more number."""
    if len(group) == 1:
        return [Family(patterns=group[0], members=(group[0],))]
    rows = [[_NUMBER.split(name) for name in names] for names in group]
    columns = _varying(rows)
    everywhere = list(range(len(group[0])))
    for said, spots in columns.items():
        if [place for place, _ in spots] != everywhere:
            return _parts(group, said)
    if len(columns) > len(_CAPTURES):
        return [Family(patterns=names, members=(names,)) for names in group]
    made = [list(parts) for parts in rows[0]]
    for capture, spots in zip(_CAPTURES, columns.values(), strict=False):
        for place, spot in spots:
            made[place][spot] = f"{{{capture}}}"
    return [Family(patterns=tuple(map("".join, made)), members=tuple(group))]


def _varying(rows: Sequence[Sequence[Sequence[str]]]) -> dict[tuple[str, ...], list[Spot]]:
    """Return the numbers that differ between members, and where each such series stands."""
    columns: dict[tuple[str, ...], list[Spot]] = defaultdict(list)
    for place, parts in enumerate(rows[0]):
        for spot in range(1, len(parts), 2):
            said = tuple(row[place][spot] for row in rows)
            if len(set(said)) > 1:
                columns[said].append((place, spot))
    return columns


def _parts(group: Sequence[Names], said: Sequence[str]) -> list[Family]:
    parts: dict[str, list[Names]] = defaultdict(list)
    for names, number in zip(group, said, strict=True):
        parts[number].append(names)
    return [family for part in parts.values() for family in _split(part)]
