"""Numbered runs of names as one pattern: ``layers.0.q``, ``layers.1.q`` as ``layers.{i}.q``."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Family", "Names", "fold"]

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
    """Give the numbers that differ between members, and where each such series stands."""
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
