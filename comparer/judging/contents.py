"""What the indexes say of the contents of a pair before any element is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Content, Index, RecordInfo

from .forms import kind_of_name
from .partly import is_reordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing import RecordPair, Rule

__all__ = ["Contents"]

References = tuple[RecordInfo, ...]


class Contents:
    """The values of one step of both sides."""

    def __init__(self, reference: Index, candidate: Index) -> None:
        """Look up which values are not in the file as a whole."""
        self._values = reference.values, candidate.values
        self._lacking = _lacking(reference), _lacking(candidate)

    def are_of_one_form(self, pair: RecordPair, references: References, record: RecordInfo) -> bool:
        """Tell whether both are tensors of one shape and dtype, as they are: most pairs of most."""
        if len(references) != 1 or pair.rule.steps or pair.candidate_rule.steps:
            return False
        value, found = references[0].value, record.value
        if value is None or found is None or references[0].shape != record.shape:
            return False
        return self._values[0][value].dtype == self._values[1][found].dtype

    def are_equal(self, references: References, record: RecordInfo, rule: Rule) -> bool:
        """Tell whether the digests say that all bits are the same."""
        if not rule.is_identity or len(references) != 1 or references[0].shape != record.shape:
            return False
        known, found = references[0].value, record.value
        if known is None or found is None:
            return False
        expected, value = self._values[0][known], self._values[1][found]
        return expected.digest == value.digest and expected.dtype == value.dtype

    def lack_elements(self, references: References, record: RecordInfo) -> bool:
        """Tell whether not all elements of a pair were recorded."""
        if not (self._lacking[0] or self._lacking[1]):
            return False
        return record.value in self._lacking[1] or any(
            known.value in self._lacking[0] for known in references
        )

    def other_shape(
        self, references: Sequence[RecordInfo], record: RecordInfo, pair: RecordPair
    ) -> str:
        """Say that shapes do not fit, of which no element can be compared; empty if they do."""
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
        """Say that dtypes are of different kinds; empty if they are not."""
        found = self._values[1][record.value or 0].dtype
        for known in references:
            expected = self._values[0][known.value or 0].dtype
            if kind_of_name(expected) != kind_of_name(found):
                return f"dtype {expected} on the reference, {found} on the candidate"
        return ""


def _lacking(index: Index) -> frozenset[int | None]:
    """Give the values of which not all elements are in the file."""
    return frozenset(value.id for value in index.values if value.content is not Content.FULL)
