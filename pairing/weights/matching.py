"""A growing one-to-one matching between two sets of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.pairing.result import PairedBy

__all__ = ["Matching"]


class Matching:
    """Pairs of ids, each id in at most one of them."""

    def __init__(self) -> None:
        self.ahead: dict[int, int] = {}
        """Candidate id by reference id."""
        self.back: dict[int, int] = {}
        """Reference id by candidate id."""
        self.by: dict[int, PairedBy] = {}
        """Evidence by reference id."""

    def add(self, reference: int, candidate: int, by: PairedBy) -> bool:
        """Add a pair unless one of the two has a partner already; say whether it was added."""
        if reference in self.ahead or candidate in self.back:
            return False
        self.ahead[reference] = candidate
        self.back[candidate] = reference
        self.by[reference] = by
        return True

    def drop(self, reference: int) -> None:
        """Take a pair out."""
        del self.back[self.ahead.pop(reference)], self.by[reference]

    def has(self, reference: int, candidate: int) -> bool:
        """Tell whether the two are partners."""
        return self.ahead.get(reference) == candidate

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Give the pairs, ascending by reference."""
        return iter(sorted(self.ahead.items()))

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.ahead)

    def reversed(self) -> Matching:
        """Give the same pairs with the sides exchanged."""
        found = Matching()
        for reference, candidate in self:
            found.add(candidate, reference, self.by[reference])
        return found
