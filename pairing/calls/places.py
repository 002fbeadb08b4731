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

__all__ = ["Place", "places_of"]

_NUMBER = re.compile(r"(.*?)_?(\d{1,15})([a-z]?)", re.DOTALL)
_MIXED = re.compile(r"[a-z]*\d+[a-z][a-z0-9]*")


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
    counted = set(owners)
    for module in reversed(modules):
        if module.id in counted and module.parent is not None:
            counted.add(module.parent)
    ranks: list[tuple[int, ...]] = [()] * len(modules)
    numbers: dict[tuple[int, str, str | None], set[tuple[int, str]]] = {}
    keys = [_key(module, owners) for module in modules]
    for module, key in zip(modules, keys, strict=True):
        if module.id in counted and key is not None:
            numbers.setdefault(key[0], set()).add(key[1])
    order = {
        key: {number: rank for rank, number in enumerate(sorted(found))}
        for key, found in numbers.items()
    }
    for module, key in zip(modules, keys, strict=True):
        above = () if module.parent is None else ranks[module.parent]
        siblings = {} if key is None else order.get(key[0], {})
        rank = siblings.get(key[1]) if key is not None and len(siblings) > 1 else None
        ranks[module.id] = above if rank is None else (*above, rank)
    return {owner: Place(ranks[owner], _words(modules[owner].path)) for owner in owners}


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
