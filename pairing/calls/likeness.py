"""How alike two calls are that own no weights: kind, outputs, class and path."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role
from padiff.pairing.names import words_of
from padiff.pairing.tensors.sketch import Sketches, closeness, sketches_of
from padiff.pairing.wordtable import WordTable

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self._modules = _of_both(views, lambda view: [call.module for call in view.calls], np.int64)
        of_modules = _of_both(views, lambda view: [numbers[k] for k in view.kinds], np.int64)
        self._kinds = of_modules[0][self._modules[0]], of_modules[1][self._modules[1]]
        self._holds = _of_both(views, lambda view: [bool(inner) for inner in view.inner], np.bool_)
        self._hands_on = _of_both(views, _hands_on, np.bool_)
        outputs = [sketches_of(view, range(len(view.calls)), Role.OUTPUT) for view in views]
        self._outputs = outputs[0], outputs[1]
        modules = reference.modules, candidate.modules
        self._classes = WordTable(*([words_of(one.class_name) for one in side] for side in modules))
        self._paths = WordTable(*([words_of(one.path) for one in side] for side in modules))

    @cached_property
    def _inputs(self) -> tuple[Sketches, Sketches]:
        """What calls are given, once that is asked."""
        one, two = (sketches_of(view, range(len(view.calls)), Role.INPUT) for view in self.views)
        return one, two

    def free(self, rows: Places, columns: Places) -> Floats:
        """Score calls without parameters; above 0 they may be partners."""
        kinds = self._kinds[0][rows], self._kinds[1][columns]
        is_known = (kinds[0] >= 0) & (kinds[1] >= 0)
        is_same_kind = is_known & (kinds[0] == kinds[1])
        is_same_size = self.is_same_size(rows, columns)
        is_possible = is_same_kind | (~is_known & (is_same_size | self._is_namesake(rows, columns)))
        is_possible &= self._holds[0][rows] == self._holds[1][columns]
        score = np.full(len(rows), -1.0)
        if not is_possible.any():
            return score
        near, classes = self._near(rows, columns), self._said(self._classes, rows, columns)
        # Where nothing comes out, as spikes that are all 0, the same goes in.
        is_given = self._is_given(rows, columns) > 0
        is_possible &= is_same_kind | (near > 0) | (classes > 0) | is_given
        # A dropout that is not active is no activation, though it gives what that gives.
        is_same_job = self._hands_on[0][rows] == self._hands_on[1][columns]
        is_possible &= is_same_kind | is_same_job | (classes >= 1)
        known = np.where(is_same_kind, np.where(is_same_size, 1.0, 0.5), 0.4) + near
        alike = self._said(self._paths, rows[is_possible], columns[is_possible])
        score[is_possible] = known[is_possible] + 0.3 * alike
        return score

    def containers(self, rows: Places, columns: Places) -> Floats:
        """Score containers of the same content; always above 0.

        A fault inside changes what a container gives, not what it is given.
        """
        kinds = self._kinds[0][rows], self._kinds[1][columns]
        score = 0.2 + self._near(rows, columns) + 0.3 * self.is_same_size(rows, columns)
        score += self._is_given(rows, columns)
        score += 1.0 * ((kinds[0] == kinds[1]) & (kinds[0] >= 0))
        score += self._said(self._classes, rows, columns)
        return np.asarray(score + self._said(self._paths, rows, columns))

    def is_same_size(self, rows: Places, columns: Places) -> npt.NDArray[np.bool_]:
        """Tell whether the largest outputs have as many elements, or both sides have none."""
        return np.asarray(self._outputs[0].size[rows] == self._outputs[1].size[columns])

    def _is_namesake(self, rows: Places, columns: Places) -> npt.NDArray[np.bool_]:
        """Tell whether path and class say the same: one has a row where another has a batch."""
        alike = [self._said(table, rows, columns) for table in (self._paths, self._classes)]
        return (alike[0] >= 1) & (alike[1] >= 1)

    def _said(self, table: WordTable, rows: Places, columns: Places) -> Floats:
        """Compare the words of the modules of calls."""
        return table.likeness(self._modules[0][rows], self._modules[1][columns])

    def _near(self, rows: Places, columns: Places) -> Floats:
        near = closeness(self._outputs[0], rows, self._outputs[1], columns)
        return np.maximum(near - _BY_CHANCE, 0.0) / (1 - _BY_CHANCE)

    def _is_given(self, rows: Places, columns: Places) -> Floats:
        """Say how near the largest inputs are, as far as that is no chance."""
        near = closeness(self._inputs[0], rows, self._inputs[1], columns)
        is_same_size = self._inputs[0].size[rows] == self._inputs[1].size[columns]
        return np.where(is_same_size, np.maximum(near - _BY_CHANCE, 0.0) / (1 - _BY_CHANCE), 0.0)


def _hands_on(view: View) -> list[bool]:
    """Tell of each call whether it gives what it was given."""
    both = zip(view.made, view.given, strict=True)
    return [made is not None and made == given for made, given in both]


def _of_both(
    views: tuple[View, View], told: Callable[[View], list[Any]], kind: type[np.generic]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.array(told(views[0]), kind), np.array(told(views[1]), kind)
