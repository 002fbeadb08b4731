"""What records are the sums of, as one object each or as columns of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile.bulk import build_all

if TYPE_CHECKING:
    from .blocks import Array

__all__ = ["SumColumns", "Sums"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a record is the sum of."""

    size: float = 0.0
    """What its elements are about, before anything cancels, at least the largest one's size."""
    calls: int = 0
    """How many layers had been computed before it, each of which rounds its result; those of the
    backward pass count twice. Not all of them need to have led to it: it is an upper bound."""
    terms: int = 0
    """How many terms the sums in all those layers and in itself have, one element of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumColumns:
    """What many records are the sums of; ``Sums`` says what the columns mean."""

    size: Array
    """float64."""
    calls: Array
    """int64."""
    terms: Array
    """int64, or Python's integers where that could not hold them."""

    def rows(self, at: Array | slice) -> list[Sums]:
        """Make objects of some rows."""
        size, calls, terms = (column[at] for column in (self.size, self.calls, self.terms))
        return build_all(
            Sums, len(size), size=size.tolist(), calls=calls.tolist(), terms=terms.tolist()
        )
