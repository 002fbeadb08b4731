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
        counts = [
            Counter(word for words in set(side) for word in words)
            for side in (reference, candidate)
        ]
        shared = sorted(
            counts[0].keys() & counts[1].keys(), key=lambda w: (-counts[0][w] - counts[1][w], w)
        )
        columns = {word: place for place, word in enumerate(shared[:_MAX_WORDS])}
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
    known: dict[tuple[frozenset[int], float], int] = {}
    numbers = np.empty(len(names), np.int64)
    of_words: dict[frozenset[str], int] = {}
    for place, words in enumerate(names):
        if words not in of_words:
            kept = frozenset(columns[word] for word in words if word in columns)
            of_words[words] = known.setdefault((kept, weight_of(words)), len(known))
        numbers[place] = of_words[words]
    rows = np.zeros((len(known), len(columns)), np.bool_)
    for (kept, _), number in known.items():
        rows[number, list(kept)] = True
    return numbers, rows, np.array([total for _, total in known])
