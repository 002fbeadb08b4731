"""Where a module stands, in terms that survive renaming: the ranks of the numbers on its path.

``layer1.0.conv2`` of one author and ``stages.0.layers.0.layer.1.convolution`` of another both
stand at (0, 0, 1): the first stage, its first block, the second convolution in it. A number counts
only among siblings that it tells apart, so that wrappers and single members add nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of
from padiff.pairing.names import innermost, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from padiff.dumpfile import ModuleInfo

__all__ = ["Place", "places_of", "ranks_of"]

_NUMBER = re.compile(r"(.*?)_?(\d{1,15})([a-z]?)", re.DOTALL)
_MIXED = re.compile(r"(?<![a-z\d])[a-z]*+\d++[a-z][a-z0-9]*+")
"""Tried only where a word begins, so that a long name takes no square of its length."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a module stands."""

    ranks: tuple[int, ...]
    """Rank among numbered siblings, on each level where there are several."""
    words: frozenset[str]
    """The words of the path, synonyms made one."""


def places_of(modules: Sequence[ModuleInfo], owners: Set[int]) -> dict[int, Place]:
    """Give the place of each module that owns parameters, by its id.

    Args:
        modules: All modules, parents first.
        owners: Ids of the modules that own parameters; branches without any do not count.
    """
    ranks = ranks_of(modules, owners)
    return {owner: Place(ranks[owner], _words(modules[owner].path)) for owner in owners}


def ranks_of(modules: Sequence[ModuleInfo], owners: Set[int]) -> dict[int, tuple[int, ...]]:
    """Give the ranks alone; only the owners and what is around them is looked at.

    Args:
        modules: All modules, parents first.
        owners: Ids of the modules that own parameters; branches without any do not count.
    """
    counted = _with_outer(modules, owners)
    keys = {number: _key(modules[number], owners) for number in counted}
    numbers: dict[tuple[int, str, str | None], set[tuple[int, str]]] = {}
    for key in keys.values():
        if key is not None:
            numbers.setdefault(key[0], set()).add(key[1])
    order = {
        key: {number: rank for rank, number in enumerate(sorted(found))}
        for key, found in numbers.items()
        if len(found) > 1
    }
    ranks: dict[int, tuple[int, ...]] = {}
    for module, key in keys.items():
        parent = modules[module].parent
        above = () if parent is None else ranks[parent]
        siblings = None if key is None else order.get(key[0])
        if key is not None and siblings is not None:
            above = (*above, siblings[key[1]])
        ranks[module] = above
    return ranks


def _with_outer(modules: Sequence[ModuleInfo], owners: Set[int]) -> list[int]:
    """Give some modules and all around them, the outermost first."""
    found = set(owners)
    for owner in owners:
        outer = modules[owner].parent
        while outer is not None and outer not in found:
            found.add(outer)
            outer = modules[outer].parent
    return sorted(found)


def _words(path: str) -> frozenset[str]:
    """Give the words of a path, with those in which numbers are a part of the name: ``3x3dbl``."""
    return words_of(path) | frozenset(_MIXED.findall(innermost(path).lower()))


def _key(
    module: ModuleInfo, owners: Set[int]
) -> tuple[tuple[int, str, str | None], tuple[int, str]] | None:
    """Group numbered siblings by stem, and modules with parameters also by kind."""
    match = _NUMBER.fullmatch(module.path.rpartition(".")[2])
    if match is None or module.parent is None:
        return None
    kind = kind_of(module) if module.id in owners else ""
    return (module.parent, match[1], kind), (int(match[2]), match[3])
