"""What the indexes and values of a pair decide before its elements are measured.

Shapes and kinds of dtypes, masks in other dtypes, and gradients that one side does not have: where
None agrees with zeros, and where it does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Content, Index, RecordInfo, Role
from padiff.pairing.rule import Rule
from padiff.pairing.steps import PICKING, Verb

from .partly import is_reordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing import RecordPair, Side

References = tuple[RecordInfo, ...]


class Contents:
    """The values of one step of both sides."""

    def __init__(self, reference: Index, candidate: Index) -> None:
        """Look up which values are not in the file as a whole."""
        self._values = reference.values, candidate.values
        self._lacking = _lacking(reference), _lacking(candidate)

    def lack_elements(self, references: References, record: RecordInfo) -> bool:
        """Return whether not all elements of a pair were recorded."""
        if not (self._lacking[0] or self._lacking[1]):
            return False
        return record.value in self._lacking[1] or any(
            known.value in self._lacking[0] for known in references
        )

    def other_shape(
        self, references: Sequence[RecordInfo], record: RecordInfo, pair: RecordPair
    ) -> str:
        """Report that shapes do not fit, of which no element can be compared; empty if they do."""
        rule = pair.rule
        shapes = [known.shape for known in references]
        lacks = self.lack_elements(tuple(references), record)
        is_other_order = lacks and is_reordered(shapes, record.shape, rule)
        target = pair.candidate_rule.shape_of([record.shape])
        if rule.fits(shapes, target) or is_other_order:
            return ""
        layout = "" if rule.is_identity else f" through the layout rule {str(rule)!r}"
        expected = " and ".join(str(shape) for shape in shapes)
        return f"shape {expected} on the reference, {record.shape} on the candidate{layout}"

    def other_kind(self, references: Sequence[RecordInfo], record: RecordInfo) -> str:
        """Report that dtypes are of different kinds; empty if they are not."""
        found = self._values[1][record.value or 0].dtype
        for known in references:
            expected = self._values[0][known.value or 0].dtype
            if kind_of_name(expected) != kind_of_name(found):
                return f"dtype {expected} on the reference, {found} on the candidate"
        return ""


def _lacking(index: Index) -> frozenset[int | None]:
    """Return the values of which not all elements are in the file."""
    return frozenset(value.id for value in index.values if value.content is not Content.FULL)


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
        """Report in words that an input is the same on both sides; ``""`` if it is not.

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
    """Describe what a mask of booleans says, if the other side's summand of the scores agrees.

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


UNUSED = (
    "None on the {lacking}, all zero in this part of the stack on the other side: they agree, "
    "though an optimizer decays a weight of zero gradient and skips one of None"
)

PARTLY_ABSENT = "layers without a gradient on the reference, taken as zeros in the stack"


def judge_absent(
    judged: JudgedPair,
    references: Sequence[RecordInfo],
    record: RecordInfo,
    rule: Rule,
    sides: tuple[Side, Side],
) -> JudgedPair:
    """Judge a pair of which at least one record holds no tensor."""
    absent = [known.value is None for known in references]
    if record.value is None and all(absent):
        return judged
    lacking = "candidate" if record.value is None else "reference"
    if record.role is Role.WEIGHT_GRAD:
        if record.value is None and not any(absent) and _is_zero_part(references, rule, sides[0]):
            return replace(judged, reason=UNUSED.format(lacking=lacking))
    elif _are_zero(sides[0].index, references) and _are_zero(sides[1].index, [record]):
        # Paddle gives zeros for an unused output of an operator with several, torch None. Of a
        # weight they are not the same: an optimizer skips None, but decays a weight of zeros.
        return replace(judged, reason=f"None on the {lacking}, all zero on the other side")
    reason = f"None on the {lacking}, a tensor on the other side"
    return replace(judged, verdict=Verdict.DIVERGED, reason=reason, fatal=True)


def is_partly_absent(references: Sequence[RecordInfo], record: RecordInfo) -> bool:
    """Return whether the candidate joins the gradients of layers of which some have none.

    Of experts in a list those that no token reached have no gradient, and of two layers the one
    whose result nobody uses; of what one parameter holds together they have a part of zeros.
    """
    known = {reference.shape for reference in references if reference.value is not None}
    is_joined = record.role is Role.WEIGHT_GRAD and len(references) > 1
    return is_joined and record.value is not None and len(known) == 1


def arrays_of(references: Sequence[RecordInfo], side: Side) -> list[Array]:
    """Read the reference's arrays, zeros for layers of a stack that have no gradient."""
    if len(references) == 1:
        return [side.array(references[0])]
    made = {known.id: side.array(known) for known in references if known.value is not None}
    if len(made) == len(references):
        return list(made.values())
    blank = np.zeros_like(next(iter(made.values())))
    return [made.get(known.id, blank) for known in references]


def _is_zero_part(references: Sequence[RecordInfo], rule: Rule, side: Side) -> bool:
    """Return whether the rule takes a part of zeros out of a stack."""
    # What is absent has no shape that the part could be laid out in.
    steps = tuple(step for step in rule.steps if step.verb is not Verb.RESHAPE or step.numbers)
    is_part = any(step.verb in PICKING for step in steps)
    if not is_part or len(references) != 1:
        return False
    return not np.any(Rule(steps).apply([side.array(references[0])]))


def _are_zero(index: Index, records: Sequence[RecordInfo]) -> bool:
    """Return whether gradients are None or nothing but zeros."""
    found = [index.values[record.value] for record in records if record.value is not None]
    return all(value.statistics.zeros == value.size for value in found)
