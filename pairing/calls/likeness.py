"""How alike two calls are that own no weights: kind, outputs, class and path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role
from padiff.pairing.names import words_of
from padiff.pairing.tensors.sketch import closeness, sketches_of
from padiff.pairing.wordtable import WordTable

if TYPE_CHECKING:
    from padiff.pairing.view import View

__all__ = ["CallLikeness"]

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_BY_CHANCE = 0.8
"""Outputs whose statistics are no nearer than this say nothing: chance does it, too."""


class CallLikeness:
    """Scores of calls of one side with calls of the other, element by element."""

    def __init__(self, reference: View, candidate: View) -> None:
        """Gather what tells calls apart, in one pass over each side."""
        self.views = views = reference, candidate
        numbers: dict[str | None, int] = {None: -1}
        for view in views:
            for kind in view.kinds:
                numbers.setdefault(kind, len(numbers))
        kinds = [
            np.array([numbers[view.kind(c.id)] for c in view.calls], np.int64) for view in views
        ]
        holds = [np.array([bool(inner) for inner in view.inner], np.bool_) for view in views]
        outputs = [sketches_of(view, range(len(view.calls)), Role.OUTPUT) for view in views]
        hands_on = [
            np.array([v is not None and v == g for v, g in zip(*both, strict=True)], np.bool_)
            for both in ((view.made, view.given) for view in views)
        ]
        self._hands_on = hands_on[0], hands_on[1]
        self._kinds = kinds[0], kinds[1]
        self._holds = holds[0], holds[1]
        self._outputs = outputs[0], outputs[1]
        self._classes = WordTable(*(_class_words(view) for view in views))
        self._paths = WordTable(
            *([words_of(view.path(c.id)) for c in view.calls] for view in views)
        )

    def free(self, rows: Places, columns: Places) -> Floats:
        """Score calls without parameters; above 0 they may be partners."""
        kinds = self._kinds[0][rows], self._kinds[1][columns]
        is_known = (kinds[0] >= 0) & (kinds[1] >= 0)
        is_same_kind = is_known & (kinds[0] == kinds[1])
        is_same_size = self.is_same_size(rows, columns)
        is_possible = is_same_kind | (~is_known & is_same_size)
        is_possible &= self._holds[0][rows] == self._holds[1][columns]
        score = np.full(len(rows), -1.0)
        if not is_possible.any():
            return score
        near, classes = self._near(rows, columns), self._classes.likeness(rows, columns)
        is_possible &= is_same_kind | (near > 0) | (classes > 0)
        # A dropout that is not active is no activation, though it gives what that gives.
        is_same_job = self._hands_on[0][rows] == self._hands_on[1][columns]
        is_possible &= is_same_kind | is_same_job | (classes >= 1)
        known = np.where(is_same_kind, np.where(is_same_size, 1.0, 0.5), 0.4) + near
        alike = self._paths.likeness(rows[is_possible], columns[is_possible])
        score[is_possible] = known[is_possible] + 0.3 * alike
        return score

    def containers(self, rows: Places, columns: Places) -> Floats:
        """Score containers of the same content; always above 0."""
        kinds = self._kinds[0][rows], self._kinds[1][columns]
        score = 0.2 + self._near(rows, columns) + 0.3 * self.is_same_size(rows, columns)
        score += 1.0 * ((kinds[0] == kinds[1]) & (kinds[0] >= 0))
        score += self._classes.likeness(rows, columns)
        return np.asarray(score + self._paths.likeness(rows, columns))

    def is_same_size(self, rows: Places, columns: Places) -> npt.NDArray[np.bool_]:
        """Tell whether the largest outputs have as many elements, or both sides have none."""
        return np.asarray(self._outputs[0].size[rows] == self._outputs[1].size[columns])

    def _near(self, rows: Places, columns: Places) -> Floats:
        near = closeness(self._outputs[0], rows, self._outputs[1], columns)
        return np.maximum(near - _BY_CHANCE, 0.0) / (1 - _BY_CHANCE)


def _class_words(view: View) -> list[frozenset[str]]:
    words = [words_of(module.class_name) for module in view.modules]
    return [words[call.module] for call in view.calls]
