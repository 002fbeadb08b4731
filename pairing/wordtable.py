"""The likeness of many names of one side with many of the other, by whole arrays."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .names import weight_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["WordTable"]

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_MAX_WORDS = 256
"""So many of the words that both sides use are compared, the most frequent ones."""


class WordTable:
    """The words of two lists of names.

    >>> table = WordTable([frozenset({"q", "attn"})], [frozenset({"q"}), frozenset({"k"})])
    >>> table.likeness(np.array([0, 0]), np.array([0, 1])).tolist()
    [0.5, 0.0]
    """

    def __init__(
        self, reference: Sequence[frozenset[str]], candidate: Sequence[frozenset[str]]
    ) -> None:
        """Take both lists; names of no words are like nothing."""
        sides = [set(side) for side in (reference, candidate)]
        shared = frozenset().union(*sides[0]) & frozenset().union(*sides[1])
        if len(shared) > _MAX_WORDS:
            counts = Counter(word for side in sides for words in side for word in words & shared)
            shared = frozenset(sorted(shared, key=lambda word: (-counts[word], word))[:_MAX_WORDS])
        columns = {word: place for place, word in enumerate(sorted(shared))}
        self._weights = np.array([weight_of([word]) for word in columns])
        self._numbers, self._rows, self._totals = zip(
            _encoded(reference, columns), _encoded(candidate, columns), strict=True
        )

    def likeness(self, rows: Places, columns: Places) -> Floats:
        """Give the weighted share of common words, in [0, 1], element by element."""
        if not len(self._weights):
            return np.zeros(len(rows))
        one, two = self._numbers[0][rows], self._numbers[1][columns]
        common = (self._rows[0][one] & self._rows[1][two]) @ self._weights
        union = self._totals[0][one] + self._totals[1][two] - common
        return np.asarray(np.divide(common, union, out=np.zeros_like(union), where=union > 0))


def _encoded(
    names: Sequence[frozenset[str]], columns: dict[str, int]
) -> tuple[Places, npt.NDArray[np.bool_], Floats]:
    """Give for each name the row of its words, the rows, and what all words of each row weigh."""
    known: dict[tuple[frozenset[str], float], int] = {}
    of_words: dict[frozenset[str], int] = {}
    kept = frozenset(columns)
    for words in dict.fromkeys(names):
        of_words[words] = known.setdefault((words & kept, weight_of(words)), len(known))
    numbers = np.array([of_words[words] for words in names], np.int64)
    rows = np.zeros((len(known), len(columns)), np.bool_)
    for (words, _), number in known.items():
        rows[number, [columns[word] for word in words]] = True
    return numbers, rows, np.array([total for _, total in known])
