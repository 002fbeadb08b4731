"""What singles a pair of modules out whatever is around it: names, weights, outputs."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from padiff.pairing.names import innermost, likeness, words_of
from padiff.pairing.tensors.sketch import alikeness

if TYPE_CHECKING:
    from collections.abc import Hashable

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.view import View

__all__ = ["Telling", "numbers_in"]

_NAMED = 0.8
"""Paths this alike, numbers included, are those of partners."""
_CONFIRMED = 0.97
"""Outputs whose statistics are this near are those of partners."""
_NUMBER = re.compile(r"\d{1,15}")


class Telling:
    """Finds the pairs that evidence of their own confirms, and that no other module shares."""

    def __init__(self, reference: View, candidate: View) -> None:
        self._views = reference, candidate
        self._names = tuple(
            Counter(_name(m.path) for m in view.modules if not view.children[m.id])
            for view in self._views
        )
        self.held = [
            [_weights_of(view, module) for module in range(len(view.modules))]
            for view in self._views
        ]
        """A key of the weights of each module of each side, None where they say nothing."""
        self._weights = tuple(
            Counter(key for key, owned in zip(held, view.weights, strict=True) if owned)
            for held, view in zip(self.held, self._views, strict=True)
        )

    def confirms(
        self, one: int, two: int, outputs: tuple[RecordInfo | None, RecordInfo | None]
    ) -> bool:
        """Tell whether two modules are told by their names or weights, or layers by their outputs.

        Args:
            one: Module of the reference.
            two: Module of the candidate.
            outputs: What the first call of each gave.
        """
        weights = self.held[0][one], self.held[1][two]
        if weights[0] is not None and weights[0] == weights[1]:
            counts = [side[weights[0]] for side in self._weights]
            if counts == [1, 1]:
                return True
        elif any(
            mine is not None and side[mine] == 1
            for mine, side in zip(weights, self._weights[::-1], strict=True)
        ):
            return False
        if self._are_namesakes(one, two):
            return True
        if not self._views[0].weights[one] or outputs[0] is None or outputs[1] is None:
            return False
        near = alikeness(self._views[0], outputs[0], self._views[1], outputs[1])
        return near is not None and near >= _CONFIRMED

    def _are_namesakes(self, one: int, two: int) -> bool:
        names = [
            _name(view.modules[m].path) for view, m in zip(self._views, (one, two), strict=True)
        ]
        if names[0] == names[1]:
            return bool(names[0][0]) and [side[names[0]] for side in self._names] == [1, 1]
        if names[0] in self._names[1] or names[1] in self._names[0]:
            return False
        return names[0][1] == names[1][1] and likeness(names[0][0], names[1][0]) >= _NAMED


def _name(path: str) -> tuple[frozenset[str], tuple[int, ...]]:
    return words_of(path), numbers_in(path)


@lru_cache(maxsize=65536)
def numbers_in(path: str) -> tuple[int, ...]:
    """Give the numbers on a path.

    >>> numbers_in("layers.3.conv1")
    (3, 1)
    """
    return tuple(map(int, _NUMBER.findall(innermost(path))))


def _weights_of(view: View, module: int) -> Hashable | None:
    """Give a key of a module's weights that no layout changes; None where they say nothing."""
    found = []
    for record in view.weights[module]:
        value = view.records[record].value
        statistics = None if value is None else view.values[value].statistics
        if statistics is None or statistics.minimum is None:
            return None
        if statistics.minimum != statistics.maximum:
            found.append((view.values[value or 0].size, statistics.minimum, statistics.maximum))
    return tuple(sorted(found)) or None
