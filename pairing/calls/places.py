"""Where a module stands, in terms that survive renaming: the ranks of the numbers on its path.

``layer1.0.conv2`` of one author and ``stages.0.layers.0.layer.1.convolution`` of another both
stand at (0, 0, 1): the first stage, its first block, the second convolution in it. A number counts
only among siblings that it tells apart, so that wrappers and single members add nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from padiff.dumpfile import ModuleInfo

__all__ = ["ranks_of"]

_NUMBER = re.compile(r"(.*?)_?(\d{1,15})([a-z]?)", re.DOTALL)


def ranks_of(modules: Sequence[ModuleInfo], owners: Set[int]) -> dict[int, tuple[int, ...]]:
    """Give the ranks; only the owners and what is around them is looked at.

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


def _key(
    module: ModuleInfo, owners: Set[int]
) -> tuple[tuple[int, str, str | None], tuple[int, str]] | None:
    """Group numbered siblings by stem, and modules with parameters also by kind."""
    numbered = None if module.parent is None else _numbered(module.path.rpartition(".")[2])
    if numbered is None or module.parent is None:
        return None
    stem, number = numbered
    kind = kind_of(module) if module.id in owners else ""
    return (module.parent, stem, kind), number


@lru_cache(maxsize=65536)
def _numbered(name: str) -> tuple[str, tuple[int, str]] | None:
    """Give the stem of a name, and its number with what follows that; None without a number."""
    match = _NUMBER.fullmatch(name)
    return None if match is None else (match[1], (int(match[2]), match[3]))
