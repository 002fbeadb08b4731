"""Where the units of one side stand, in terms that survive renaming.

Ranks and words are worked out when they are first asked for: where modules are known to be
partners nobody asks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from padiff.pairing.calls.places import ranks_of
from padiff.pairing.names import innermost, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from padiff.dumpfile import ModuleInfo

__all__ = ["Standing"]

_MIXED = re.compile(r"(?<![a-z\d])[a-z]*+\d++[a-z][a-z0-9]*+")
"""Tried only where a word begins, so that a long name takes no square of its length."""


class Standing:
    """The places of the modules of one side that own parameters."""

    def __init__(self, modules: Sequence[ModuleInfo], owners: Set[int]) -> None:
        """Take the modules.

        Args:
            modules: All of them, parents first.
            owners: Ids of those that own parameters; branches without any do not count.
        """
        self._modules = modules
        self._owners = owners
        self._ranks: Mapping[int, tuple[int, ...]] | None = None

    def ranks(self, module: int) -> tuple[int, ...]:
        """Give the rank among numbered siblings, on each level where there are several."""
        if self._ranks is None:
            self._ranks = ranks_of(self._modules, self._owners)
        return self._ranks[module]

    def words(self, module: int) -> frozenset[str]:
        """Give the words of the path, synonyms made one."""
        return _words(self._modules[module].path)


@lru_cache(maxsize=65536)
def _words(path: str) -> frozenset[str]:
    """Give the words of a path, with those in which numbers are a part of the name: ``3x3dbl``."""
    return words_of(path) | frozenset(_MIXED.findall(innermost(path).lower()))
