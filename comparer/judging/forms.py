"""Inputs that both sides give in dtypes of different kinds: masks, positions, flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Content, RecordInfo, Role

if TYPE_CHECKING:
    from padiff.pairing import Side

__all__ = ["Forms", "kind_of_name"]

Array = npt.NDArray[Any]
MASKED = -9e3
"""What is added to an attention's scores to mask them is below this, what masks nothing is 0. BERT
adds -1e4; others the least number of a dtype, -65504 in float16, or -inf."""


class Forms:
    """Tells where two tensors say the same in dtypes that cannot be compared element by element.

    One implementation of an attention takes a mask of booleans, another one of numbers to add, a
    third one of ones and zeros. Each pair of values is looked at once, however often it is given.
    """

    def __init__(self, reference: Side, candidate: Side) -> None:
        """Look at nothing yet."""
        self._reference, self._candidate = reference, candidate
        self._known: dict[tuple[int, int], str] = {}

    def same(self, known: RecordInfo, found: RecordInfo) -> str:
        """Say in words that an input is the same on both sides; ``""`` if it is not.

        Args:
            known: Of the reference, with a value.
            found: Of the candidate, with a value of the same shape and a dtype of another kind.
        """
        if known.role is not Role.INPUT or None in (known.value, found.value):
            return ""
        key = known.value or 0, found.value or 0
        if key not in self._known:
            self._known[key] = self._look(known, found)
        return self._known[key]

    def _look(self, known: RecordInfo, found: RecordInfo) -> str:
        values = (
            self._reference.index.values[known.value or 0],
            self._candidate.index.values[found.value or 0],
        )
        if known.shape != found.shape or any(one.content is not Content.FULL for one in values):
            return ""
        sides = self._reference.array(known), self._candidate.array(found)
        if any(np.iscomplexobj(side) for side in sides):
            return ""
        names = f"{values[0].dtype} on the reference, {values[1].dtype} on the candidate"
        if bool((sides[0] == sides[1]).all()):
            return f"the same elements, {names}"
        is_bool = [side.dtype == np.bool_ for side in sides]
        if is_bool == [True, False]:
            return _masks(sides[0], sides[1], names)
        return _masks(sides[1], sides[0], names) if is_bool == [False, True] else ""


def _masks(flags: Array, added: Array, names: str) -> str:
    """Say of a mask of booleans what it says, if what the other side adds to the scores agrees.

    True keeps, as 0 does. Where it drops, only executing both programs can tell that both masks are
    right.
    """
    is_free, is_masked = added == 0, added <= MASKED
    if not bool((is_free | is_masked).all()) or not bool((flags == is_free).all()):
        return ""
    return f"the same mask, {names}, where true masks nothing"


def kind_of_name(dtype: str) -> str:
    """Name the kind of a dtype that a dump states; ``metrics.kind_of_dtype`` for names."""
    for prefix in ("bool", "complex"):
        if dtype.startswith(prefix):
            return prefix
    return "integer" if dtype.startswith(("int", "uint")) else "float"
